//! What is to be forwarded to a node that cannot take it now: it stands in line, in the order in which it came.
//!
//! Nothing limits a line: volume along a route is not capped (RL-151). Whatever stands in it ends with the window of its
//! hop (RL-155).

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use spotlane_mesh::NotSubmitted;
use spotlane_types::id::NodeRid;
use spotlane_wire::Record;

use crate::clock::Deadline;
use crate::core::Core;
use crate::drops::{self, Reason};
use crate::remote;
use crate::resolve::connected;

/// One message on its way to its new owner.
pub(super) enum Onward {
    /// Ends with its submit.
    Send(Box<Record>),
    /// Is submitted by its first poll, and goes on until it has its answer.
    Ask(Pin<Box<dyn Future<Output = ()> + Send>>),
}

struct Waiting {
    onward: Onward,
    window: Deadline,
}

/// The lines of a host, one for each node that could not take the first message in it.
#[derive(Default)]
pub(crate) struct Lines {
    /// Taken around a submit, so that nobody goes ahead of what waits. Nothing of the application is dropped under it.
    lines: Mutex<HashMap<NodeRid, VecDeque<Waiting>>>,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, HashMap<NodeRid, VecDeque<Waiting>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Submits a message now, or puts it into the line of its node.
pub(super) fn send_on(core: &Arc<Core>, node: &NodeRid, onward: Onward, window: Deadline) {
    let mut lines = core.moves.lines.lock();
    if let Some(line) = lines.get_mut(node) {
        line.push_back(Waiting { onward, window });
        return;
    }
    let Some(onward) = try_submit(core, node, onward) else {
        return;
    };
    lines.insert(node.clone(), VecDeque::from([Waiting { onward, window }]));
    drop(lines);
    let (task, node) = (Arc::clone(core), node.clone());
    core.tasks.spawn(async move { drain(&task, &node).await });
}

/// Submits a message if that is possible now, and gives it back if not.
fn try_submit(core: &Arc<Core>, node: &NodeRid, onward: Onward) -> Option<Onward> {
    let Ok(mesh) = core.mesh() else {
        return Some(onward);
    };
    match onward {
        Onward::Send(record) => match mesh.submit(node, *record) {
            Ok(()) => None,
            Err(refused) if may_pass(&refused.why) => Some(Onward::Send(refused.record)),
            Err(refused) => {
                drops::record(Reason::StaleTarget, 1, &refused.why);
                None
            }
        },
        ask @ Onward::Ask(_) if mesh.link(node).is_none() => Some(ask),
        Onward::Ask(ask) => {
            submit_ask(core, ask);
            None
        }
    }
}

/// Polled once here, so that what is forwarded keeps the order in which it came; its next poll brings a waker that counts.
fn submit_ask(core: &Core, mut ask: Pin<Box<dyn Future<Output = ()> + Send>>) {
    let mut context = Context::from_waker(Waker::noop());
    if ask.as_mut().poll(&mut context) == Poll::Pending {
        core.tasks.spawn(ask);
    }
}

/// Whether waiting helps: for room, or for the next connection.
const fn may_pass(why: &NotSubmitted) -> bool {
    matches!(
        why,
        NotSubmitted::Full { .. }
            | NotSubmitted::NotConnected
            | NotSubmitted::TooManyRequests { .. }
    )
}

/// Sends what stands in a line until it is empty.
async fn drain(core: &Arc<Core>, node: &NodeRid) {
    while let Some(waiting) = next(core, node) {
        let Waiting { onward, window } = waiting;
        match onward {
            Onward::Send(record) => {
                if let Err(error) = remote::submit(core, node, *record, &window).await {
                    drops::record(Reason::StaleTarget, 1, &error);
                }
            }
            Onward::Ask(ask) => {
                // When it does not get one it says so itself: it has the same window.
                drop(connected(core, node, &window).await);
                submit_ask(core, ask);
            }
        }
    }
}

/// The first in a line; a line without one is gone.
fn next(core: &Core, node: &NodeRid) -> Option<Waiting> {
    let mut lines = core.moves.lines.lock();
    let first = lines.get_mut(node)?.pop_front();
    if first.is_none() {
        lines.remove(node);
    }
    first
}
