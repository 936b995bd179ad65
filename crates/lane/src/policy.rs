//! The three lane policies: what differs between a Spot, a session and an Actor delivery is a type.
//!
//! The engine is the same for all of them (EX-170). A policy owns the state that only its site has
//! (EX-171); the trait is sealed and its associated state type is the only place where such a state
//! lives (EX-172), so a session that can be sealed for a move cannot even be written down.
//!
//! | policy | return-wait | move sealing | connection closed |
//! |---|---|---|---|
//! | [`Spot`] | yes | yes | no |
//! | [`Session`] | no | no | yes |
//! | [`ActorDelivery`] | no | no | no |

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use crate::carrier::AnyCarrier;
use crate::signal::Mark;

#[expect(
    unnameable_types,
    reason = "sealed: what nobody can name, nobody can implement"
)]
pub(crate) mod sealed {
    use super::SpotState;

    /// Keeps [`super::LanePolicy`] closed and shows the engine the state that a policy may have.
    pub trait Policy {
        /// What a lane with this policy remembers besides its queues.
        type State: Default + Send + 'static;

        /// The part that only a Spot lane has.
        fn spot(state: &mut Self::State) -> Option<&mut SpotState>;
    }

    /// Keeps [`super::Waiting`] closed.
    pub trait Waiting {}
}

/// A lane policy: [`Spot`], [`Session`] or [`ActorDelivery`], and nobody else (EX-171, EX-172).
///
/// ```compile_fail,E0277
/// // EX-185: a fourth policy cannot be written.
/// struct Mine;
/// impl spotlane_lane::LanePolicy for Mine {}
/// ```
pub trait LanePolicy: sealed::Policy + Send + Sync + 'static {}

/// The policy of a lane that executes one Spot: return-wait and move sealing (EX-173, EX-174).
///
/// Closing a connection is not a state of a Spot:
///
/// ```compile_fail,E0599
/// // EX-184: `begin_closing` does not exist on a Spot lane.
/// use spotlane_lane::{Lane, Owner, Spot};
/// fn close<O: Owner<Policy = Spot>>(lane: &Lane<O>) {
///     lane.begin_closing();
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Spot;

/// The policy of a lane that executes the callbacks of one session: its connection closes (EX-175).
///
/// A session neither moves nor waits with its gate given up:
///
/// ```compile_fail,E0599
/// // EX-181: `request_seal` does not exist on a session lane.
/// use spotlane_lane::{Lane, Owner, Session};
/// async fn seal<O: Owner<Policy = Session>>(lane: &Lane<O>) {
///     lane.request_seal().await;
/// }
/// ```
///
/// ```compile_fail,E0277
/// // EX-183: an owner on a session lane cannot ask for a context that yields.
/// use spotlane_lane::{HandlerError, Owner, Session, Turn, Yielding};
/// struct Client;
/// impl Owner for Client {
///     type Policy = Session;
///     type Waits = Yielding;
///     type Item = ();
///     type Reply = ();
///     async fn handle(_: &mut Turn<Self>, _: ()) -> Result<(), HandlerError> {
///         Ok(())
///     }
/// }
/// ```
///
/// ```compile_fail,E0599
/// // EX-203: a session marks no boundary for a move.
/// use spotlane_lane::{Owner, Session, Turn};
/// fn mark<O: Owner<Policy = Session>>(turn: &mut Turn<O>) {
///     turn.defer_relocation_ready();
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Session;

/// The policy of a lane that delivers to one Actor, or ticks of one timer name: no states (EX-176).
///
/// An Actor is a unit of a move all the same; its seal is a fact of the unit, not of the lane (EX-177):
///
/// ```compile_fail,E0599
/// // EX-182: `request_seal` does not exist on an Actor-delivery lane.
/// use spotlane_lane::{ActorDelivery, Lane, Owner};
/// async fn seal<O: Owner<Policy = ActorDelivery>>(lane: &Lane<O>) {
///     lane.request_seal().await;
/// }
/// ```
///
/// ```compile_fail,E0599
/// // EX-184: `begin_closing` does not exist on an Actor-delivery lane either.
/// use spotlane_lane::{ActorDelivery, Lane, Owner};
/// fn close<O: Owner<Policy = ActorDelivery>>(lane: &Lane<O>) {
///     lane.begin_closing();
/// }
/// ```
///
/// ```compile_fail,E0599
/// // EX-203: neither does an Actor; its lane cannot be registered so, and its turns cannot mark.
/// use spotlane_lane::{ActorDelivery, Owner, Turn};
/// fn mark<O: Owner<Policy = ActorDelivery>>(turn: &mut Turn<O>) {
///     turn.defer_relocation_ready();
/// }
/// ```
///
/// ```compile_fail,E0599
/// // EX-203, RL-205: the mode belongs to Spots.
/// use spotlane_lane::{ActorDelivery, Kind, Owner};
/// fn register<O: Owner<Policy = ActorDelivery>>(kind: Kind<O>) {
///     kind.application_signaled();
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ActorDelivery;

