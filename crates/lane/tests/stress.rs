//! Many owners, several workers, random waiting, panics and cancellations: mutual exclusion, order per
//! FIFO and exactly one terminal for every accepted item.
//!
//! The short form runs always. `SPOTLANE_STRESS_ITEMS=10000000` runs the long one.

#![allow(
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests own the tasks they spawn; helpers are not covered by the lints' test settings"
)]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not covered by the lint's setting"
)]

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use spotlane_lane::{
    ActorDelivery, AskError, Engine, Fence, GateUse, HandlerError, Kind, Lane, LaneLimits,
    Monotonic, Owner, Spot, Turn, TurnKind, Yielding,
};
use tokio::task::JoinSet;

/// Looks on from outside: what the engine promises, checked without its help.
#[derive(Default)]
struct Judge {
    overlaps: AtomicU64,
    out_of_order: AtomicU64,
    reused_fences: AtomicU64,
    ended: AtomicU64,
    ended_twice: AtomicU64,
    started: AtomicU64,
}

impl Judge {
    fn verdict(&self) -> Result<(), String> {
        let load = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        let found = [
            ("overlapping turns", load(&self.overlaps)),
            ("items out of order", load(&self.out_of_order)),
            ("reused fences", load(&self.reused_fences)),
            ("second terminals", load(&self.ended_twice)),
        ];
        match found.iter().find(|(_, count)| *count > 0) {
            Some((what, count)) => Err(format!("{count} {what}")),
            None => Ok(()),
        }
    }
}

/// A gate as the judge sees it: nobody is in it, or one turn.
#[derive(Default)]
struct Watch {
    inside: AtomicBool,
    last_fence: AtomicU64,
    seen: Mutex<Option<Fence>>,
}

