//! The owner lease over the memory store, with moved clocks and injected faults (ST-60 to ST-63).

use std::time::Duration;

use spotlane_location::counter::Counter;
use spotlane_location::lease::{HeldLease, LeaseKeeper, LeaseSettings};
use spotlane_location::record::RecordError;
use spotlane_location::{Conflict, LocationError, Monotonic, Stale, Timing, key};
use spotlane_store::{BoxedStore, Mutation, Recovery, StoreProvider, WriteRequest};
use spotlane_store_memory::{Fault, FaultControl, FaultStore};
use spotlane_types::id::OwnerId;

use crate::host::{HandTime, everything, memory};

type Keeper = LeaseKeeper<BoxedStore, HandTime>;

fn owner(name: &str) -> OwnerId {
    OwnerId::new(name).unwrap()
}

fn keeper(store: &BoxedStore, name: &str, time: &HandTime) -> Keeper {
    let settings = LeaseSettings::default();
    LeaseKeeper::new(store.clone(), time.clone(), owner(name), settings)
}

fn faulty(store: &BoxedStore) -> (BoxedStore, FaultControl) {
    let control = FaultControl::new();
    let store = FaultStore::new(store.clone(), control.clone());
    (BoxedStore::new(store), control)
}

fn stale<T: std::fmt::Debug>(outcome: Result<T, LocationError>) -> Stale {
    match outcome {
        Err(LocationError::Stale { reason }) => reason,
        other => panic!("expected stale, found {other:?}"),
    }
}

/// ST-61, RL-282, RL-283: a renewal keeps the run and moves the deadline on.
#[tokio::test]
async fn a_lease_is_claimed_renewed_and_released() {
    let (store, clock) = memory();
    let time = HandTime::new(1);
    let keeper = keeper(&store, "a", &time);
    let first = keeper.claim().await.unwrap();
    assert_eq!(first.lease().generation().get(), 1);
    assert_eq!(
        first.deadline().since(Monotonic::ORIGIN),
        Duration::from_secs(10)
    );
    clock.advance(Duration::from_secs(5));
    time.advance(Duration::from_secs(5));
    let second = keeper.renew(&first).await.unwrap();
    assert_eq!(second.lease(), first.lease());
    assert_eq!(
        second.deadline().since(Monotonic::ORIGIN),
        Duration::from_secs(15)
    );
    assert_eq!(
        keeper.read(&owner("a")).await.unwrap().as_ref(),
        Some(second.lease())
    );
    keeper.release(second).await.unwrap();
    assert_eq!(keeper.read(&owner("a")).await.unwrap(), None);
}

/// ST-60, ST-62, RL-285
#[tokio::test]
async fn a_live_lease_is_not_claimed_by_another() {
    let (store, _) = memory();
    let time = HandTime::new(1);
    keeper(&store, "a", &time).claim().await.unwrap();
    let rows = everything(&store).await;
    let error = keeper(&store, "a", &time).claim().await.unwrap_err();
    assert!(matches!(
        error,
        LocationError::Conflict {
            reason: Conflict::LeaseHeld
        }
    ));
    assert_eq!(everything(&store).await, rows);
}

/// ST-62, RL-282: what a former holder still sends changes nothing, whoever holds the lease now.
#[tokio::test]
async fn a_delayed_former_holder_is_stale() {
    let (store, clock) = memory();
    let time = HandTime::new(1);
    let former = keeper(&store, "a", &time);
    let old = former.claim().await.unwrap();
    clock.advance(Duration::from_secs(15));
    assert_eq!(stale(former.renew(&old).await), Stale::Missing);
    assert_eq!(stale(former.release(old.clone()).await), Stale::Missing);
    let next = keeper(&store, "a", &time).claim().await.unwrap();
    assert_ne!(next.lease().generation(), old.lease().generation());
    let rows = everything(&store).await;
    assert_eq!(stale(former.renew(&old).await), Stale::Replaced);
    assert_eq!(stale(former.release(old).await), Stale::Replaced);
    assert_eq!(everything(&store).await, rows);
}

/// ST-61: the deadline of the host ends before the lease does, by the margin.
#[tokio::test]
async fn the_host_stops_before_the_store_does() {
    let (store, clock) = memory();
    let time = HandTime::new(1);
    let keeper = keeper(&store, "a", &time);
    let held = keeper.claim().await.unwrap();
    time.advance(Duration::from_secs(10));
    clock.advance(Duration::from_secs(10));
    assert!(!held.admits(time.now()));
    assert!(keeper.read(&owner("a")).await.unwrap().is_some());
    let renewed = keeper.renew(&held).await.unwrap();
    assert!(renewed.admits(time.now()));
}

