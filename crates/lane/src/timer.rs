//! One timer registration as a pure machine: time and ends of callbacks go in, ticks come out.
//!
//! Indices are the only promises of time (EX-234). A late callback shifts nothing under the two fixed
//! rate policies (EX-233); what is late is treated by the policy, once, when the callback ended
//! (EX-235).

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::ticker::{TimerKey, TimersInner};
use crate::time::Monotonic;

/// What happens to ticks that became due while a callback ran late (EX-237 to EX-239).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by EX-237 to EX-239")]
pub enum OverrunPolicy {
    /// One tick for the latest index that is due. Wire value 1.
    #[default]
    SkipLateTicks,
    /// The last few of the late indices, at most so many, in order. Wire value 2.
    CatchUpBounded {
        /// The greatest number of late ticks that are delivered, `1..=2^31 - 1`.
        ticks_max: NonZeroU32,
    },
    /// The next tick is due one period after the callback ended. Wire value 3.
    DelayNextTick,
}

/// What a failing callback does to its timer (EX-244).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by EX-244")]
pub enum OnTickError {
    /// Only that tick failed.
    #[default]
    GoOn,
    /// The timer ends.
    Stop,
}

/// Why a registration is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TimerError {
    /// The period is zero.
    #[error("the period is zero")]
    NoPeriod,
    /// The catch-up limit is above `2^31 - 1`.
    #[error("the catch-up limit is {ticks_max}, it must be at most 2147483647")]
    CatchUpOutOfRange {
        /// What was asked for.
        ticks_max: u32,
    },
}

/// The settings of one timer, checked at registration (EX-231, EX-238).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerSettings {
    period: Duration,
    policy: OverrunPolicy,
    on_error: OnTickError,
}

impl TimerSettings {
    /// A timer of this period. A fraction of a millisecond is rounded up (EX-231).
    ///
    /// # Errors
    /// The period is zero, or the catch-up limit out of range; fix the setting.
    pub fn new(
        period: Duration,
        policy: OverrunPolicy,
        on_error: OnTickError,
    ) -> Result<Self, TimerError> {
        if period.is_zero() {
            return Err(TimerError::NoPeriod);
        }
        if let OverrunPolicy::CatchUpBounded { ticks_max } = policy
            && ticks_max.get() > 0x7FFF_FFFF
        {
            return Err(TimerError::CatchUpOutOfRange {
                ticks_max: ticks_max.get(),
            });
        }
        let millis = u64::try_from(period.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Ok(Self {
            period: Duration::from_millis(millis),
            policy,
            on_error,
        })
    }

    /// The period, in whole milliseconds.
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// The overrun policy.
    pub const fn policy(&self) -> OverrunPolicy {
        self.policy
    }

    /// What a failing callback does.
    pub const fn on_error(&self) -> OnTickError {
        self.on_error
    }
}

/// One tick of a timer, as its callback gets it (EX-234).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// The name of the timer, unique per owner.
    pub name: Arc<str>,
    /// The period of the timer.
    pub period: Duration,
    /// From 1, one more for every callback that starts in this generation.
    pub delivery_index: u64,
    /// The nominal index the callback stands for; never falls and is never below the delivery index.
    pub schedule_index: u64,
    /// Nominal ticks between the previous callback and this one that have none.
    pub skipped_ticks: u64,
    /// When the tick was due.
    pub scheduled_at: Monotonic,
    /// When the callback started.
    pub started_at: Monotonic,
    /// When the timer started: nominal index 0.
    pub origin: Monotonic,
}

impl Tick {
    /// A tick that was queued at the former owner of a moved object (EX-245); the target fills in its indices and times.
    pub fn restored(name: Arc<str>, period: Duration) -> Self {
        Self {
            name,
            period,
            delivery_index: 1,
            schedule_index: 1,
            skipped_ticks: 0,
            scheduled_at: Monotonic::ORIGIN,
            started_at: Monotonic::ORIGIN,
            origin: Monotonic::ORIGIN,
        }
    }

    /// How late the callback started.
    pub fn lateness(&self) -> Duration {
        self.started_at.since(self.scheduled_at)
    }

