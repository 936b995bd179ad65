//! An object that comes, as the rest of the host sees it, and the receive step of its payload (TGT-10).
//!
//! A chunk belongs into the assembly before the next record of its connection is read: so the buffer that it came in is
//! free again, and what has come and is not assembled does not pile up. The machine of the unit does that, and it
//! belongs to the driver; while the driver waits with nothing left to do, the receive step may use it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use spotlane_location::authority::ActiveObject;
use spotlane_mesh::Flow;
use spotlane_relocation::Machine as _;
use spotlane_relocation::identity::{ConnectionId, RowRead};
use spotlane_relocation::settings::RelocationSettings;
use spotlane_relocation::target::{
    CommitAnswer, LifecycleOutcome, LocalCheck, RestoreFailure, Target, TargetEffect, TargetEvent,
};
use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::relocation::RelocationState;

use super::inbox::{Inbox, Input};
use super::memory;
use super::source::SourceUnit;
use super::target::Staged;
use crate::capacity::{Capacity, NoRoom, Room};
use crate::core::Core;
use crate::message::Message;

pub(super) type Event = TargetEvent<Box<Message>>;

/// An object that comes, or has come, or is remembered.
pub(crate) struct TargetUnit {
    /// Outside of the lock of the inbox; nothing is awaited under it.
    desk: Mutex<Desk>,
    pub(super) inbox: Inbox<TargetInput>,
    /// The earlier move away that stood in the object's place when its queue was registered; it takes messages again when
    /// nothing comes of this one. A leaf lock, taken inside of a change of the slot.
    earlier: Mutex<Option<Arc<SourceUnit>>>,
    /// Room for the Actor, until it lives here or does not come. A leaf lock.
    room: Mutex<Option<Room>>,
}

impl std::fmt::Debug for TargetUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TargetUnit")
            .field("inbox", &self.inbox)
            .finish_non_exhaustive()
    }
}

struct Desk {
    machine: Target<Box<Message>>,
    driver: Is,
    /// The bytes of chunks that wait for the driver.
    behind: usize,
    /// Resumes the connections that wait for it, one each.
    paused: Vec<Waker>,
}

/// So many bytes of chunks wait for the driver; then their connections do. Usually none waits. But a driver that does not get
/// its turn, on a machine that is full of other programs, would otherwise find a third copy of a large state (EX-328).
const BEHIND_MAX: usize = 1 << 20;

/// What the driver of a unit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    /// It carries something out, or is about to.
    Busy,
    /// It has done everything and waits for its inbox.
    Waiting,
    /// It has ended.
    Gone,
}

/// What the driver of a unit finds in its inbox.
pub(super) enum TargetInput {
    Event(Box<Event>),
    TenureEnded(AuthorityOwnerGeneration),
    /// What the receive step of a chunk has led to.
    Effects(Vec<TargetEffect<Box<Message>>>),
    Row(Attempt, RowRead, Option<Box<ActiveObject>>),
    Restored(Attempt, Result<Box<Staged>, RestoreFailure>),
    Committed(Attempt, CommitAnswer, Option<Box<ActiveObject>>),
    Joined(Attempt, LifecycleOutcome),
    JoinCompleted(Attempt, Box<Staged>, LifecycleOutcome),
}

/// Which attempt an answer belongs to. The machine knows one unit at a time; an answer to what was asked for an earlier
/// one is nobody's any more (TGT-32).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attempt(u64);

impl Attempt {
    pub(super) fn next(&mut self) -> Self {
        self.0 = self.0.saturating_add(1);
        *self
    }
}

/// The machine of a unit, for one call.
pub(super) struct Machine<'a>(MutexGuard<'a, Desk>);

impl std::ops::Deref for Machine<'_> {
    type Target = Target<Box<Message>>;

    fn deref(&self) -> &Self::Target {
        &self.0.machine
    }
}

impl std::ops::DerefMut for Machine<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0.machine
    }
}

