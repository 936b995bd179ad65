//! What leaves with a unit, in the form in which it travels: its queue, and the payload around it.

use spotlane_lane::{Captured, SealGuard};
use spotlane_relocation::source::payload::{ParticipantCapture, Payload, QueuedWork};
use spotlane_relocation::source::{CaptureFailure, CaptureOrder};
use spotlane_wire::reference::ActorRouteFence;

use super::freeze;
use crate::cell::{Cell, Work};
use crate::core::Core;

/// Reads the list of nodes now; a store that does not answer leaves it as it was.
pub(super) async fn look(core: &Core) {
    if let Err(error) = crate::directory::refresh(core).await {
        tracing::debug!(target: "spotlane::runtime::relocation", %error, "the list of nodes was not read");
    }
}

/// What a sealed lane holds, as it travels.
pub(super) struct CapturedQueue {
    pub(super) work: Vec<QueuedWork>,
    /// The places, among the messages, of those that do not travel.
    pub(super) left_out: Vec<usize>,
}

/// EX-204: what was accepted and has not started, with queued ticks, in order.
pub(super) fn captured_queue(
    core: &Core,
    fence: &ActorRouteFence,
    guard: &SealGuard<Cell>,
) -> CapturedQueue {
    let mut queue = CapturedQueue {
        work: Vec::new(),
        left_out: Vec::new(),
    };
    let mut messages = 0;
    for captured in guard.captured() {
        match captured {
            Captured::Item {
                item: Work::Message(message),
                ..
            } => {
                match freeze::freeze(core, fence, message) {
                    Ok(record) => queue.work.push(QueuedWork::Record(Box::new(record))),
                    Err(_) => queue.left_out.push(messages),
                }
                messages += 1;
            }
            Captured::Item {
                item: Work::Tick(tick),
                ..
            } => queue.work.push(QueuedWork::Tick(tick.clone())),
            Captured::Item {
                item: Work::Disconnected(_),
                ..
            } => {
                if let Ok(record) = freeze::freeze_disconnect(core, fence) {
                    queue.work.push(QueuedWork::Record(Box::new(record)));
                }
            }
            Captured::Tick(tick) => {
                if let Ok(tick) = freeze::freeze_tick(core, tick) {
                    queue.work.push(QueuedWork::Tick(Box::new(tick)));
                }
            }
            _ => {}
        }
    }
    queue
}

/// From so many bytes of state on, the checksum is made on a thread that may block.
const ENCODE_APART_FROM: usize = 1024 * 1024;

pub(super) async fn encode(
    order: CaptureOrder,
    participant: ParticipantCapture,
) -> Result<Payload, CaptureFailure> {
    let failed = |error: spotlane_relocation::source::payload::PayloadError| {
        tracing::error!(target: "spotlane::runtime::relocation", %error, "a payload was not encoded");
        CaptureFailure::NotEncodable
    };
    let bytes = participant.state.as_ref().map_or(0, bytes::Bytes::len);
    if bytes < ENCODE_APART_FROM {
        return Payload::encode(&order, &[participant]).map_err(failed);
    }
    let encoded = tokio::task::spawn_blocking(move || Payload::encode(&order, &[participant]));
    match encoded.await {
        Ok(encoded) => encoded.map_err(failed),
        Err(_) => Err(CaptureFailure::NotEncodable),
    }
}
