//! The coordinator of a Spot: owns its lanes and decides which queue and gate a call belongs to.
//!
//! Callers do not name a queue (EX-25). They say what they bring (work for the Spot, for a member, for
//! a timer) and the coordinator's mode decides the rest (EX-15 to EX-21).

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::core::{Bound, Run};
use crate::error::{Refusal, Refused};
use crate::host::GateHost;
use crate::kind::{GateUse, Kind};
use crate::lane::Lane;
use crate::owner::Owner;
use crate::policy::{ActorDelivery, Spot};
use crate::sync::Mutex;

use std::sync::Arc;

/// How the gates of a Spot are laid out; fixed when its type is registered (EX-24).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by EX-15 to EX-21")]
pub enum SpotMode {
    /// Own gate for the Spot, own gates for its Actors (EX-15, EX-16).
    Entry,
    /// One gate for the Spot, its members and its timers (EX-17, EX-18). The default of User Spots.
    #[default]
    SpotWide,
    /// A gate for the Spot, for every Actor, and for every timer name (EX-16, EX-19, EX-20).
    PerActor,
    /// One gate for direct handlers, timers and lifecycle callbacks; no members (EX-21).
    Instance,
}

impl SpotMode {
    /// Whether turns behind the Spot's gate may give it up while they wait (EX-33).
    pub const fn gate_use(self) -> GateUse {
        match self {
            Self::SpotWide | Self::Instance => GateUse::Shared,
            Self::Entry | Self::PerActor => GateUse::Own,
        }
    }
}

/// Why a lane was not bound to a gate, or not let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BindError {
    /// An item of the lane is current or a ticket is queued (EX-27). Nothing changed.
    #[error("an item of the lane is current")]
    Busy,
    /// The lane ended or is being moved.
    #[error("the lane is not open")]
    NotOpen,
    /// Instance Spots have no members (EX-21).
    #[error("instance spots have no members")]
    NoMembers,
}

impl<A: Owner<Policy = ActorDelivery>> Lane<A> {
    /// Binds this lane to the gate of a Spot (EX-18), in one step: before it the lane has its own gate,
    /// after it every turn runs behind the Spot's.
    ///
    /// # Errors
    /// [`BindError::Busy`] when an item of this lane is current or waits for its turn (EX-27).
    pub fn bind<S: Owner<Policy = Spot>>(&self, spot: &Lane<S>) -> Result<(), BindError> {
        let gate: Arc<dyn GateHost> = Arc::<crate::core::Core<S>>::clone(&spot.core);
        self.set_gate(Some(gate))
    }

    /// Gives this lane its own gate back, in one step.
    ///
    /// # Errors
    /// As [`Lane::bind`].
    pub fn unbind(&self) -> Result<(), BindError> {
        self.set_gate(None)
    }

    fn set_gate(&self, gate: Option<Arc<dyn GateHost>>) -> Result<(), BindError> {
        let mut inner = self.core.lock();
        match inner.run {
            Run::Idle => {}
            Run::Ready | Run::Running | Run::Parked => return Err(BindError::Busy),
            Run::Stopped => return Err(BindError::NotOpen),
        }
        inner.bound = if gate.is_some() {
            Bound::Shared
        } else {
            Bound::OwnGate
        };
        let old = std::mem::replace(&mut inner.ext().gate, gate);
        drop(inner);
        drop(old);
        Ok(())
    }
}

/// Owns the lanes of one Spot: its own, one per member and, under `PerActor`, one per timer name
/// (EX-26). They end with it.
pub struct SpotCoordinator<S, A, Id>
where
    S: Owner<Policy = Spot>,
    A: Owner<Policy = ActorDelivery>,
{
    mode: SpotMode,
    spot: Lane<S>,
    timers: Kind<A>,
    /// Members and timer lanes. A short lock, never held together with one of a lane.
    lanes: Mutex<Lanes<A, Id>>,
}

struct Lanes<A: Owner, Id> {
    members: BTreeMap<Id, Lane<A>>,
    timers: BTreeMap<String, Lane<A>>,
}