impl Watch {
    fn enter(&self, judge: &Judge, fence: Fence) {
        if self.inside.swap(true, Ordering::SeqCst) {
            judge.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        let mut seen = self.seen.lock().unwrap();
        if *seen == Some(fence) {
            judge.reused_fences.fetch_add(1, Ordering::SeqCst);
        }
        *seen = Some(fence);
        self.last_fence.fetch_add(1, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.inside.store(false, Ordering::SeqCst);
    }
}

/// Tells the judge about its terminal, exactly once, when it is dropped.
struct Terminal {
    judge: Arc<Judge>,
    told: bool,
}

impl Terminal {
    fn new(judge: &Arc<Judge>) -> Self {
        judge.started.fetch_add(1, Ordering::SeqCst);
        Self {
            judge: Arc::clone(judge),
            told: false,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::mem::replace(&mut self.told, true) {
            self.judge.ended_twice.fetch_add(1, Ordering::SeqCst);
        }
        self.judge.ended.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Clone, Copy)]
enum What {
    Plain,
    Wait,
    Yield,
    Panic,
    Fail,
}

struct Item {
    what: What,
    sender: usize,
    number: u64,
    terminal: Terminal,
}

struct Watched<P> {
    judge: Arc<Judge>,
    gate: Arc<Watch>,
    /// The last number per sender, application and lifecycle apart.
    last: Vec<[u64; 2]>,
    broken: Option<Defect>,
    policy: std::marker::PhantomData<fn() -> P>,
}

/// A fault that is planted on purpose, to see that the judge finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defect {
    Overlap,
    Order,
    Terminal,
}

impl<P> Watched<P> {
    fn new(judge: &Arc<Judge>, gate: &Arc<Watch>, senders: usize, broken: Option<Defect>) -> Self {
        Self {
            judge: Arc::clone(judge),
            gate: Arc::clone(gate),
            last: vec![[0, 0]; senders],
            broken,
            policy: std::marker::PhantomData,
        }
    }
}

impl<P: spotlane_lane::LanePolicy> Owner for Watched<P>
where
    Yielding: spotlane_lane::WaitsUnder<P>,
{
    type Policy = P;
    type Waits = Yielding;
    type Item = Item;
    type Reply = u64;

    async fn handle(turn: &mut Turn<'_, Self>, mut item: Item) -> Result<u64, HandlerError> {
        let fence = turn.fence();
        let fifo = usize::from(turn.kind() == TurnKind::Lifecycle);
        let state = turn.state();
        let (judge, gate) = (Arc::clone(&state.judge), Arc::clone(&state.gate));
        gate.enter(&judge, fence);
        if state.broken == Some(Defect::Overlap) {
            gate.enter(&judge, fence);
        }
        if let Some(last) = state.last.get_mut(item.sender) {
            if item.number <= last[fifo] {
                judge.out_of_order.fetch_add(1, Ordering::SeqCst);
            }
            last[fifo] = item.number;
            if state.broken == Some(Defect::Order) {
                last[fifo] = u64::MAX - 1;
            }
        }
        if state.broken == Some(Defect::Terminal) {
            item.terminal.told = true;
        }
        match item.what {
            What::Plain => {}
            What::Wait => {
                tokio::task::yield_now().await;
            }
            What::Yield => {
                gate.leave();
                if turn.yield_for(tokio::task::yield_now()).await.is_err() {
                    // Not offered behind this gate: still the same turn, so nothing to look at again.
                    return Ok(item.number);
                }
                let fence = turn.fence();
                gate.enter(&judge, fence);
            }
            What::Panic => {
                gate.leave();
                std::panic::resume_unwind(Box::new("a planned panic"));
            }
            What::Fail => {
                gate.leave();
                return Err(HandlerError::new("a planned failure"));
            }
        }
        gate.leave();
        Ok(item.number)
    }
}

/// A small generator: the order of things is the machine's, the mix is the seed's.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

enum Target {
    Actor(Lane<Watched<ActorDelivery>>),
    Spot(Lane<Watched<Spot>>),
}

impl Target {
    async fn submit(&self, item: Item, lifecycle: bool) {
        let outcome = match (self, lifecycle) {
            (Self::Actor(lane), false) => lane.submit(item).await.map_err(drop),
            (Self::Actor(lane), true) => lane.submit_lifecycle(item).await.map_err(drop),
            (Self::Spot(lane), false) => lane.submit(item).await.map_err(drop),
            (Self::Spot(lane), true) => lane.submit_lifecycle(item).await.map_err(drop),
        };
        outcome.unwrap();
    }

    async fn ask(&self, item: Item) -> Result<u64, AskError> {
        match self {
            Self::Actor(lane) => lane.ask(item).await,
            Self::Spot(lane) => lane.ask(item).await,
        }
    }
}

struct World {
    engine: Engine,
    judge: Arc<Judge>,
    targets: Arc<Vec<Target>>,
}

fn world(owners: usize, senders: usize, defect: Option<Defect>) -> World {
    let origin = Instant::now_of_test();
    let clock = move || Monotonic::from_origin(origin.elapsed());
    let runtime = tokio::runtime::Handle::current();
    let engine = Engine::start(&runtime, NonZeroUsize::new(4).unwrap(), Arc::new(clock));
    let judge = Arc::new(Judge::default());
    let limits = LaneLimits::DEFAULT
        .application(spotlane_lane::FifoLimits::new(16, 1 << 20))
        .owner_time_budget(Duration::from_micros(200));
    let actors: Kind<Watched<ActorDelivery>> = engine.kind(limits, GateUse::Own);
    let spots: Kind<Watched<Spot>> = engine.kind(limits, GateUse::Shared);
    let mut targets = Vec::with_capacity(owners);
    while targets.len() < owners {
        // Seven of ten have a gate of their own; the rest are a Spot and its two members.
        for _ in 0..7 {
            let gate = Arc::new(Watch::default());
            targets.push(Target::Actor(
                actors.lane(Watched::new(&judge, &gate, senders, defect)),
            ));
        }
        let gate = Arc::new(Watch::default());
        let spot = spots.lane(Watched::new(&judge, &gate, senders, defect));
        for _ in 0..2 {
            let member = actors.lane(Watched::new(&judge, &gate, senders, defect));
            member.bind(&spot).unwrap();
            targets.push(Target::Actor(member));
        }
        targets.push(Target::Spot(spot));
    }
    World {
        engine,
        judge,
        targets: Arc::new(targets),
    }
}

/// Reads the clock of the machine for the engine under test; nothing else may.
trait OfTest {
    fn now_of_test() -> Self;
}

impl OfTest for Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "the clock that this test injects"
    )]
    fn now_of_test() -> Self {
        Self::now()
    }
}

/// One sender: a seeded mix of everything, to targets of its choice.
async fn send(sender: usize, items: u64, targets: Arc<Vec<Target>>, judge: Arc<Judge>) -> u64 {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ (sender as u64 + 1));
    let mut numbers = vec![[0u64, 0u64]; targets.len()];
    let mut cancelled = 0u64;
    for _ in 0..items {
        let at = usize::try_from(dice.roll(targets.len() as u64)).unwrap();
        let lifecycle = dice.roll(10) == 0;
        let number = &mut numbers[at][usize::from(lifecycle)];
        *number += 1;
        let what = match dice.roll(100) {
            0 => What::Panic,
            1 => What::Fail,
            2..=5 => What::Wait,
            6..=12 => What::Yield,
            _ => What::Plain,
        };
        let terminal = Terminal::new(&judge);
        let item = Item {
            what,
            sender,
            number: *number,
            terminal,
        };
        if !lifecycle && dice.roll(20) == 0 {
            // Some calls are given up at a random point.
            let ask = targets[at].ask(item);
            let mut ask = std::pin::pin!(ask);
            let polls = dice.roll(6);
            let mut polled = 0;
            std::future::poll_fn(|cx| {
                polled += 1;
                if ask.as_mut().poll(cx).is_ready() || polled > polls {
                    return std::task::Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                std::task::Poll::Pending
            })
            .await;
            cancelled += 1;
        } else {
            targets[at].submit(item, lifecycle).await;
        }
    }
    cancelled
}

