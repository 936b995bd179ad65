//! The Application Job Queue: one counter per host of jobs that wait for a handler (EX-120 to EX-135).
//!
//! It is not the limit of a lane and shares no unit or error with it. At the limit nothing is refused
//! or dropped; whoever wants to receive waits, and a permit that comes back goes straight to the source
//! that waits longest (EX-123, EX-130). Lifecycle work and control take no permit here, so they never
//! wait behind application work (EX-150, EX-151); what passes without one is decided where it is
//! received (EX-128).

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use thiserror::Error;

use crate::sync::Mutex;

/// How many jobs per processor a host takes when no limit is set by hand (EX-133).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by EX-133")]
pub enum JobQueueProfile {
    /// 32 jobs per processor.
    Compact,
    /// 64 jobs per processor.
    LowLatency,
    /// 128 jobs per processor.
    #[default]
    Balanced,
    /// 256 jobs per processor.
    Throughput,
}

impl JobQueueProfile {
    const fn per_processor(self) -> u32 {
        match self {
            Self::Compact => 32,
            Self::LowLatency => 64,
            Self::Balanced => 128,
            Self::Throughput => 256,
        }
    }
}

/// The settings of a job queue, checked once at startup (EX-133, EX-134).
#[derive(Clone, Copy, Debug)]
pub struct JobQueueSettings {
    limit: u32,
    pause_percent: u8,
    resume_percent: u8,
}

/// Why settings of a job queue are no settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JobQueueError {
    /// The limit is outside `1..=2^31 - 1`.
    #[error("the job limit is {jobs}, it must be between 1 and 2147483647")]
    LimitOutOfRange {
        /// What was asked for.
        jobs: u64,
    },
    /// The thresholds are outside their ranges or the resume threshold is not below the pause one.
    #[error("pause at {pause} % and resume at {resume} % do not go together")]
    Thresholds {
        /// Percent of the limit at which receiving pauses, `1..=100`.
        pause: u8,
        /// Percent of the limit at which it resumes, below `pause`.
        resume: u8,
    },
}

impl JobQueueSettings {
    /// A limit set by hand.
    ///
    /// # Errors
    /// A limit outside `1..=2^31 - 1`; fix the setting.
    pub const fn manual(jobs: u64) -> Result<Self, JobQueueError> {
        if jobs == 0 || jobs > 0x7FFF_FFFF {
            return Err(JobQueueError::LimitOutOfRange { jobs });
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked just above")]
        let limit = jobs as u32;
        Ok(Self {
            limit,
            pause_percent: 80,
            resume_percent: 60,
        })
    }

    /// The limit of a profile on a host with so many processors.
    ///
    /// # Errors
    /// The product is outside `1..=2^31 - 1`; fix the setting.
    pub const fn profile(
        profile: JobQueueProfile,
        processors: NonZeroU32,
    ) -> Result<Self, JobQueueError> {
        Self::manual(profile.per_processor() as u64 * processors.get() as u64)
    }

    /// Replaces the thresholds of the pressure signal, in percent of the limit.
    ///
    /// # Errors
    /// `pause` outside `1..=100` or `resume` not below it; fix the setting.
    pub const fn thresholds(mut self, pause: u8, resume: u8) -> Result<Self, JobQueueError> {
        if pause == 0 || pause > 100 || resume >= pause {
            return Err(JobQueueError::Thresholds { pause, resume });
        }
        self.pause_percent = pause;
        self.resume_percent = resume;
        Ok(self)
    }
}

/// Whether ordinary receiving should go on (EX-134).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by EX-134")]
pub enum Pressure {
    /// Below the thresholds, or not yet above.
    Running,
    /// Above the pause threshold and not yet back at the resume threshold.
    Paused,
}

/// What a job queue shows (EX-135).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobQueueStatus {
    /// The fixed limit.
    pub limit: u32,
    /// Permits taken by records that are not in a FIFO yet.
    pub reserved: u32,
    /// Permits of jobs that stand in a FIFO.
    pub queued: u32,
    /// The greatest sum of the two in this epoch.
    pub peak: u32,
    /// Sources that wait.
    pub waiters: usize,
    /// How often a source had to wait in this epoch.
    pub waits: u64,
    /// The pressure signal.
    pub pressure: Pressure,
    /// How often the pressure changed in this epoch.
    pub transitions: u64,
}

