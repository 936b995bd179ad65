//! Records of sessions that wait for room on their way to another node (EX-266).
//!
//! A full queue fails nothing at once: its records stand in a line, in order, each for the send timeout. While a node has
//! a line, what comes for it goes to its end, so that no record of a session overtakes an earlier one (SB-32).

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spotlane_mesh::{Asked, Mesh, NotSubmitted, Refused};
use spotlane_types::id::NodeRid;
use spotlane_wire::Record;
use tokio::time::{Instant, timeout_at};

use crate::core::Core;

/// Why a record was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotSent {
    /// The node is not connected, or takes no such record.
    Unreachable,
    /// Its queue was full for the whole send timeout.
    Full,
}

/// How a record leaves, and who is told.
pub(super) enum Leaves {
    /// A record without an answer.
    OneWay(Box<dyn FnOnce(Result<(), NotSent>) + Send>),
    /// A request: its end comes through what the caller gets.
    Request {
        timeout: Duration,
        then: Box<dyn FnOnce(Result<Asked, NotSent>) + Send>,
    },
}

struct Waiting {
    record: Record,
    leaves: Leaves,
    until: Instant,
}

/// The lines of a host. What bounds them is what bounds their records: permits before receipt, one relay of a session
/// at a time, and the send timeout.
#[derive(Default)]
pub(super) struct Lines {
    /// How many lines there are, so that the usual record asks for no lock.
    count: AtomicUsize,
    /// Held for a push or a pop; records are submitted under it, which locks their link behind it.
    lines: Mutex<HashMap<NodeRid, VecDeque<Waiting>>>,
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, HashMap<NodeRid, VecDeque<Waiting>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many nodes have a line.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Sends a record, or puts it into the line for its node.
    pub(super) fn send(core: &Arc<Core>, node: &NodeRid, record: Record, leaves: Leaves) {
        let this = &core.sessions.lines;
        let Ok(mesh) = core.mesh() else {
            return leaves.failed(NotSent::Unreachable);
        };
        let (record, leaves) = if this.count.load(Ordering::Acquire) == 0 {
            match leaves.leave(mesh, node, record) {
                Ok(left) => return left.told(),
                Err(waits) => *waits,
            }
        } else {
            (record, leaves)
        };
        let until = Instant::now() + core.settings.all.send_timeout;
        let mut lines = this.lock();
        let begins = !lines.contains_key(node);
        lines.entry(node.clone()).or_default().push_back(Waiting {
            record,
            leaves,
            until,
        });
        this.count.store(lines.len(), Ordering::Release);
        drop(lines);
        if begins {
            let (task, node) = (Arc::clone(core), node.clone());
            core.tasks
                .spawn(async move { task.sessions.lines.drain(&task, &node).await });
        }
    }

    /// Sends what stands in a line until it is empty.
    async fn drain(&self, core: &Arc<Core>, node: &NodeRid) {
        let Ok(mesh) = core.mesh() else { return };
        loop {
            match self.step(mesh, node) {
                Step::Left(left) => left.told(),
                Step::Full(until) => drop(timeout_at(until, mesh.room(node)).await),
                Step::Empty => return,
            }
        }
    }

    /// One attempt at the first record; only the task of the line takes from its front.
    fn step(&self, mesh: &Mesh, node: &NodeRid) -> Step {
        let mut lines = self.lock();
        let Some(first) = lines.get_mut(node).and_then(VecDeque::pop_front) else {
            lines.remove(node);
            self.count.store(lines.len(), Ordering::Release);
            return Step::Empty;
        };
        let Waiting {
            record,
            leaves,
            until,
        } = first;
        let (record, leaves) = match leaves.leave(mesh, node, record) {
            Ok(left) => return Step::Left(left),
            Err(waits) => *waits,
        };
        if until <= Instant::now() {
            return Step::Left(Left(Box::new(|| leaves.failed(NotSent::Full))));
        }
        lines.entry(node.clone()).or_default().push_front(Waiting {
            record,
            leaves,
            until,
        });
        Step::Full(until)
    }
}

/// What came of one attempt.
enum Step {
    Left(Left),
    /// There is no room; the record that waits does so until then.
    Full(Instant),
    Empty,
}

/// A record that has left or cannot: what its sender is told, without any lock.
struct Left(Box<dyn FnOnce() + Send>);

impl Left {
    fn told(self) {
        (self.0)();
    }
}

impl Leaves {
    /// One attempt; the record comes back when there is no room.
    fn leave(
        self,
        mesh: &Mesh,
        node: &NodeRid,
        record: Record,
    ) -> Result<Left, Box<(Record, Self)>> {
        let why = |refused: Refused| match refused.why {
            NotSubmitted::Full { .. } => Ok(*refused.record),
            _ => Err(NotSent::Unreachable),
        };
        match self {
            Self::OneWay(then) => match mesh.submit(node, record) {
                Ok(()) => Ok(Left(Box::new(move || then(Ok(()))))),
                Err(refused) => match why(refused) {
                    Ok(record) => Err(Box::new((record, Self::OneWay(then)))),
                    Err(why) => Ok(Left(Box::new(move || then(Err(why))))),
                },
            },
            Self::Request { timeout, then } => match mesh.ask(node, record, timeout) {
                Ok(asked) => Ok(Left(Box::new(move || then(Ok(asked))))),
                Err(refused) => match why(refused) {
                    Ok(record) => Err(Box::new((record, Self::Request { timeout, then }))),
                    Err(why) => Ok(Left(Box::new(move || then(Err(why))))),
                },
            },
        }
    }

    fn failed(self, why: NotSent) {
        match self {
            Self::OneWay(then) => then(Err(why)),
            Self::Request { then, .. } => then(Err(why)),
        }
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