async fn claim_under(faults: &[Fault]) -> (Result<HeldLease, LocationError>, BoxedStore) {
    let (store, _) = memory();
    let (through, control) = faulty(&store);
    for fault in faults {
        control.next(*fault).unwrap();
    }
    let time = HandTime::new(1);
    (keeper(&through, "a", &time).claim().await, store)
}

/// ST-7, ST-62: a claim whose answer was lost is found to be one's own, and not taken for another's.
#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_ours() {
    for lost in [Fault::LoseAnswer, Fault::LoseRequest, Fault::FailBefore] {
        let (held, store) = claim_under(&[Fault::None, Fault::None, lost]).await;
        assert_eq!(held.unwrap().lease().generation().get(), 1);
        let counter = store
            .read(&Counter::Owner.key())
            .await
            .unwrap()
            .found()
            .unwrap();
        assert_eq!(counter.value.as_bytes(), "2");
    }
}

/// ST-63: not confirmed in time is no start-up error; the next claim of the same host settles it.
#[tokio::test]
async fn an_unconfirmed_claim_is_repeated_and_found() {
    let (store, _) = memory();
    let (through, control) = faulty(&store);
    let time = HandTime::new(1_000);
    let keeper = keeper(&through, "a", &time);
    let lost = [Fault::None, Fault::None, Fault::LoseAnswer];
    for fault in lost.into_iter().chain([Fault::FailBefore; 8]) {
        control.next(fault).unwrap();
    }
    let error = keeper.claim().await.unwrap_err();
    assert!(
        matches!(error, LocationError::Indeterminate { .. }),
        "{error:?}"
    );
    assert_eq!(error.recovery(), Recovery::ReadThenDecide);
    while keeper.claim().await.is_err() {}
    assert_eq!(
        keeper.claim().await.unwrap_err().recovery(),
        Recovery::ReadThenDecide
    );
    let live = keeper.read(&owner("a")).await.unwrap().unwrap();
    assert_eq!(live.generation().get(), 1);
}

/// ST-63: a store that is away ends a claim as unavailable, with nothing written.
#[tokio::test]
async fn a_store_that_is_away_is_unavailable() {
    let (store, _) = memory();
    let (through, control) = faulty(&store);
    let time = HandTime::new(1_000);
    let keeper = keeper(&through, "a", &time);
    control.cut_off();
    let error = keeper.claim().await.unwrap_err();
    assert!(matches!(error, LocationError::Unavailable { .. }));
    assert_eq!(error.recovery(), Recovery::Retry);
    control.heal();
    assert!(everything(&store).await.is_empty());
    keeper.claim().await.unwrap();
}

/// ST-72: a release whose answer was lost has happened.
#[tokio::test]
async fn a_release_whose_answer_was_lost_has_happened() {
    for lost in [Fault::LoseAnswer, Fault::LoseRequest, Fault::FailBefore] {
        let (store, _) = memory();
        let (through, control) = faulty(&store);
        let time = HandTime::new(1);
        let keeper = keeper(&through, "a", &time);
        let held = keeper.claim().await.unwrap();
        control.next(lost).unwrap();
        keeper.release(held).await.unwrap();
        assert_eq!(keeper.read(&owner("a")).await.unwrap(), None);
    }
}

/// ST-52, ST-91
#[tokio::test]
async fn an_exhausted_owner_counter_ends_the_start() {
    let (store, _) = memory();
    let put = Mutation::put(Counter::Owner.key(), "9223372036854775807", None).unwrap();
    let request = WriteRequest::new(vec![], vec![put]).unwrap();
    assert!(store.write(request).await.unwrap().applied().is_some());
    let rows = everything(&store).await;
    let error = keeper(&store, "a", &HandTime::new(1))
        .claim()
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        LocationError::GenerationExhausted {
            counter: Counter::Owner
        }
    ));
    assert_eq!(everything(&store).await, rows);
}

/// ST-80: a lease without expiry is corruption: neither live nor expired.
#[tokio::test]
async fn a_lease_without_expiry_is_corruption() {
    let (store, _) = memory();
    let row = r#"{"recordVersion":1,"ownerId":"a","leaseGeneration":"1"}"#;
    let put = Mutation::put(key::owner_lease(&owner("a")), row, None).unwrap();
    let request = WriteRequest::new(vec![], vec![put]).unwrap();
    assert!(store.write(request).await.unwrap().applied().is_some());
    let keeper = keeper(&store, "a", &HandTime::new(1));
    for error in [
        keeper.claim().await.unwrap_err(),
        keeper.read(&owner("a")).await.unwrap_err(),
    ] {
        assert!(matches!(
            error,
            LocationError::Record(RecordError::Expiry { .. })
        ));
        assert_eq!(error.recovery(), Recovery::GiveUp);
    }
}