/// The job permits of one host.
#[derive(Clone)]
pub struct JobQueue {
    inner: Arc<Inner>,
}

struct Inner {
    limit: u32,
    pause_at: u32,
    resume_at: u32,
    /// Never held together with a lane's lock by code that waits, and never around a wake.
    state: Mutex<State>,
    pressure: tokio::sync::watch::Sender<Pressure>,
}

struct State {
    reserved: u32,
    queued: u32,
    peak: u32,
    waits: u64,
    transitions: u64,
    pressure: Pressure,
    waiters: VecDeque<Arc<SourceCell>>,
}

/// One source's place; locked inside the queue's state, never around it.
struct SourceCell(Mutex<Place>);

enum Place {
    Away,
    Waiting(Option<Waker>),
    Granted,
}

impl JobQueue {
    /// Makes the queue of a host.
    pub fn new(settings: JobQueueSettings) -> Self {
        let limit = settings.limit;
        let percent = |part: u8| u64::from(limit) * u64::from(part);
        let pause_at = u32::try_from(percent(settings.pause_percent).div_ceil(100));
        let resume_at = u32::try_from(percent(settings.resume_percent) / 100);
        let state = State {
            reserved: 0,
            queued: 0,
            peak: 0,
            waits: 0,
            transitions: 0,
            pressure: Pressure::Running,
            waiters: VecDeque::new(),
        };
        let pressure = tokio::sync::watch::Sender::new(Pressure::Running);
        Self {
            inner: Arc::new(Inner {
                limit,
                pause_at: pause_at.unwrap_or(limit),
                resume_at: resume_at.unwrap_or(0),
                state: Mutex::new(state),
                pressure,
            }),
        }
    }

    /// Registers a source of jobs: a link, a session, a local caller. One waiter per source (EX-123).
    pub fn source(&self) -> JobSource {
        let cell = Arc::new(SourceCell(Mutex::new(Place::Away)));
        JobSource {
            inner: Arc::clone(&self.inner),
            cell,
            in_line: false,
        }
    }

    /// What the queue counts right now.
    pub fn status(&self) -> JobQueueStatus {
        let state = self.inner.state.lock();
        JobQueueStatus {
            limit: self.inner.limit,
            reserved: state.reserved,
            queued: state.queued,
            peak: state.peak,
            waiters: state.waiters.len(),
            waits: state.waits,
            pressure: state.pressure,
            transitions: state.transitions,
        }
    }

    /// Starts a new epoch: peak and counts of the past begin again, current values stay (EX-135).
    pub fn reset_epoch(&self) {
        let mut state = self.inner.state.lock();
        state.peak = state.reserved + state.queued;
        state.waits = 0;
        state.transitions = 0;
    }

    /// Follows the pressure signal; the latest value only, so a slow observer delays nobody (EX-155).
    pub fn pressure(&self) -> tokio::sync::watch::Receiver<Pressure> {
        self.inner.pressure.subscribe()
    }
}

impl Inner {
    /// EX-134: in between the thresholds the state stays. Returns the new state when it changed.
    fn judge(&self, state: &mut State) -> Option<Pressure> {
        let used = state.reserved + state.queued;
        state.peak = state.peak.max(used);
        let pressure = if used >= self.pause_at {
            Pressure::Paused
        } else if used <= self.resume_at {
            Pressure::Running
        } else {
            state.pressure
        };
        if pressure == state.pressure {
            return None;
        }
        state.pressure = pressure;
        state.transitions += 1;
        Some(pressure)
    }

