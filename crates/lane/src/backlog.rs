//! The target's side of a move: a lane whose dispatch is closed, and the one value that opens it.
//!
//! Opening uses form A of the contract, as a front segment (EX-210): `docs/decisions/lane-opening.md`
//! says why.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::core::{Admission, Core, Line};
use crate::error::{AskError, Fifo};
use crate::host::AnyLane;
use crate::jobs::JobPermit;
use crate::kind::Kind;
use crate::lane::Lane;
use crate::owner::Owner;
use crate::policy::{Moves, Spot};
use crate::queue::{Dispatch, Entry, Work};
use crate::reply;
use crate::seal::open_staged;

impl<O: Owner> Kind<O>
where
    O::Policy: Moves,
{
    /// Makes a lane whose application dispatch is closed: what arrives joins its backlog (EX-108).
    ///
    /// `Proof` is the type that only a confirmed owner change creates. Whoever stages the lane names
    /// it, and without a value of it nothing opens (EX-187):
    ///
    /// ```compile_fail,E0308
    /// // EX-187: the backlog opens for the proof it was staged with and for nothing else.
    /// use spotlane_lane::{Kind, Moves, Owner};
    /// struct OwnerCommitted(());
    /// fn open<O: Owner>(kind: &Kind<O>, owner: O) where O::Policy: Moves {
    ///     let backlog = kind.stage::<OwnerCommitted>(owner);
    ///     backlog.open((), None);
    /// }
    /// ```
    pub fn stage<Proof>(&self, owner: O) -> Backlog<O, Proof> {
        let core = self.core(owner);
        {
            let mut inner = core.lock();
            if inner.admission == Admission::Open {
                inner.admission = Admission::Held;
            }
            inner.ext().application = Dispatch::Closed;
        }
        Backlog {
            core: Some(core),
            saved: VecDeque::new(),
            lifecycle: VecDeque::new(),
            relay: VecDeque::new(),
            proof: PhantomData,
        }
    }
}

/// The ordered backlog of an object that is being restored here (EX-207): saved work, then the relay
/// before the boundary, then what arrived directly.
///
/// It owns its items, bytes included, until it is opened (EX-215). Dropping it removes the object: no
/// item runs, everything is released once.
pub struct Backlog<O: Owner, Proof> {
    core: Option<Arc<Core<O>>>,
    saved: VecDeque<Entry<O>>,
    lifecycle: VecDeque<Entry<O>>,
    relay: VecDeque<Entry<O>>,
    proof: PhantomData<fn(Proof)>,
}

impl<O: Owner, Proof> Backlog<O, Proof> {
    /// The lane, for the temporary registration: what is submitted through it joins the backlog.
    pub fn lane(&self) -> Option<Lane<O>> {
        self.core.as_ref().map(|core| Lane {
            core: Arc::clone(core),
        })
    }

    /// Appends one record of the saved work, in its captured order. A permit under which it came in is
    /// given back at this finite hand-over (EX-131).
    pub fn push_saved(&mut self, fifo: Fifo, item: O::Item, payload_bytes: u64) {
        let entry = Entry::Work(Work {
            payload_bytes,
            ..Work::one_way(item)
        });
        match fifo {
            Fifo::Application => self.saved.push_back(entry),
            Fifo::Lifecycle => self.lifecycle.push_back(entry),
        }
    }

    /// Appends one relayed record from before the boundary.
    pub fn push_relay(&mut self, item: O::Item, payload_bytes: u64) {
        self.relay.push_back(Entry::Work(Work {
            payload_bytes,
            ..Work::one_way(item)
        }));
    }

    /// Drops the relay received so far; a retransmitted batch replaces it as a whole.
    pub fn clear_relay(&mut self) {
        self.relay.clear();
    }

    /// How many records wait here, those not included that arrived directly.
    pub fn len(&self) -> usize {
        self.saved.len() + self.lifecycle.len() + self.relay.len()
    }

    /// Whether no record waits here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs one lifecycle callback of the opening as a turn, with application dispatch still closed
    /// (EX-208), and waits for its end.
    ///
    /// # Errors
    /// As [`Lane::ask_lifecycle`].
    ///
    /// # Cancel safety
    /// As [`Lane::ask_lifecycle`].
    pub async fn run_lifecycle(&self, item: O::Item) -> Result<O::Reply, AskError> {
        let Some(core) = &self.core else {
            return Err(AskError::Unavailable);
        };
        let (reply, answer, _) = reply::slot_here().await;
        let work = Work {
            reply,
            ..Work::one_way(item)
        };
        if let Err((reason, work)) = core.submit_lifecycle(work, Line::Backlog) {
            drop(work);
            return Err(AskError::Refused(reason));
        }
        answer.await.unwrap_or(Err(AskError::Unavailable))
    }

    /// Opens the lane: the backlog is fixed as its front segment, live arrivals start behind it, and
    /// ordinary admission and dispatch open together, in one span (EX-210).
    ///
    /// `permit` is the first live permit, taken before this call and passed on from item to item until
    /// the segment is used up (EX-213, EX-214). Hosts without a job queue pass `None`.
    pub fn open(mut self, proof: Proof, permit: Option<JobPermit>) -> Option<Lane<O>> {
        drop(proof);
        let core = self.core.take()?;
        let mut application = std::mem::take(&mut self.saved);
        application.append(&mut self.relay);
        open_staged(
            &core,
            application,
            std::mem::take(&mut self.lifecycle),
            permit,
        );
        Some(Lane { core })
    }
}

impl<O: Owner<Policy = Spot>, Proof> Backlog<O, Proof> {
    /// Tells the Spot that it was moved at the boundary that it had marked, with application dispatch still closed (EX-203,
    /// RL-207), and waits for the end of that turn, however it ends.
    ///
    /// # Errors
    /// [`AskError::Unavailable`] when the lane ended first; [`AskError::InvalidOperation`] while another completion is due.
    ///
    /// # Cancel safety
    /// Dropped before it completed, the turn runs all the same.
    pub async fn relocated(&self) -> Result<(), AskError> {
        match &self.core {
            Some(core) => core.relocated().await,
            None => Err(AskError::Unavailable),
        }
    }
}

impl<O: Owner, Proof> Drop for Backlog<O, Proof> {
    fn drop(&mut self) {
        if let Some(core) = self.core.take() {
            core.lock().admission = Admission::Ended;
            core.abort();
        }
    }
}

impl<O: Owner, Proof> fmt::Debug for Backlog<O, Proof> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backlog")
            .field("records", &self.len())
            .finish_non_exhaustive()
    }
}
