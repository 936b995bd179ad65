//! Random faults on a real server (ST-7, ST-36): nothing is reported wrongly, and a read settles what is unknown.
//!
//! `SPOTLANE_FAULT_SCHEDULES` asks for more than 200 schedules, `SPOTLANE_FAULT_SEED` for other ones.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test file")]
#![expect(
    dead_code,
    reason = "this file needs a part of what the test files share"
)]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{key, open, open_within, put, put_request, settled, swap_request, value};
use spotlane_redis_testkit::Server;
use spotlane_store::{
    Found, Recovery, StoreError, StoreProvider, StoreVersion, WriteOutcome, WriteRequest,
};
use spotlane_store_conformance::{Cut, CuttingProxy};
use spotlane_store_redis::RedisStore;
use tokio::task::JoinSet;
// Sleep: a fault strikes at a random moment of a call; nothing waits for a result in this way.
use tokio::time::sleep;

const WORKERS: u64 = 4;
const STEPS: u64 = 5;
/// Short, because slow answers must come after it; a spurious timeout is only one more unknown outcome.
const TIMEOUT: Duration = Duration::from_millis(250);
/// How often a read is asked again while the server is away.
const READ_TRIES: usize = 100;

/// A small generator of numbers (splitmix64), so that one seed gives one schedule.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

struct World {
    server: Mutex<Server>,
}

/// One worker: its own connection through its own proxy, and one record that nobody else writes.
struct Worker {
    world: Arc<World>,
    proxy: CuttingProxy,
    store: RedisStore,
    name: String,
    counts: Counts,
}

#[derive(Default, Debug, Clone, Copy)]
struct Counts {
    applied: u64,
    transient: u64,
    indeterminate: u64,
    happened: u64,
}

impl Worker {
    /// What the record is now; asks until there is an answer.
    async fn settle(&self) -> Option<Found> {
        let mut last = None;
        for _ in 0..READ_TRIES {
            match self.store.read(&key(&self.name)).await {
                Ok(outcome) => return outcome.found(),
                Err(error) => {
                    assert_eq!(error.recovery(), Recovery::Retry, "a read: {error}");
                    last = Some(error);
                }
            }
        }
        panic!("{}: no answer to a read: {last:?}", self.name);
    }

    async fn schedule(&mut self, seed: u64) {
        let mut dice = Dice(seed);
        let mut current = self.settle().await;
        for step in 0..STEPS {
            let before = current
                .as_ref()
                .map(|found| found.value.as_bytes().to_vec());
            let next = format!("{seed} {step}").into_bytes();
            let request = match &current {
                Some(found) => swap_request(&self.name, &found.version, &next),
                None => create_request(&self.name, &next),
            };
            let outcome = self.strike(&mut dice, request).await;
            let told = self.judge(outcome, seed, step);
            let found = self.settle().await;
            let after = found.as_ref().map(|found| found.value.as_bytes().to_vec());
            let happened = after.as_deref() == Some(&next[..]);
            let context = format!("seed {seed} step {step} of {}: {told:?}", self.name);
            match &told {
                Told::Applied(version) => {
                    assert!(happened, "{context}: an applied write is not there");
                    assert_eq!(found.as_ref().map(|found| &found.version), Some(version));
                }
                Told::NotDone => assert_eq!(after, before, "{context}: it happened"),
                Told::Unknown => {
                    assert!(
                        happened || after == before,
                        "{context}: something else is there"
                    );
                    self.counts.happened += u64::from(happened);
                }
            }
            // What was held back arrives now, too late to change anything.
            if dice.roll(2) == 0 {
                self.proxy.release();
                sleep(Duration::from_millis(dice.roll(4))).await;
            }
            let again = self.settle().await.map(|found| found.version);
            let version = found.as_ref().map(|found| found.version.clone());
            assert_eq!(again, version, "{context}: it changed after it was read");
            current = found;
        }
        self.proxy.calm();
        self.proxy.release();
    }

