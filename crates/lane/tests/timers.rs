//! Timers: indices per policy, generations, the owner's deadline, moving along.

#![allow(
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests own the tasks they spawn; helpers are not covered by the lints' test settings"
)]

mod support;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use spotlane_lane::{
    Clock, FifoLimits, GateUse, JobQueue, JobQueueSettings, LaneLimits, Monotonic, OnTickError,
    OverrunPolicy, TimerError, TimerSettings, Timers,
};
use support::{Bench, Step, running, settle};

const MS: Duration = Duration::from_millis(1);

fn every(ms: u32, policy: OverrunPolicy) -> TimerSettings {
    TimerSettings::new(MS * ms, policy, OnTickError::GoOn).unwrap()
}

fn timers(bench: &Bench) -> Timers {
    Timers::new(Arc::new(bench.clock.clone()))
}

async fn at(bench: &Bench, timers: &Timers, by: u32) {
    bench.clock.advance(MS * by);
    timers.fire(bench.clock.now(), None);
    settle().await;
}

/// Holds the lane for so long, so that ticks come late.
async fn busy(bench: &Bench, spot: &support::SpotLane, timers: &Timers, ms: u32) {
    let release = running(spot, "busy").await;
    for _ in 0..ms / 5 {
        at(bench, timers, 5).await;
    }
    release.send(()).unwrap();
    settle().await;
    bench.log.clear();
}

/// EX-233, EX-234, EX-235, EX-230: on time, every index has its tick.
#[tokio::test]
async fn ticks_that_are_on_time_have_every_index() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    timers.register(&spot, "t", every(10, OverrunPolicy::default()));
    at(&bench, &timers, 9).await;
    assert_eq!(bench.log.text(), "");
    for _ in 0..3 {
        at(&bench, &timers, 10).await;
    }
    assert_eq!(bench.log.text(), "t:1/1+0 t:2/2+0 t:3/3+0");
    assert_eq!(
        timers.next_deadline(),
        Some(Monotonic::from_origin(MS * 40))
    );
}

/// EX-237, EX-233: late ticks are skipped up to the latest index; the rate stays fixed.
#[tokio::test]
async fn skip_late_ticks_delivers_the_latest() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    timers.register(&spot, "t", every(10, OverrunPolicy::SkipLateTicks));
    at(&bench, &timers, 45).await;
    at(&bench, &timers, 5).await;
    at(&bench, &timers, 10).await;
    assert_eq!(bench.log.text(), "t:1/4+3 t:2/5+0 t:3/6+0");
}

/// EX-238: the last few late ticks are delivered in order, the older ones show as skipped.
#[tokio::test]
async fn catch_up_is_bounded() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    let ticks_max = NonZeroU32::new(2).unwrap();
    timers.register(
        &spot,
        "t",
        every(10, OverrunPolicy::CatchUpBounded { ticks_max }),
    );
    at(&bench, &timers, 55).await;
    at(&bench, &timers, 0).await;
    at(&bench, &timers, 0).await;
    assert_eq!(bench.log.text(), "t:1/4+3 t:2/5+0");
    at(&bench, &timers, 5).await;
    assert_eq!(bench.log.text(), "t:1/4+3 t:2/5+0 t:3/6+0");
}

/// EX-239: the next tick is due a period after the end of the callback, and nothing counts as skipped.
#[tokio::test]
async fn delay_next_tick_counts_from_the_end() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    timers.register(&spot, "t", every(10, OverrunPolicy::DelayNextTick));
    at(&bench, &timers, 37).await;
    at(&bench, &timers, 9).await;
    assert_eq!(bench.log.text(), "t:1/1+0");
    at(&bench, &timers, 1).await;
    assert_eq!(bench.log.text(), "t:1/1+0 t:2/2+0");
}

/// EX-235, EX-242: at most one tick is queued, and a busy owner is not flooded.
#[tokio::test]
async fn at_most_one_tick_is_queued() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    timers.register(&spot, "t", every(10, OverrunPolicy::SkipLateTicks));
    let release = running(&spot, "busy").await;
    for _ in 0..5 {
        at(&bench, &timers, 10).await;
    }
    assert_eq!(spot.application_usage().items, 2);
    release.send(()).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "busy( )busy t:1/1+0");
    at(&bench, &timers, 0).await;
    assert_eq!(bench.log.text(), "busy( )busy t:1/1+0 t:2/5+3");
}