impl LanePolicy for Spot {}
impl LanePolicy for Session {}
impl LanePolicy for ActorDelivery {}

impl sealed::Policy for Spot {
    type State = SpotState;

    fn spot(state: &mut SpotState) -> Option<&mut SpotState> {
        Some(state)
    }
}

impl sealed::Policy for Session {
    type State = Connection;

    fn spot(_: &mut Connection) -> Option<&mut SpotState> {
        None
    }
}

impl sealed::Policy for ActorDelivery {
    type State = ();

    fn spot((): &mut ()) -> Option<&mut SpotState> {
        None
    }
}

/// A policy whose objects are relocation units: their backlog is opened at the target (EX-207).
pub trait Moves: LanePolicy {}
impl Moves for Spot {}
impl Moves for ActorDelivery {}

/// How the handlers of an owner may wait: [`KeepGate`] or [`Yielding`].
pub trait Waiting: sealed::Waiting + Send + Sync + 'static {}

/// Handlers only wait with their gate kept (EX-30). Entry Spots, sessions, node and channel handlers.
///
/// ```compile_fail,E0599
/// // EX-183: a context that excludes Yield has no such method.
/// use spotlane_lane::{KeepGate, Owner, Turn};
/// async fn wait<O: Owner<Waits = KeepGate>>(turn: &mut Turn<O>) {
///     turn.yield_for(async {}).await;
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct KeepGate;

/// Handlers may also give up a shared gate while they wait (EX-31, EX-46). Whether the gate really is
/// one that may be given up is known at registration only; where it is not, Yield is refused (EX-34).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Yielding;

impl sealed::Waiting for KeepGate {}
impl sealed::Waiting for Yielding {}
impl Waiting for KeepGate {}
impl Waiting for Yielding {}

/// A way of waiting that goes together with the policy `P` (EX-33).
pub trait WaitsUnder<P: LanePolicy>: Waiting {}

impl<P: LanePolicy> WaitsUnder<P> for KeepGate {}
impl WaitsUnder<Spot> for Yielding {}
impl WaitsUnder<ActorDelivery> for Yielding {}

/// What only a Spot lane remembers.
#[derive(Default)]
#[expect(
    unnameable_types,
    reason = "sealed: the state of a policy is the engine's alone"
)]
pub struct SpotState {
    /// EX-173: the suspended turns of the gate by fencing number. In at Yield, out when the turn goes on
    /// or ends without going on.
    pub(crate) suspended: BTreeMap<u64, Box<dyn AnyCarrier>>,
    /// How many turns of the gate are suspended, those included whose operation is being polled and
    /// whose carrier is therefore not in the map.
    pub(crate) suspended_len: usize,
    /// EX-174: Open, Requested, Sealed, Moved. Boxed parts would not make it smaller.
    pub(crate) seal: Seal,
    /// EX-203: the boundary that a turn marked.
    pub(crate) mark: Mark,
}

/// EX-174: the legal steps are Open → Requested → Sealed → Open or Moved, and Requested → Open.
#[derive(Debug, Default)]
pub(crate) enum Seal {
    #[default]
    Open,
    /// Somebody waits for S0; dispatch is open (EX-200).
    Requested(oneshot::Sender<()>),
    /// S0 was taken: no turn runs, arrivals are held (EX-201).
    Sealed,
    /// Final (EX-206).
    Moved,
}

impl std::fmt::Debug for SpotState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpotState")
            .field("suspended", &self.suspended_len)
            .field("seal", &self.seal)
            .finish_non_exhaustive()
    }
}

/// What only a session lane remembers (EX-175): Open → Closing → Closed, or Open → Closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by EX-175")]
pub enum Connection {
    /// Inbound packets are dispatched.
    #[default]
    Open,
    /// No new inbound dispatch; outbound is still allowed.
    Closing,
    /// Final.
    Closed,
}