async fn run(owners: usize, items: u64, defect: Option<Defect>) -> Result<(), String> {
    const SENDERS: usize = 4;
    let World {
        engine,
        judge,
        targets,
    } = world(owners, SENDERS, defect);
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        senders.spawn(send(
            sender,
            items / SENDERS as u64,
            Arc::clone(&targets),
            Arc::clone(&judge),
        ));
    }
    while let Some(sender) = senders.join_next().await {
        sender.map_err(|error| error.to_string())?;
    }
    for target in targets.iter() {
        match target {
            Target::Actor(lane) => lane.await_quiescence().await,
            Target::Spot(lane) => lane.await_quiescence().await,
        }
    }
    let used: u64 = targets
        .iter()
        .map(|target| match target {
            Target::Actor(lane) => lane.application_usage().items + lane.lifecycle_usage().items,
            Target::Spot(lane) => lane.application_usage().items + lane.lifecycle_usage().items,
        })
        .sum();
    engine.shutdown(std::future::pending()).await;
    judge.verdict()?;
    let (started, ended) = (
        judge.started.load(Ordering::SeqCst),
        judge.ended.load(Ordering::SeqCst),
    );
    if started != ended {
        return Err(format!("{started} items started, {ended} ended"));
    }
    if used != 0 {
        return Err(format!("{used} reservations were not returned"));
    }
    if engine.stats().carriers_lost() != 0 {
        return Err("a carrier was lost".to_owned());
    }
    Ok(())
}

fn items() -> u64 {
    std::env::var("SPOTLANE_STRESS_ITEMS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(200_000)
}

/// T-EXE-05, T-EXE-07, T-EXE-23, EX-3, EX-7, EX-8, EX-11, EX-14, EX-72, EX-94: 10,000 owners under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_exclude_each_other_and_every_item_ends_once() {
    run(10_000, items(), None).await.unwrap();
}

/// T-EXE-22, EX-70: few owners, so that lanes go idle and wake up all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_owners_lose_no_wake_up() {
    run(10, items() / 4, None).await.unwrap();
}

/// The judge can fail: each planted defect is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planted_defects_are_found() {
    for (defect, found) in [
        (Defect::Overlap, "overlapping turns"),
        (Defect::Order, "items out of order"),
        (Defect::Terminal, "second terminals"),
    ] {
        let error = run(10, 2000, Some(defect)).await.unwrap_err();
        assert!(error.contains(found), "{error}");
    }
}

/// EX-306: a host that stops under load ends every accepted item, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_ends_everything_once() {
    for grace in 0..20u64 {
        let World {
            engine,
            judge,
            targets,
        } = world(50, 1, None);
        let sender = tokio::spawn({
            let (targets, judge) = (Arc::clone(&targets), Arc::clone(&judge));
            async move {
                let mut dice = Dice(grace + 1);
                for number in 1..20_000u64 {
                    let at = usize::try_from(dice.roll(targets.len() as u64)).unwrap();
                    let what = match dice.roll(10) {
                        0 => What::Wait,
                        1 | 2 => What::Yield,
                        _ => What::Plain,
                    };
                    let item = Item {
                        what,
                        sender: 0,
                        number,
                        terminal: Terminal::new(&judge),
                    };
                    let gone = match &targets[at] {
                        Target::Actor(lane) => lane.submit(item).await.is_err(),
                        Target::Spot(lane) => lane.submit(item).await.is_err(),
                    };
                    if gone {
                        break;
                    }
                }
            }
        });
        for _ in 0..grace * 10 {
            tokio::task::yield_now().await;
        }
        engine.shutdown(std::future::ready(())).await;
        sender.await.unwrap();
        drop(targets);
        let (started, ended) = (
            judge.started.load(Ordering::SeqCst),
            judge.ended.load(Ordering::SeqCst),
        );
        assert_eq!(started, ended);
        judge.verdict().unwrap();
    }
}