/// EX-242, EX-127: a tick without a permit waits in its place and is coalesced.
#[tokio::test]
async fn a_tick_without_a_permit_waits() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    let jobs = JobQueue::new(JobQueueSettings::manual(1).unwrap());
    let held = jobs.source().reserve().await;
    let mut source = jobs.source();
    timers.register(&spot, "t", every(10, OverrunPolicy::SkipLateTicks));
    for _ in 0..3 {
        bench.clock.advance(MS * 10);
        timers.fire(bench.clock.now(), Some(&mut source));
    }
    settle().await;
    assert_eq!(bench.log.text(), "");
    drop(held);
    bench.clock.advance(MS * 10);
    timers.fire(bench.clock.now(), Some(&mut source));
    settle().await;
    assert_eq!(bench.log.text(), "t:1/4+3");
    assert_eq!((jobs.status().reserved, jobs.status().queued), (0, 0));
}

/// EX-232: the same name again is a new generation; queued ticks of the old one do not run.
#[tokio::test]
async fn a_new_generation_starts_again() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    timers.register(&spot, "t", every(10, OverrunPolicy::SkipLateTicks));
    at(&bench, &timers, 10).await;
    let release = running(&spot, "busy").await;
    at(&bench, &timers, 10).await;
    timers.register(&spot, "t", every(20, OverrunPolicy::SkipLateTicks));
    release.send(()).unwrap();
    settle().await;
    at(&bench, &timers, 20).await;
    assert_eq!(bench.log.text(), "t:1/1+0 busy( )busy t:1/1+0");
}

/// EX-232: a cancelled timer starts no callback any more.
#[tokio::test]
async fn a_cancelled_timer_does_not_tick() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    let timer = timers.register(&spot, "t", every(10, OverrunPolicy::SkipLateTicks));
    spot.enqueue(Step::Note("first")).unwrap();
    bench.clock.advance(MS * 10);
    timers.fire(bench.clock.now(), None);
    timer.cancel();
    settle().await;
    at(&bench, &timers, 100).await;
    assert_eq!(bench.log.text(), "first");
    assert_eq!(spot.application_usage().items, 0);
    assert_eq!(timers.next_deadline(), None);
}

/// EX-243: past the owner's local deadline no tick is queued and no queued one starts.
#[tokio::test]
async fn no_tick_runs_past_the_owners_deadline() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    let timer = timers.register(&spot, "t", every(10, OverrunPolicy::SkipLateTicks));
    timer.admit_until(Some(Monotonic::from_origin(MS * 25)));
    at(&bench, &timers, 10).await;
    busy(&bench, &spot, &timers, 20).await;
    at(&bench, &timers, 30).await;
    assert_eq!(bench.log.text(), "");
    timer.admit_until(None);
    at(&bench, &timers, 0).await;
    assert_eq!(bench.log.text(), "t:2/6+4");
}

/// EX-244: a failing callback fails its tick, or ends its timer when it was registered so.
#[tokio::test]
async fn a_failing_tick_can_end_its_timer() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    let settings =
        |on_error| TimerSettings::new(MS * 10, OverrunPolicy::SkipLateTicks, on_error).unwrap();
    timers.register(&spot, "failing", settings(OnTickError::GoOn));
    at(&bench, &timers, 10).await;
    at(&bench, &timers, 10).await;
    assert_eq!(bench.log.text(), "failing:1/1+0 failing:2/2+0");
    timers.register(&spot, "failing", settings(OnTickError::Stop));
    bench.log.clear();
    at(&bench, &timers, 10).await;
    at(&bench, &timers, 10).await;
    assert_eq!(bench.log.text(), "failing:1/1+0");
    assert_eq!(bench.engine.stats().handlers_failed(), 3);
}

/// EX-231, EX-238: periods and limits are checked at registration; fractions are rounded up.
#[test]
fn settings_are_checked() {
    let new = |period, policy| TimerSettings::new(period, policy, OnTickError::GoOn);
    let skip = OverrunPolicy::SkipLateTicks;
    assert_eq!(new(Duration::ZERO, skip), Err(TimerError::NoPeriod));
    assert_eq!(new(Duration::from_micros(1), skip).unwrap().period(), MS);
    assert_eq!(
        new(Duration::from_micros(2500), skip).unwrap().period(),
        MS * 3
    );
    let ticks_max = NonZeroU32::new(1 << 31).unwrap();
    assert!(new(MS, OverrunPolicy::CatchUpBounded { ticks_max }).is_err());
}

/// EX-230, EX-245: a timer moves with its indices; lateness on the way is treated by its policy.
#[tokio::test]
async fn a_moved_timer_goes_on_with_its_indices() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    timers.register(&spot, "t", every(10, OverrunPolicy::SkipLateTicks));
    at(&bench, &timers, 10).await;
    at(&bench, &timers, 10).await;
    let captured = timers.capture(&spot, 1_000_020);
    assert_eq!(captured.len(), 1);
    assert_eq!(captured[0].completed_schedule_index, 2);
    assert_eq!(captured[0].next_due_unix_ms, 1_000_030);
    assert_eq!(timers.next_deadline(), None);

    let other = Bench::new();
    let (there, timers) = (other.spot(GateUse::Own), self::timers(&other));
    other.clock.advance(MS * 5000);
    // 35 ms on the way: index 3 was due 25 ms ago.
    timers.restore(&there, &captured[0], 1_000_055);
    at(&other, &timers, 0).await;
    assert_eq!(other.log.text(), "t:3/5+2");
    at(&other, &timers, 5).await;
    assert_eq!(other.log.text(), "t:3/5+2 t:4/6+0");
}