    fn publish(&self, changed: Option<Pressure>) {
        if changed.is_some() {
            // Sent outside the lock, so two changes may cross; the state itself is what counts.
            let latest = self.state.lock().pressure;
            self.pressure
                .send_if_modified(|shown| std::mem::replace(shown, latest) != latest);
        }
    }

    /// EX-123: a returned permit goes directly to the oldest waiting live source.
    fn give_back_all(&self, permits: u32) {
        let mut state = self.state.lock();
        if state.waiters.is_empty() {
            state.reserved -= permits;
            let changed = self.judge(&mut state);
            drop(state);
            return self.publish(changed);
        }
        drop(state);
        for _ in 0..permits {
            self.give_back(Standing::Reserved);
        }
    }

    /// As [`Inner::give_back_all`], of one permit.
    fn give_back(&self, queued: Standing) {
        let mut waker = None;
        let mut state = self.state.lock();
        let mut granted = false;
        while let Some(cell) = state.waiters.pop_front() {
            let mut place = cell.0.lock();
            if let Place::Waiting(waiting) = &mut *place {
                waker = waiting.take();
                *place = Place::Granted;
                granted = true;
                break;
            }
        }
        match queued {
            Standing::Queued => state.queued -= 1,
            Standing::Reserved => state.reserved -= 1,
        }
        if granted {
            state.reserved += 1;
        }
        let changed = self.judge(&mut state);
        drop(state);
        self.publish(changed);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Reserved,
    Queued,
}

/// One source of jobs. Dropping it ends its wait and passes on what was handed to it (EX-125).
pub struct JobSource {
    inner: Arc<Inner>,
    cell: Arc<SourceCell>,
    /// It waits, or has not looked yet at what it was handed.
    in_line: bool,
}

impl JobSource {
    /// A permit if one is free and nobody waits, this source least of all; never waits itself.
    pub fn try_reserve(&mut self) -> Option<JobPermit> {
        if self.in_line {
            return None;
        }
        let mut state = self.inner.state.lock();
        if state.reserved + state.queued >= self.inner.limit || !state.waiters.is_empty() {
            return None;
        }
        state.reserved += 1;
        let changed = self.inner.judge(&mut state);
        drop(state);
        self.inner.publish(changed);
        Some(self.permit())
    }

    /// As [`JobSource::try_reserve`], of so many permits at once, or as many as are free: for records that are at hand
    /// together (EX-384, I1). What is not used goes back with what is given, so that is to be dropped soon.
    pub fn try_reserve_up_to(&mut self, most: u32) -> Option<JobPermits> {
        if self.in_line {
            return None;
        }
        let mut state = self.inner.state.lock();
        let free = self
            .inner
            .limit
            .saturating_sub(state.reserved + state.queued);
        let left = free.min(most);
        if left == 0 || !state.waiters.is_empty() {
            return None;
        }
        state.reserved += left;
        let changed = self.inner.judge(&mut state);
        drop(state);
        self.inner.publish(changed);
        Some(JobPermits {
            inner: Arc::clone(&self.inner),
            left,
        })
    }

    /// Waits for a permit, behind the sources that wait longer (EX-121, EX-123). To be called before
    /// the record is received (EX-120) and never with a gate or claim in hand (EX-129).
    ///
    /// # Cancel safety
    /// Dropped while it waits, the source leaves the line. A permit that was handed over in that moment
    /// goes to the next source, exactly once (EX-125).
    pub async fn reserve(&mut self) -> JobPermit {
        if let Some(permit) = self.try_reserve() {
            return permit;
        }
        let in_line = InLine { source: self };
        poll_fn(|cx| in_line.source.poll_reserve(cx)).await
    }

