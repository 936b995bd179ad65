//! What the parts of the engine see of a lane: its gate, a member bound to it, and its end.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::carrier::AnyCarrier;
use crate::error::{Fifo, Refusal};
use crate::worker::Worker;

/// The gate of a lane as its members and the workers see it. Separate from the queue (EX-1).
pub(crate) trait GateHost: Send + Sync {
    fn gate_id(&self) -> u64;
    /// Goes on with the gate, which the worker has kept.
    fn go_on(self: Arc<Self>, worker: &mut Worker);
    /// The turn waits and keeps the gate (EX-30).
    fn park(self: Arc<Self>, carrier: Box<dyn AnyCarrier>, worker: &Worker);
    /// A turn is about to yield: it counts as suspended from here on.
    fn note_suspended(&self);
    /// The carrier of a turn that gave up the gate (EX-31).
    fn store_suspended(self: Arc<Self>, fence: u64, carrier: Box<dyn AnyCarrier>, worker: &Worker);
    /// Takes the carrier out to poll its operation.
    fn take_suspended(&self, fence: u64) -> Option<Box<dyn AnyCarrier>>;
    /// The operation has its result: exactly one resume record goes to the back (EX-31).
    fn decided(self: Arc<Self>, fence: u64, carrier: Box<dyn AnyCarrier>);
    fn push_ticket(self: Arc<Self>, fifo: Fifo, ticket: Arc<dyn TicketHolder>);
    /// The member's item behind a ticket reached its terminal.
    fn ticket_ended(&self, fifo: Fifo);
}

/// A turn of a gate that was given to a ticket.
pub(crate) struct GateTurn {
    pub(crate) gate: Arc<dyn GateHost>,
    /// The fencing number of the turn (EX-7).
    pub(crate) fence: u64,
    /// The FIFO the ticket stood in.
    pub(crate) fifo: Fifo,
}

/// A lane that is bound to the gate of another one (EX-18).
pub(crate) trait TicketHolder: Send + Sync {
    /// Runs the current item in a turn of `gate`.
    fn run_ticket(self: Arc<Self>, turn: GateTurn, worker: &mut Worker);
    /// The gate ended before the ticket's turn came.
    fn gate_ended(self: Arc<Self>);
}

/// A lane as the engine sees it when it ends.
pub(crate) trait AnyLane: Send + Sync {
    /// Ends everything that is accepted and has not ended (EX-306).
    fn abort(self: Arc<Self>);
    /// Refuses new work; a lane that is sealed for a move cannot be closed (EX-113).
    fn close(&self) -> Result<(), Refusal>;
    /// Resolves when nothing is queued, running, parked or suspended; `None` when that is so already.
    fn quiet(self: Arc<Self>) -> Option<oneshot::Receiver<()>>;
}