    /// Nominal time since the timer started.
    pub fn elapsed_scheduled(&self) -> Duration {
        self.scheduled_at.since(self.origin)
    }

    /// Actual time since the timer started.
    pub fn elapsed_started(&self) -> Duration {
        self.started_at.since(self.origin)
    }
}

/// The progress of a timer, as it moves with its owner (EX-230, EX-245).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "closed by EX-230: the target builds it from the record"
)]
pub struct CapturedTimer {
    /// The name of the timer.
    pub name: Arc<str>,
    /// Its settings.
    pub settings: TimerSettings,
    /// Last completed delivery index.
    pub completed_delivery_index: u64,
    /// Last completed schedule index.
    pub completed_schedule_index: u64,
    /// When the next tick is due, in Unix milliseconds.
    pub next_due_unix_ms: u64,
}

/// The machine of one registration.
#[derive(Clone, Debug)]
pub(crate) struct TimerMachine {
    pub(crate) settings: TimerSettings,
    /// Nominal index 0. Index k is due at `origin + k * period`, shifted only by `DelayNextTick`.
    origin: Monotonic,
    delivered: u64,
    scheduled: u64,
    next: u64,
    next_due: Monotonic,
    /// The end of the interval that is being caught up (EX-238).
    catch_up_to: u64,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for its next due time.
    Scheduled,
    /// A tick is queued.
    Queued,
    /// A callback runs.
    Running,
    /// Ended by its callback's failure.
    Ended,
}

impl TimerMachine {
    pub(crate) fn new(settings: TimerSettings, now: Monotonic) -> Self {
        Self {
            settings,
            origin: now,
            delivered: 0,
            scheduled: 0,
            next: 1,
            next_due: now.after(settings.period),
            catch_up_to: 0,
            stage: Stage::Scheduled,
        }
    }

    /// EX-245: the stored due time was converted once; indices go on.
    pub(crate) fn restored(captured: &CapturedTimer, next_due: Monotonic) -> Self {
        let next = captured.completed_schedule_index + 1;
        let period = captured.settings.period;
        let before = Duration::from_nanos(
            u64::try_from(period.as_nanos())
                .unwrap_or(u64::MAX)
                .saturating_mul(next),
        );
        let origin = next_due.since_origin().saturating_sub(before);
        Self {
            settings: captured.settings,
            origin: Monotonic::from_origin(origin),
            delivered: captured.completed_delivery_index,
            scheduled: captured.completed_schedule_index,
            next,
            next_due,
            catch_up_to: 0,
            stage: Stage::Scheduled,
        }
    }

    /// When to look at this timer again; `None` while a tick is queued or runs.
    pub(crate) fn next_deadline(&self) -> Option<Monotonic> {
        (self.stage == Stage::Scheduled).then_some(self.next_due)
    }

    /// The latest nominal index that is due (EX-233).
    fn latest_due(&self, now: Monotonic) -> u64 {
        let late = now.since(self.next_due).as_nanos();
        let more = late
            .checked_div(self.settings.period.as_nanos())
            .unwrap_or(0);
        self.next
            .saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
    }

    fn due_of(&self, index: u64) -> Monotonic {
        let ahead = index.saturating_sub(self.next);
        let period = u64::try_from(self.settings.period.as_nanos()).unwrap_or(u64::MAX);
        self.next_due
            .after(Duration::from_nanos(period.saturating_mul(ahead)))
    }

    /// The index to deliver, when one is due. Called again it coalesces by the policy (EX-242).
    fn select(&mut self, now: Monotonic) -> Option<u64> {
        if now < self.next_due {
            return None;
        }
        if self.next <= self.catch_up_to {
            return Some(self.next);
        }
        let latest = self.latest_due(now);
        Some(match self.settings.policy {
            OverrunPolicy::SkipLateTicks => latest,
            OverrunPolicy::CatchUpBounded { ticks_max } => {
                let late = latest - self.scheduled;
                let first = latest - (late.min(u64::from(ticks_max.get())) - 1);
                self.catch_up_to = latest;
                first
            }
            OverrunPolicy::DelayNextTick => self.next,
        })
    }

