//! What an execution object gives to the engine: its state and its handlers.

use std::future::Future;

use crate::error::HandlerError;
use crate::policy::{LanePolicy, WaitsUnder};
use crate::signal::RelocationReady;
use crate::timer::Tick;
use crate::turn::Turn;

/// The state of one execution object and the handlers that run on it, one turn at a time.
///
/// The value of the owner lives in its lane and is lent to the running turn; it stays where it is.
pub trait Owner: Sized + Send + 'static {
    /// Which lane policy the object runs under (EX-171).
    type Policy: LanePolicy;
    /// How its handlers may wait (EX-46).
    type Waits: WaitsUnder<Self::Policy>;
    /// One work item: an application or lifecycle payload, not decoded yet.
    type Item: Send + 'static;
    /// What a handler answers. One-way work answers too; nobody reads it.
    type Reply: Send + 'static;

    /// Handles one item. The whole future is one turn: the gate is kept across its awaits (EX-30),
    /// unless it yields.
    ///
    /// # Errors
    /// A failure ends this item only (EX-12): an awaited call gets it, one-way work is counted.
    ///
    /// # Cancel safety
    /// The future is dropped in the middle only when the host is force-stopped or the object removed
    /// (EX-306).
    fn handle(
        turn: &mut Turn<'_, Self>,
        item: Self::Item,
    ) -> impl Future<Output = Result<Self::Reply, HandlerError>> + Send;

    /// Handles one tick of a timer of this object (EX-240). Does nothing by default.
    ///
    /// # Errors
    /// A failure ends this tick; whether it ends the timer is the timer's setting (EX-244).
    ///
    /// # Cancel safety
    /// As [`Owner::handle`].
    fn on_tick(
        turn: &mut Turn<'_, Self>,
        tick: Tick,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send {
        drop((turn, tick));
        std::future::ready(Ok(()))
    }

    /// Told once for every boundary that a turn marked for a move, before the next application job: what came of it
    /// (EX-203, RL-207). After a crash it may be called twice for one mark. Does nothing by default.
    ///
    /// # Errors
    /// A failure is counted and ends nothing else (EX-12).
    ///
    /// # Cancel safety
    /// As [`Owner::handle`].
    fn on_relocation_ready(
        _turn: &mut Turn<'_, Self>,
        _outcome: RelocationReady,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send {
        std::future::ready(Ok(()))
    }
}
