//! How many Actors this host has and takes: the count behind `actor_limit` (RL-83, RL-313).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;

use crate::core::Core;
use crate::error::Error;

/// The Actors that live here and those that are on their way to it, against the limit.
#[derive(Debug)]
pub(crate) struct Capacity {
    /// 0 is none.
    limit: u32,
    live: AtomicU32,
    reserved: AtomicU32,
    /// Says that the last room that was reserved has been given back.
    settled: Notify,
    /// Says that the host has become full, or has room again.
    edge: Notify,
}

/// Why an Actor is not taken.
#[derive(Debug)]
pub(crate) enum NoRoom {
    /// The host takes no objects now (RL-227).
    NotServing(Error),
    /// It is full.
    Full(Full),
}

/// A host that has as many Actors as it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) count: u32,
    pub(crate) limit: u32,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, limit } = self;
        write!(
            f,
            "it has {count} actors, at most {limit} are allowed (actor_limit)"
        )
    }
}

/// Room for one Actor that is being created or comes from another node; given back when it is dropped. The Actor counts by
/// itself once it is there.
#[derive(Debug)]
pub(crate) struct Room(Arc<Capacity>);

impl Capacity {
    pub(crate) fn new(limit: u32) -> Arc<Self> {
        Arc::new(Self {
            limit,
            live: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            settled: Notify::new(),
            edge: Notify::new(),
        })
    }

    /// Actors that live here.
    pub(crate) fn live(&self) -> u32 {
        self.live.load(Ordering::SeqCst)
    }

    /// Actors on their way to it.
    pub(crate) fn reserved(&self) -> u32 {
        self.reserved.load(Ordering::SeqCst)
    }

    pub(crate) const fn limit(&self) -> u32 {
        self.limit
    }

    /// What is in the way of one more.
    pub(crate) fn full(&self) -> Option<Full> {
        let count = self.live().saturating_add(self.reserved());
        (self.limit != 0 && count >= self.limit).then_some(Full {
            count,
            limit: self.limit,
        })
    }

    pub(crate) fn came(&self) {
        self.live.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn left(&self) {
        let was_full = self.full().is_some();
        self.live.fetch_sub(1, Ordering::SeqCst);
        if was_full {
            self.edge.notify_one();
        }
    }

    /// Waits until nothing is on its way that was let in before.
    pub(crate) async fn settled(&self) {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            settled.as_mut().enable();
            if self.reserved() == 0 {
                return;
            }
            settled.await;
        }
    }

    /// Waits until the host has become full or has room again.
    pub(crate) async fn crossed(&self) {
        self.edge.notified().await;
    }

    /// Room for one more (RL-83); the host's own count decides.
    pub(crate) fn take(core: &Core) -> Result<Room, NoRoom> {
        let this = &core.capacity;
        let before = this.reserved.fetch_add(1, Ordering::SeqCst);
        let room = Room(Arc::clone(this));
        // RL-192: counted first and looked at then, so whoever stops placements sees each one that was let in.
        core.must_take_objects().map_err(NoRoom::NotServing)?;
        let count = before.saturating_add(this.live());
        if this.limit != 0 && count >= this.limit {
            let limit = this.limit;
            return Err(NoRoom::Full(Full { count, limit }));
        }
        if this.full().is_some() {
            this.edge.notify_one();
        }
        Ok(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let was_full = self.0.full().is_some();
        if self.0.reserved.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.settled.notify_waiters();
        }
        if was_full && self.0.full().is_none() {
            self.0.edge.notify_one();
        }
    }
}