    /// Sends the write and lets something happen to it.
    async fn strike(
        &self,
        dice: &mut Dice,
        request: WriteRequest,
    ) -> Result<WriteOutcome, StoreError> {
        let wait = Duration::from_micros(dice.roll(2_000));
        match dice.roll(8) {
            0 => {}
            1 => self.proxy.next(Cut::BeforeSend),
            2 => self.proxy.next(Cut::AfterSend),
            3 => self.proxy.next(Cut::HoldAndCut),
            4 => self.proxy.next(Cut::HoldAnswer),
            5 => {
                let world = Arc::clone(&self.world);
                // Between request and answer, if the dice want it so.
                let flush = async move {
                    sleep(wait).await;
                    drop(
                        world
                            .server
                            .lock()
                            .unwrap()
                            .command(&["SCRIPT", "FLUSH", "SYNC"]),
                    );
                };
                return tokio::join!(self.store.write(request), flush).0;
            }
            6 => {
                let cut = async {
                    sleep(wait).await;
                    self.proxy.cut_all();
                };
                return tokio::join!(self.store.write(request), cut).0;
            }
            _ => {
                let world = Arc::clone(&self.world);
                let kill = async move {
                    sleep(wait).await;
                    let restart = move || world.server.lock().unwrap().restart().unwrap();
                    tokio::task::spawn_blocking(restart).await.unwrap();
                };
                return tokio::join!(self.store.write(request), kill).0;
            }
        }
        self.store.write(request).await
    }

    fn judge(&mut self, outcome: Result<WriteOutcome, StoreError>, seed: u64, step: u64) -> Told {
        match outcome {
            Ok(WriteOutcome::Applied(applied)) => {
                self.counts.applied += 1;
                Told::Applied(applied.versions[0].clone())
            }
            // Nobody else writes this record, and it was read just before.
            Ok(WriteOutcome::Conflict) => panic!("seed {seed} step {step}: a wrong conflict"),
            Err(error) => match error.recovery() {
                Recovery::Retry => {
                    self.counts.transient += 1;
                    Told::NotDone
                }
                Recovery::ReadThenDecide => {
                    self.counts.indeterminate += 1;
                    Told::Unknown
                }
                other => panic!("seed {seed} step {step}: {other:?}: {error}"),
            },
        }
    }
}

#[derive(Debug)]
enum Told {
    Applied(StoreVersion),
    NotDone,
    Unknown,
}

fn create_request(name: &str, value: &[u8]) -> WriteRequest {
    let (_, mutations) = put_request(name, value, None).into_parts();
    let missing = spotlane_store::Condition::Missing(key(name));
    WriteRequest::new(vec![missing], mutations).unwrap()
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(otherwise, |text| text.parse().unwrap())
}

/// ST-7, ST-36, ST-72.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_faults_are_reported_truly() {
    let schedules = setting("SPOTLANE_FAULT_SCHEDULES", 200);
    let first_seed = setting("SPOTLANE_FAULT_SEED", 1);
    let server = Server::start_durable().unwrap();
    let address = server.address();
    let world = Arc::new(World {
        server: Mutex::new(server),
    });
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let proxy = CuttingProxy::start(address, b"EVAL").await.unwrap();
        let store = open_within(&format!("redis://{}", proxy.address()), TIMEOUT);
        let (world, name) = (Arc::clone(&world), format!("worker {worker}"));
        let mut worker_state = Worker {
            world,
            proxy,
            store,
            name,
            counts: Counts::default(),
        };
        workers.spawn(async move {
            for seed in (worker..schedules).step_by(usize::try_from(WORKERS).unwrap()) {
                worker_state.schedule(first_seed + seed).await;
            }
            worker_state.counts
        });
    }
    let mut all = Counts::default();
    while let Some(counts) = workers.join_next().await {
        let counts = counts.unwrap();
        all.applied += counts.applied;
        all.transient += counts.transient;
        all.indeterminate += counts.indeterminate;
        all.happened += counts.happened;
    }
    println!("{schedules} schedules: {all:?}");
    // The faults must have been felt, and some unknown writes must have happened and some not.
    assert!(
        all.applied > 0 && all.happened > 0 && all.indeterminate > all.happened,
        "{all:?}"
    );
}