impl<S, A, Id> SpotCoordinator<S, A, Id>
where
    S: Owner<Policy = Spot>,
    A: Owner<Policy = ActorDelivery>,
    Id: Ord,
{
    /// A coordinator around the lane of a Spot. `timers` makes the timer lanes of a `PerActor` Spot.
    pub fn new(mode: SpotMode, spot: Lane<S>, timers: Kind<A>) -> Self {
        let lanes = Lanes {
            members: BTreeMap::new(),
            timers: BTreeMap::new(),
        };
        Self {
            mode,
            spot,
            timers,
            lanes: Mutex::new(lanes),
        }
    }

    /// The lane of the Spot itself.
    pub const fn spot(&self) -> &Lane<S> {
        &self.spot
    }

    /// Takes an Actor's lane in, at the membership commit (EX-27). Under `SpotWide` it is bound to the
    /// Spot's gate in the same step. Returns the lane that had the id before, if any.
    ///
    /// # Errors
    /// Nothing changed: the lane is busy, not open, or this is an Instance Spot.
    pub fn admit(&self, id: Id, lane: Lane<A>) -> Result<Option<Lane<A>>, BindError> {
        match self.mode {
            SpotMode::Instance => return Err(BindError::NoMembers),
            SpotMode::SpotWide => lane.bind(&self.spot)?,
            SpotMode::Entry | SpotMode::PerActor => {}
        }
        Ok(self.lanes.lock().members.insert(id, lane))
    }

    /// Lets a member go; its lane survives (EX-27).
    ///
    /// # Errors
    /// Nothing changed: the lane is busy.
    pub fn release(&self, id: &Id) -> Result<Option<Lane<A>>, BindError> {
        let member = self.lanes.lock().members.get(id).cloned();
        let Some(member) = member else {
            return Ok(None);
        };
        if self.mode == SpotMode::SpotWide {
            member.unbind()?;
        }
        Ok(self.lanes.lock().members.remove(id))
    }

    /// The lane of a member.
    pub fn member(&self, id: &Id) -> Option<Lane<A>> {
        self.lanes.lock().members.get(id).cloned()
    }

    /// Work for the Spot itself: direct payloads and matched multicast (EX-6).
    ///
    /// # Errors
    /// As [`Lane::enqueue_with_payload_bytes`].
    pub fn execute_spot(&self, item: S::Item, payload_bytes: u64) -> Result<(), Refused<S::Item>> {
        self.spot.enqueue_with_payload_bytes(item, payload_bytes)
    }

    /// A change of the Spot's state that an Actor causes: join, leave, steps of a move (EX-6).
    ///
    /// # Errors
    /// As [`Lane::enqueue_lifecycle`].
    pub fn execute_lifecycle(&self, item: S::Item) -> Result<(), Refused<S::Item>> {
        self.spot.enqueue_lifecycle(item)
    }

    /// A payload for a member: waits in that Actor's own FIFO whatever the mode is (EX-5).
    ///
    /// # Errors
    /// As [`Lane::enqueue_with_payload_bytes`]; an id that is no member is refused as ended.
    pub fn execute_actor(
        &self,
        id: &Id,
        item: A::Item,
        payload_bytes: u64,
    ) -> Result<(), Refused<A::Item>> {
        match self.member(id) {
            Some(lane) => lane.enqueue_with_payload_bytes(item, payload_bytes),
            None => Err(Refused {
                item,
                reason: Refusal::Ended,
            }),
        }
    }

    /// Where the ticks of a timer go: to the lane of its name under `PerActor`, made on first use from
    /// `owner`; to the Spot's own lane otherwise, where no timer lane exists (EX-240).
    pub fn execute_timer(&self, name: &str, owner: impl FnOnce() -> A) -> TimerTarget<S, A> {
        if self.mode != SpotMode::PerActor {
            return TimerTarget::Spot(self.spot.clone());
        }
        let known = self.lanes.lock().timers.get(name).cloned();
        if let Some(lane) = known {
            return TimerTarget::Timer(lane);
        }
        // Made outside the lock, since `owner` is foreign code; the first one stays.
        let made = self.timers.lane(owner());
        let mut lanes = self.lanes.lock();
        let lane = lanes
            .timers
            .entry(name.to_owned())
            .or_insert_with(|| made.clone())
            .clone();
        drop(lanes);
        TimerTarget::Timer(lane)
    }

    /// Ends the Spot: its lane and those of its timers refuse new work and finish what was accepted.
    /// Members leave before.
    pub fn close(&self) {
        self.spot.close();
        let timers: Vec<Lane<A>> = self.lanes.lock().timers.values().cloned().collect();
        for timer in timers {
            timer.close();
        }
    }
}

/// Where ticks of a timer run.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "closed by EX-240")]
pub enum TimerTarget<S: Owner, A: Owner> {
    /// On the Spot's lane, as application work.
    Spot(Lane<S>),
    /// On the lane of the timer's name.
    Timer(Lane<A>),
}

impl<S, A, Id> fmt::Debug for SpotCoordinator<S, A, Id>
where
    S: Owner<Policy = Spot>,
    A: Owner<Policy = ActorDelivery>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpotCoordinator")
            .field("mode", &self.mode)
            .field("members", &self.lanes.lock().members.len())
            .finish_non_exhaustive()
    }
}
