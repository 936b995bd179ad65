//! An Actor at a host: state, queue and timer, one handler at a time.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use spotlane_location::cache::Route;
use spotlane_session::actor::ActorBinding;
use spotlane_types::id::RelocationId;
use spotlane_wire::frozen::FrozenRecord;

use crate::observation::{BindingNumber, MessageId, Work};

/// What an Actor remembers: everything it has handled, in order, and some weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a plain value")]
pub struct ActorState {
    /// What it has handled.
    pub handled: Vec<Work>,
    /// Bytes without a meaning.
    pub ballast: usize,
}

impl ActorState {
    /// Captures it.
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(16 + self.handled.len() * 9 + self.ballast);
        bytes.put_u64(wide(self.handled.len()));
        for work in &self.handled {
            let (kind, number) = match work {
                Work::Message(MessageId(number)) => (0, *number),
                Work::Tick(number) => (1, *number),
                Work::Disconnected(binding) => (2, binding.get()),
            };
            bytes.put_u8(kind);
            bytes.put_u64(number);
        }
        bytes.put_bytes(0x5A, self.ballast);
        bytes.freeze()
    }

    /// Restores it.
    ///
    /// # Errors
    /// The bytes are not what was captured.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self> {
        let count = bytes.try_get_u64().context("a count")?;
        let mut handled = Vec::new();
        for _ in 0..count {
            let kind = bytes.try_get_u8().context("a kind of work")?;
            let number = bytes.try_get_u64().context("a number of work")?;
            handled.push(match kind {
                0 => Work::Message(MessageId(number)),
                1 => Work::Tick(number),
                2 => Work::Disconnected(BindingNumber::from_number(number)),
                other => anyhow::bail!("{other} is no kind of work"),
            });
        }
        anyhow::ensure!(
            bytes.iter().all(|byte| *byte == 0x5A),
            "ballast was damaged"
        );
        Ok(Self {
            handled,
            ballast: bytes.len(),
        })
    }
}

fn wide(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// One entry of the queue.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "what an Actor handles here")]
pub enum Item {
    /// A message.
    Message(Box<FrozenRecord>),
    /// A due tick.
    Tick(Tick),
}

/// A due tick of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a plain value")]
pub struct Tick {
    /// Which due tick it is.
    pub scheduled: u64,
    /// When it was due, in milliseconds of the world.
    pub at_millis: u64,
}

impl Item {
    /// What it is for.
    pub fn work(&self) -> Option<Work> {
        match self {
            Self::Message(record) => crate::cast::message_of(record)
                .map(Work::Message)
                .or_else(|| crate::cast::disconnected_of(record).map(Work::Disconnected)),
            Self::Tick(tick) => Some(Work::Tick(tick.scheduled)),
        }
    }
}

/// The timer of an Actor. Ticks that are missed are skipped, and their numbers with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a plain value")]
pub struct Timer {
    /// From one tick to the next, in milliseconds.
    pub period_millis: u64,
    /// The last due tick.
    pub scheduled: u64,
    /// When the next is due, in milliseconds of the world.
    pub next_millis: u64,
}

impl Timer {
    /// Takes the tick that is due, and skips those that were missed.
    pub fn due(&mut self, now_millis: u64) -> Option<Tick> {
        if now_millis < self.next_millis {
            return None;
        }
        let late = now_millis - self.next_millis;
        let missed = late.checked_div(self.period_millis).unwrap_or(0);
        self.scheduled = self.scheduled.saturating_add(missed).saturating_add(1);
        let at_millis = self.next_millis + missed * self.period_millis;
        self.next_millis = at_millis + self.period_millis;
        Some(Tick {
            scheduled: self.scheduled,
            at_millis,
        })
    }
}

/// Whether an Actor starts handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by the seal of R§4.2")]
pub enum Gate {
    /// It serves.
    Open,
    /// It serves until the running turn ends.
    SealWanted(RelocationId),
    /// It stands still for this move.
    Sealed(RelocationId),
    /// It has arrived here and does not serve yet.
    Merged,
}

/// The turn that is running.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a plain value")]
pub struct Running {
    /// What it is for.
    pub item: Item,
    /// When it ends.
    pub until: Duration,
}

/// An Actor at a host.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "the host drives it")]
pub struct Lane {
    /// Its tenure here.
    pub route: Route,
    /// Its state.
    pub state: ActorState,
    /// Accepted and not begun.
    pub queue: VecDeque<Item>,
    /// The turn that is running.
    pub running: Option<Running>,
    /// Its timer.
    pub timer: Option<Timer>,
    /// Whether it starts handlers.
    pub gate: Gate,
    /// What was accepted after the seal and is still held here.
    pub hold: VecDeque<FrozenRecord>,
    /// The session that is bound to it.
    pub binding: ActorBinding,
}

impl Lane {
    /// An Actor that serves, with nothing in its queue.
    pub const fn new(
        route: Route,
        state: ActorState,
        timer: Option<Timer>,
        binding: ActorBinding,
    ) -> Self {
        Self {
            binding,
            route,
            state,
            queue: VecDeque::new(),
            running: None,
            timer,
            gate: Gate::Open,
            hold: VecDeque::new(),
        }
    }

    /// Whether it starts handlers.
    pub const fn serves(&self) -> bool {
        matches!(self.gate, Gate::Open | Gate::SealWanted(_))
    }

    /// When it next has something to do by time.
    pub fn next_at(&self, timers_run: bool) -> Option<Duration> {
        let turn = self.running.as_ref().map(|running| running.until);
        let tick = self
            .timer
            .filter(|_| timers_run && self.serves())
            .map(|timer| Duration::from_millis(timer.next_millis));
        [turn, tick].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_capture_and_restore() {
        let state = ActorState {
            handled: vec![Work::Message(MessageId(3)), Work::Tick(9)],
            ballast: 7,
        };
        let bytes = state.to_bytes();
        assert_eq!(ActorState::from_bytes(&bytes).unwrap(), state);
        assert!(ActorState::from_bytes(&bytes[..9]).is_err());
    }

    #[test]
    fn missed_ticks_are_skipped_and_keep_their_numbers() {
        let mut timer = Timer {
            period_millis: 10,
            scheduled: 4,
            next_millis: 100,
        };
        assert_eq!(timer.due(99), None);
        assert_eq!(timer.due(100).unwrap().scheduled, 5);
        assert_eq!(timer.due(135).unwrap().scheduled, 8);
        assert_eq!(timer.next_millis, 140);
    }
}