/// EX-245, EX-201: a tick that is queued at the seal is captured in its place.
#[tokio::test]
async fn a_queued_tick_is_captured() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    timers.register(&spot, "t", every(10, OverrunPolicy::SkipLateTicks));
    let release = running(&spot, "w").await;
    at(&bench, &timers, 10).await;
    let request = tokio::spawn({
        let spot = spot.clone();
        async move { spot.request_seal().await }
    });
    settle().await;
    release.send(()).unwrap();
    let guard = request.await.unwrap().unwrap();
    let ticks = guard
        .captured()
        .filter(|entry| matches!(entry, spotlane_lane::Captured::Tick(_)));
    assert_eq!(ticks.count(), 1);
    guard.restore(None);
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "w( )w t:1/1+0");
}

/// EX-241: one scheduler fires for all, and sleeps until the next deadline.
#[tokio::test(start_paused = true)]
async fn the_scheduler_fires_on_time() {
    let bench = Bench::new();
    let origin = tokio::time::Instant::now();
    let clock = move || Monotonic::from_origin(origin.elapsed());
    let timers = Timers::new(Arc::new(clock));
    let spots = [bench.spot(GateUse::Own), bench.spot(GateUse::Own)];
    for spot in &spots {
        timers.register(spot, "t", every(10, OverrunPolicy::SkipLateTicks));
    }
    let scheduler = tokio::spawn({
        let timers = timers.clone();
        async move { timers.run(None).await }
    });
    for _ in 0..25 {
        tokio::time::advance(MS).await;
        settle().await;
    }
    assert_eq!(bench.log.text(), "t:1/1+0 t:1/1+0 t:2/2+0 t:2/2+0");
    scheduler.abort();
}

/// EX-242, EX-101: a tick that found its lane full is due when there is room, not a period later.
#[tokio::test(start_paused = true)]
async fn a_tick_without_room_waits_for_the_room_only() {
    let bench = Bench::new();
    let one = LaneLimits::DEFAULT.application(FifoLimits::new(1, 1 << 20));
    let spot = bench.spot_with(one, GateUse::Own);
    let timers = timers(&bench);
    timers.register(&spot, "t", every(3_600_000, OverrunPolicy::default()));
    let release = running(&spot, "busy").await;
    bench.clock.advance(MS * 3_600_000);
    let running = timers.clone();
    let task = tokio::task::spawn(async move { running.run(None).await });
    settle().await;
    assert_eq!(bench.log.text(), "busy(");
    release.send(()).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "busy( )busy t:1/1+0");
    task.abort();
}

/// EX-242, EX-112: a tick that waits for room ends with its lane.
#[tokio::test]
async fn a_tick_that_waits_for_room_ends_with_its_lane() {
    let bench = Bench::new();
    let one = LaneLimits::DEFAULT.application(FifoLimits::new(1, 1 << 20));
    let spot = bench.spot_with(one, GateUse::Own);
    let timers = timers(&bench);
    timers.register(&spot, "t", every(10, OverrunPolicy::default()));
    let release = running(&spot, "busy").await;
    at(&bench, &timers, 10).await;
    assert_eq!(timers.next_deadline(), None);
    assert_eq!(spot.try_close(), Ok(()));
    at(&bench, &timers, 0).await;
    release.send(()).unwrap();
    spot.await_quiescence().await;
    assert_eq!(bench.log.text(), "busy( )busy");
    assert_eq!(timers.next_deadline(), None);
}

/// EX-127, EX-242: a tick that found no permit gets the next one, without waiting for its next period.
#[tokio::test(start_paused = true)]
async fn a_tick_without_a_permit_waits_for_the_permit_only() {
    let bench = Bench::new();
    let (spot, timers) = (bench.spot(GateUse::Own), timers(&bench));
    let jobs = JobQueue::new(JobQueueSettings::manual(1).unwrap());
    let held = jobs.source().try_reserve().unwrap();
    timers.register(&spot, "t", every(3_600_000, OverrunPolicy::default()));
    bench.clock.advance(MS * 3_600_000);
    let (running, source) = (timers.clone(), jobs.source());
    let task = tokio::task::spawn(async move { running.run(Some(source)).await });
    settle().await;
    assert_eq!(bench.log.text(), "");
    drop(held);
    settle().await;
    assert_eq!(bench.log.text(), "t:1/1+0");
    task.abort();
}
