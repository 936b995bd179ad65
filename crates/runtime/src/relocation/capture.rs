//! What leaves with a unit, in the form in which it travels: its queue, and the payload around it.

use spotlane_lane::{Captured, SealGuard};
use spotlane_relocation::source::payload::QueuedWork;
use spotlane_wire::reference::ActorRouteFence;

use super::freeze;
use crate::cell::{Cell, Leave, Work};
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
///
/// `callbacks` are the disconnect callbacks that wait, all of them at the turn that is there for the first (SB-65).
pub(super) fn captured_queue(
    core: &Core,
    fence: &ActorRouteFence,
    guard: &SealGuard<Cell>,
    mut callbacks: u64,
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
                item: Work::Disconnected(leave),
                ..
            } => {
                let count = match leave {
                    Leave::Came => 1,
                    Leave::Next => std::mem::take(&mut callbacks),
                };
                queue.callbacks(core, fence, count);
            }
            Captured::Tick(tick) => {
                if let Ok(tick) = freeze::freeze_tick(core, tick) {
                    queue.work.push(QueuedWork::Tick(Box::new(tick)));
                }
            }
            _ => {}
        }
    }
    // Their turn waits for a place in the queue.
    queue.callbacks(core, fence, callbacks);
    queue
}

impl CapturedQueue {
    fn callbacks(&mut self, core: &Core, fence: &ActorRouteFence, count: u64) {
        for _ in 0..count {
            if let Ok(record) = freeze::freeze_disconnect(core, fence) {
                self.work.push(QueuedWork::Record(Box::new(record)));
            }
        }
    }
}