    /// As [`JobSource::reserve`], for a source that looks again when it is woken and has nobody who waits meanwhile. Between two
    /// calls it keeps its place in the line, and what it was handed (EX-123). Only the waker of the last call is woken, with
    /// nothing locked.
    pub fn poll_reserve(&mut self, cx: &mut Context<'_>) -> Poll<JobPermit> {
        let mut state = self.inner.state.lock();
        let mut place = self.cell.0.lock();
        match &mut *place {
            Place::Granted => {
                *place = Place::Away;
                self.in_line = false;
                drop((place, state));
                Poll::Ready(self.permit())
            }
            Place::Waiting(waker) => {
                let old = waker.replace(cx.waker().clone());
                drop((place, state));
                drop(old);
                Poll::Pending
            }
            Place::Away => {
                let free = state.reserved + state.queued < self.inner.limit;
                if free && state.waiters.is_empty() {
                    state.reserved += 1;
                    let changed = self.inner.judge(&mut state);
                    drop((place, state));
                    self.inner.publish(changed);
                    return Poll::Ready(self.permit());
                }
                state.waits += 1;
                *place = Place::Waiting(Some(cx.waker().clone()));
                state.waiters.push_back(Arc::clone(&self.cell));
                self.in_line = true;
                Poll::Pending
            }
        }
    }

    fn permit(&self) -> JobPermit {
        JobPermit {
            inner: Arc::clone(&self.inner),
            standing: Standing::Reserved,
        }
    }
}

/// Leaves the line of sources when the waiting future is dropped.
struct InLine<'a> {
    source: &'a mut JobSource,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.source.leave();
    }
}

impl Drop for JobSource {
    fn drop(&mut self) {
        self.leave();
    }
}

impl JobSource {
    fn leave(&mut self) {
        if !std::mem::take(&mut self.in_line) {
            return;
        }
        let mut state = self.inner.state.lock();
        let place = std::mem::replace(&mut *self.cell.0.lock(), Place::Away);
        let granted = matches!(place, Place::Granted);
        if matches!(place, Place::Waiting(_)) {
            state.waiters.retain(|cell| !Arc::ptr_eq(cell, &self.cell));
        }
        drop(state);
        drop(place);
        if granted {
            self.inner.give_back(Standing::Reserved);
        }
    }
}

/// Permits that were reserved together and are taken one by one. Dropping it gives the rest back.
#[must_use]
pub struct JobPermits {
    inner: Arc<Inner>,
    left: u32,
}

impl JobPermits {
    /// The next one; `None` when all are taken.
    #[inline]
    pub fn take(&mut self) -> Option<JobPermit> {
        self.left = self.left.checked_sub(1)?;
        Some(JobPermit {
            inner: Arc::clone(&self.inner),
            standing: Standing::Reserved,
        })
    }
}

impl Drop for JobPermits {
    fn drop(&mut self) {
        if self.left > 0 {
            self.inner.give_back_all(self.left);
        }
    }
}

/// One permit: the right to hold one job that waits for its handler. Dropping it gives it back, exactly
/// once, on every path (EX-125).
#[must_use]
pub struct JobPermit {
    inner: Arc<Inner>,
    standing: Standing,
}

impl JobPermit {
    /// EX-99, EX-122: turning a reservation into a queued job is one step, and changes nothing about what is
    /// in use: the job is never counted twice and never uncounted.
    pub(crate) fn queued(mut self) -> Self {
        if self.standing == Standing::Reserved {
            let mut state = self.inner.state.lock();
            state.reserved -= 1;
            state.queued += 1;
            drop(state);
            self.standing = Standing::Queued;
        }
        self
    }

    pub(crate) fn reserved(mut self) -> Self {
        if self.standing == Standing::Queued {
            let mut state = self.inner.state.lock();
            state.queued -= 1;
            state.reserved += 1;
            drop(state);
            self.standing = Standing::Reserved;
        }
        self
    }
}

impl Drop for JobPermit {
    fn drop(&mut self) {
        self.inner.give_back(self.standing);
    }
}

impl fmt::Debug for JobPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobPermit")
            .field("standing", &self.standing)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for JobPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobPermits")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for JobSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobSource").finish_non_exhaustive()
    }
}

impl fmt::Debug for JobQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobQueue")
            .field("status", &self.status())
            .finish()
    }
}