impl TargetUnit {
    pub(super) fn new(settings: RelocationSettings) -> Self {
        Self {
            desk: Mutex::new(Desk {
                machine: Target::with_memory(settings, memory::reserve),
                driver: Is::Busy,
                behind: 0,
                paused: Vec::new(),
            }),
            inbox: Inbox::new(),
            earlier: Mutex::new(None),
            room: Mutex::new(None),
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn machine(&self) -> Machine<'_> {
        Machine(self.desk())
    }

    pub(super) fn push(&self, event: Event) {
        self.inbox.push(TargetInput::Event(Box::new(event)));
    }

    /// The object has left or ended here, in that tenure; a later one of it goes on.
    pub(super) fn tenure_ended(&self, tenure: AuthorityOwnerGeneration) {
        self.inbox.push(TargetInput::TenureEnded(tenure));
    }

    pub(super) fn earlier(&self) -> MutexGuard<'_, Option<Arc<SourceUnit>>> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn room(&self) -> MutexGuard<'_, Option<Room>> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// RL-189, RL-192: room for the Actor, unless a repeated command 40 finds it taken.
    pub(super) fn make_room(&self, core: &Core) -> LocalCheck {
        let mut room = self.room();
        if room.is_some() {
            return LocalCheck::Fits;
        }
        match Capacity::take(core) {
            Ok(taken) => {
                *room = Some(taken);
                LocalCheck::Fits
            }
            Err(NoRoom::NotServing(_)) => LocalCheck::ShuttingDown,
            Err(NoRoom::Full(full)) => {
                tracing::debug!(target: "spotlane::runtime::relocation", %full, "a move was not taken");
                LocalCheck::Full
            }
        }
    }

    /// The temporary queue: takes a message, or gives it back when the live queue has taken over (RL-170).
    pub(crate) fn hold(&self, message: Box<Message>) -> Result<(), Box<Message>> {
        self.inbox.hold(message)
    }

    /// Command 52, in the receive step of its connection.
    ///
    /// EX-328, TGT-10: it is assembled at once, unless something that came before it waits for the driver.
    pub(super) fn chunk(
        &self,
        now: Monotonic,
        connection: ConnectionId,
        chunk: Box<RelocationState>,
        resumes: impl FnOnce() -> Waker,
    ) -> Flow {
        let bytes = chunk.chunk_data.as_bytes().len();
        let event = TargetEvent::Chunk { connection, chunk };
        let mut desk = self.desk();
        if desk.driver == Is::Gone {
            // TGT-37: the unit is nobody's, and nobody is kept waiting for it.
            return Flow::Continue;
        }
        if desk.driver == Is::Busy || !self.inbox.is_empty() {
            desk.behind = desk.behind.saturating_add(bytes);
            let full = desk.behind >= BEHIND_MAX;
            if full {
                desk.paused.push(resumes());
            }
            drop(desk);
            self.push(event);
            return if full { Flow::Pause } else { Flow::Continue };
        }
        let mut effects = Vec::new();
        desk.machine.on_event(now, event, &mut effects);
        if !effects.is_empty() {
            // Under the lock of the desk, without which the driver takes nothing out: they come first.
            self.inbox.push_first(TargetInput::Effects(effects));
        }
        Flow::Continue
    }

    /// The driver has ended, however that came: what waits for it goes on, for it will not catch up.
    pub(super) fn driver_is_gone(&self) {
        let mut desk = self.desk();
        desk.driver = Is::Gone;
        let paused = std::mem::take(&mut desk.paused);
        drop(desk);
        paused.into_iter().for_each(Waker::wake);
    }

    /// The driver takes one: when half of them are gone, who waits for it goes on.
    fn catches_up(&self, input: &Input<TargetInput>) {
        let Input::Other(TargetInput::Event(event)) = input else {
            return;
        };
        let TargetEvent::Chunk { chunk, .. } = &**event else {
            return;
        };
        let mut desk = self.desk();
        let bytes = chunk.chunk_data.as_bytes().len();
        desk.behind = desk.behind.saturating_sub(bytes);
        let paused = if desk.behind <= BEHIND_MAX / 2 {
            std::mem::take(&mut desk.paused)
        } else {
            Vec::new()
        };
        drop(desk);
        paused.into_iter().for_each(Waker::wake);
    }

    /// The next thing for the driver to do; `None` when `left` is over. Meanwhile the receive step has the machine.
    pub(super) async fn next_input(&self, left: Option<Duration>) -> Option<Input<TargetInput>> {
        self.desk().driver = Is::Waiting;
        let in_time = match left {
            None => {
                self.inbox.ready().await;
                true
            }
            Some(left) => tokio::time::timeout(left, self.inbox.ready()).await.is_ok(),
        };
        self.desk().driver = Is::Busy;
        if !in_time {
            return None;
        }
        // There is one: nobody else takes any out.
        let input = self.inbox.try_pop();
        if let Some(input) = &input {
            self.catches_up(input);
        }
        input
    }
}

#[cfg(test)]
mod tests;