    /// A tick for the queue, when one is due and none is queued or running.
    pub(crate) fn on_due(&mut self, now: Monotonic, name: &Arc<str>) -> Option<Tick> {
        if self.stage != Stage::Scheduled {
            return None;
        }
        let index = self.select(now)?;
        let scheduled_at = self.due_of(index);
        self.next = index;
        self.next_due = scheduled_at;
        self.stage = Stage::Queued;
        Some(Tick {
            name: Arc::clone(name),
            period: self.settings.period,
            // Settled when the callback starts; what is queued shows what it would be.
            delivery_index: self.delivered + 1,
            schedule_index: index,
            skipped_ticks: index - self.scheduled - 1,
            scheduled_at,
            started_at: scheduled_at,
            origin: self.origin,
        })
    }

    /// The tick did not get into the queue, or left it without its callback: due as before.
    pub(crate) fn on_returned(&mut self) {
        if self.stage == Stage::Queued {
            self.stage = Stage::Scheduled;
            self.catch_up_to = self.catch_up_to.min(self.scheduled);
        }
    }

    /// The tick had no place; it is offered again with its next nominal tick (EX-242).
    pub(crate) fn retry_at(&self, now: Monotonic) -> Monotonic {
        now.after(self.settings.period)
    }

    pub(crate) fn on_started(&mut self) {
        self.stage = Stage::Running;
        self.delivered += 1;
        self.scheduled = self.next;
    }

    /// EX-235: the next tick is computed now.
    pub(crate) fn on_ended(&mut self, now: Monotonic, outcome: TickOutcome) {
        if outcome == TickOutcome::Failed && self.settings.on_error == OnTickError::Stop {
            self.stage = Stage::Ended;
            return;
        }
        let ended = self.next;
        self.next = ended + 1;
        self.next_due = match self.settings.policy {
            OverrunPolicy::DelayNextTick => now.after(self.settings.period),
            OverrunPolicy::SkipLateTicks | OverrunPolicy::CatchUpBounded { .. } => {
                self.next_due.after(self.settings.period)
            }
        };
        self.stage = Stage::Scheduled;
    }

    pub(crate) fn is_running(&self) -> bool {
        self.stage == Stage::Running
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    pub(crate) fn capture(&self, name: &Arc<str>, now: Monotonic, unix_ms: u64) -> CapturedTimer {
        let ahead = u64::try_from(self.next_due.since(now).as_millis()).unwrap_or(u64::MAX);
        let behind = u64::try_from(now.since(self.next_due).as_millis()).unwrap_or(u64::MAX);
        CapturedTimer {
            name: Arc::clone(name),
            settings: self.settings,
            completed_delivery_index: self.delivered,
            completed_schedule_index: self.scheduled,
            next_due_unix_ms: unix_ms.saturating_add(ahead).saturating_sub(behind),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TickOutcome {
    Completed,
    Failed,
}

/// Goes with a queued tick and tells its timer what became of it, exactly once.
pub(crate) struct TickEnd {
    pub(crate) timers: Arc<TimersInner>,
    pub(crate) key: TimerKey,
    pub(crate) state: EndState,
    pub(crate) permit: Option<crate::jobs::JobPermit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndState {
    Queued,
    Started,
    Told,
}

impl TickEnd {
    /// EX-232, EX-243: whether the callback may start. A tick of an older generation, of a cancelled
    /// timer or of an owner past its deadline may not.
    pub(crate) fn begin(&mut self, tick: &mut Tick) -> bool {
        drop(self.permit.take());
        let started = self.timers.started(self.key, tick);
        self.state = if started {
            EndState::Started
        } else {
            EndState::Told
        };
        started
    }

    pub(crate) fn ended(mut self, outcome: TickOutcome) {
        self.state = EndState::Told;
        self.timers.ended(self.key, outcome);
    }

    /// The tick moved to another host with its owner.
    pub(crate) fn moved(mut self) {
        self.state = EndState::Told;
    }
}

impl Drop for TickEnd {
    fn drop(&mut self) {
        match self.state {
            EndState::Queued => self.timers.returned(self.key),
            EndState::Started => self.timers.ended(self.key, TickOutcome::Failed),
            EndState::Told => {}
        }
    }
}
