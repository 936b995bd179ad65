//! The store in memory under load, its snapshots, and the faults around it.

#![expect(clippy::unwrap_used, reason = "a test file")]

use std::time::Duration;

use proptest::prelude::*;
use spotlane_store::{
    Condition, KeyPrefix, Mutation, Recovery, ScanOutcome, ScanRequest, StoreKey, StoreProvider,
    StoreTime, Ttl, WriteRequest,
};
use spotlane_store_memory::{
    FAULTS_QUEUED_MAX, Fault, FaultControl, FaultStore, ManualClock, MemoryStore,
    SNAPSHOT_IDLE_MAX, SNAPSHOTS_MAX,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

fn clock() -> ManualClock {
    ManualClock::new(StoreTime::from_unix_millis(1_000))
}

fn key(name: &str) -> StoreKey {
    StoreKey::new(name).unwrap()
}

fn put(name: &str, value: &[u8], ttl: Option<Ttl>) -> WriteRequest {
    let put = Mutation::put(key(name), value.to_vec(), ttl).unwrap();
    WriteRequest::new(vec![], vec![put]).unwrap()
}

async fn add_one(store: &MemoryStore) {
    loop {
        let found = store.read(&key("counter")).await.unwrap().found().unwrap();
        let text = std::str::from_utf8(found.value.as_bytes()).unwrap();
        let next = (text.parse::<u64>().unwrap() + 1).to_string();
        // Between read and write, so that others come in between.
        tokio::task::yield_now().await;
        let condition = vec![Condition::Version(key("counter"), found.version)];
        let (_, mutations) = put("counter", next.as_bytes(), None).into_parts();
        let request = WriteRequest::new(condition, mutations).unwrap();
        if store.write(request).await.unwrap().applied().is_some() {
            return;
        }
    }
}

/// ST-40: 64 tasks add one 1,000 times each; none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_of_many_tasks_are_all_there() {
    let store = MemoryStore::new(clock());
    assert!(
        store
            .write(put("counter", b"0", None))
            .await
            .unwrap()
            .applied()
            .is_some()
    );
    let mut tasks = JoinSet::new();
    for _ in 0..64 {
        let store = store.clone();
        tasks.spawn(async move {
            for _ in 0..1_000 {
                add_one(&store).await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let last = store.read(&key("counter")).await.unwrap().found().unwrap();
    assert_eq!(last.value.as_bytes(), &b"64000"[..]);
}

async fn first_page(store: &MemoryStore) -> ScanRequest {
    let all = KeyPrefix::new("").unwrap();
    let page = store
        .scan(ScanRequest::first(all.clone(), 1).unwrap())
        .await
        .unwrap();
    ScanRequest::new(all, 1, page.page().unwrap().next().cloned()).unwrap()
}

/// ST-5: a snapshot that nobody asks for is lost after a while, and the oldest when there are too many.
#[tokio::test]
async fn snapshots_are_bounded() {
    let (clock, names) = (clock(), ["a", "b", "c"]);
    let store = MemoryStore::new(clock.clone());
    for name in names {
        assert!(
            store
                .write(put(name, b"v", None))
                .await
                .unwrap()
                .applied()
                .is_some()
        );
    }
    let idle = first_page(&store).await;
    clock.advance(SNAPSHOT_IDLE_MAX);
    assert!(store.scan(idle.clone()).await.unwrap().page().is_some());
    clock.advance(SNAPSHOT_IDLE_MAX + Duration::from_millis(1));
    assert_eq!(store.scan(idle).await.unwrap(), ScanOutcome::Expired);
    let oldest = first_page(&store).await;
    clock.advance(Duration::from_millis(1));
    let mut last = oldest.clone();
    for _ in 0..SNAPSHOTS_MAX {
        last = first_page(&store).await;
    }
    assert_eq!(store.scan(oldest).await.unwrap(), ScanOutcome::Expired);
    assert!(store.scan(last).await.unwrap().page().is_some());
}

/// ST-21: each fault does what its name says, in the order in which they were asked for.
#[tokio::test(start_paused = true)]
async fn faults_happen_in_order() {
    let (store, control) = (MemoryStore::new(clock()), FaultControl::new());
    let faulty = FaultStore::new(store.clone(), control.clone());
    for fault in [
        Fault::FailBefore,
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::None,
        Fault::LoseAnswer,
    ] {
        control.next(fault).unwrap();
    }
    let value = || async { store.read(&key("a")).await.unwrap().found() };
    let error = faulty.write(put("a", b"1", None)).await.unwrap_err();
    assert_eq!(error.recovery(), Recovery::Retry);
    assert!(value().await.is_none());
    let error = faulty.write(put("a", b"1", None)).await.unwrap_err();
    assert_eq!(error.recovery(), Recovery::ReadThenDecide);
    assert!(value().await.is_none());
    let error = faulty.write(put("a", b"1", None)).await.unwrap_err();
    assert_eq!(error.recovery(), Recovery::ReadThenDecide);
    assert!(value().await.is_some());
    assert!(faulty.read(&key("a")).await.unwrap().found().is_some());
    // A read changes nothing, so a lost answer leaves no question.
    assert_eq!(
        faulty.read(&key("a")).await.unwrap_err().recovery(),
        Recovery::Retry
    );
}

/// ST-21: delays, by the paused clock of the runtime.
#[tokio::test(start_paused = true)]
async fn delays_add_up() {
    let control = FaultControl::new();
    let faulty = FaultStore::new(MemoryStore::new(clock()), control.clone());
    let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
    control.delay_every(second);
    control.slow_scan(minute);
    control.next(Fault::Delay(second)).unwrap();
    let before = Instant::now();
    assert!(faulty.read(&key("a")).await.is_ok());
    assert_eq!(before.elapsed(), second * 2);
    let request = ScanRequest::first(KeyPrefix::new("").unwrap(), 1).unwrap();
    assert!(faulty.scan(request).await.is_ok());
    assert_eq!(before.elapsed(), second * 3 + minute);
}

/// ST-7, ST-21: a node that is cut off under way knows neither; one that starts then knows that nothing happened.
#[tokio::test(start_paused = true)]
async fn a_cut_meets_what_is_under_way() {
    let control = FaultControl::new();
    let faulty = FaultStore::new(MemoryStore::new(clock()), control.clone());
    control.delay_every(Duration::from_secs(1));
    let cut = async {
        tokio::task::yield_now().await;
        control.cut_off();
    };
    let (outcome, ()) = tokio::join!(faulty.write(put("a", b"1", None)), cut);
    assert_eq!(outcome.unwrap_err().recovery(), Recovery::ReadThenDecide);
    let outcome = faulty.write(put("a", b"1", None)).await;
    assert_eq!(outcome.unwrap_err().recovery(), Recovery::Retry);
    control.heal();
    assert!(faulty.write(put("a", b"1", None)).await.is_ok());
}

/// ST-21: the plan has a bound.
#[test]
fn no_more_faults_wait_than_the_bound() {
    let control = FaultControl::new();
    for _ in 0..FAULTS_QUEUED_MAX {
        control.next(Fault::None).unwrap();
    }
    assert_eq!(control.next(Fault::FailBefore), Err(Fault::FailBefore));
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8, Option<u8>),
    Delete(u8),
    Pass(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..4_u8;
    prop_oneof![
        (key.clone(), any::<u8>(), proptest::option::of(1..20_u8))
            .prop_map(|(key, value, ttl)| Step::Put(key, value, ttl)),
        key.prop_map(Step::Delete),
        (0..20_u8).prop_map(Step::Pass),
    ]
}

proptest! {
    /// ST-1, ST-6: any order of puts, deletes and time agrees with a model of a map.
    #[test]
    fn it_agrees_with_a_model(steps in proptest::collection::vec(step(), 0..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let clock = clock();
        let store = MemoryStore::new(clock.clone());
        let mut model = std::collections::BTreeMap::new();
        let mut now = 0_u64;
        for step in steps {
            match step {
                Step::Put(name, value, ttl) => {
                    let life = ttl.map(|ttl| Ttl::new(Duration::from_millis(ttl.into())).unwrap());
                    let request = put(&name.to_string(), &[value], life);
                    prop_assert!(runtime.block_on(store.write(request)).unwrap().applied().is_some());
                    model.insert(name, (value, ttl.map(|ttl| now + u64::from(ttl))));
                }
                Step::Delete(name) => {
                    let delete = Mutation::Delete { key: key(&name.to_string()) };
                    let request = WriteRequest::new(vec![], vec![delete]).unwrap();
                    prop_assert!(runtime.block_on(store.write(request)).unwrap().applied().is_some());
                    model.remove(&name);
                }
                Step::Pass(millis) => {
                    clock.advance(Duration::from_millis(millis.into()));
                    now += u64::from(millis);
                }
            }
            model.retain(|_, (_, expiry)| expiry.is_none_or(|at| now < at));
            for name in 0..4 {
                let read = runtime.block_on(store.read(&key(&name.to_string()))).unwrap().found();
                let read = read.map(|found| found.value.as_bytes()[0]);
                prop_assert_eq!(read, model.get(&name).map(|(value, _)| *value));
            }
            let request = ScanRequest::first(KeyPrefix::new("").unwrap(), 10).unwrap();
            let page = runtime.block_on(store.scan(request)).unwrap().page().unwrap();
            prop_assert_eq!(page.rows().len(), model.len());
        }
    }
}