/// ST-7, ST-36: a request that is still under way when the caller has read the record never happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_arrives_after_the_read_changes_nothing() {
    let server = Server::start().unwrap();
    let proxy = CuttingProxy::start(server.address(), b"EVAL")
        .await
        .unwrap();
    let store = open(&format!("redis://{}", proxy.address()));
    let direct = open(&server.url());
    put(&store, "a", b"old").await;
    for _ in 0..20 {
        proxy.next(Cut::HoldAndCut);
        let error = store
            .write(put_request("a", b"late", None))
            .await
            .unwrap_err();
        assert_eq!(error.recovery(), Recovery::ReadThenDecide, "{error}");
        assert_eq!(value(&store, "a").await.unwrap(), b"old");
        proxy.release();
        // Long after: the held request has arrived by the time this many answers have.
        for _ in 0..50 {
            assert_eq!(value(&direct, "a").await.unwrap(), b"old");
        }
    }
}

/// ST-36: whoever shares a call with a lost answer learns the same; nothing is sent twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gathered_writes_are_never_sent_twice() {
    let server = Server::start().unwrap();
    let proxy = CuttingProxy::start(server.address(), b"EVAL")
        .await
        .unwrap();
    let store = open(&format!("redis://{}", proxy.address()));
    let direct = open(&server.url());
    put(&store, "a", b"v").await;
    for round in 0..20 {
        proxy.next(Cut::AfterSend);
        let mut tasks = JoinSet::new();
        for n in 0..32 {
            let (store, direct) = (store.clone(), direct.clone());
            tasks.spawn(async move {
                let name = format!("record {round} {n}");
                // A creation that ran twice would conflict with itself.
                match store.write(create_request(&name, b"v")).await {
                    Ok(WriteOutcome::Applied(_)) => {
                        assert!(value(&direct, &name).await.is_some());
                    }
                    Ok(WriteOutcome::Conflict) => panic!("{name} was sent twice"),
                    Err(error) => match error.recovery() {
                        Recovery::ReadThenDecide => {}
                        Recovery::Retry => assert!(value(&store, &name).await.is_none()),
                        other => panic!("{other:?}: {error}"),
                    },
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        value(&store, "a").await;
    }
}

/// ST-8: without a server, operations end within their timeout, and the caller knows that nothing was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_nothing_was_sent() {
    let mut server = Server::start().unwrap();
    let store = open_within(&server.url(), Duration::from_millis(300));
    settled(&store, "a").await;
    server.kill().unwrap();
    // A write that meets the dying connection may have been sent; the client notices soon after.
    let mut noticed = false;
    for _ in 0..10 {
        let error = store.write(put_request("a", b"w", None)).await.unwrap_err();
        match error.recovery() {
            Recovery::ReadThenDecide => {}
            Recovery::Retry => {
                noticed = true;
                break;
            }
            other => panic!("{other:?}: {error}"),
        }
    }
    assert!(noticed, "every write was taken for sent");
    for _ in 0..3 {
        let error = store.write(put_request("a", b"w", None)).await.unwrap_err();
        assert_eq!(error.recovery(), Recovery::Retry, "{error}");
        let error = store.read(&key("a")).await.unwrap_err();
        assert_eq!(error.recovery(), Recovery::Retry, "{error}");
    }
    server.restart().unwrap();
    for _ in 0..100 {
        if store.read(&key("a")).await.is_ok() {
            return;
        }
    }
    panic!("the client did not come back");
}
