//! The authority operations one by one (ST section 7, RL-10 to RL-16).

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use spotlane_location::authority::{
    ActiveObject, Authority, CreationOperation, PreparedTarget, Reservation, TerminalRecord,
};
use spotlane_location::counter::Counter;
use spotlane_location::record::{AllocationState, DescriptorName, PendingCreation, SlotCount};
use spotlane_location::{Conflict, LocationError, Repository, Stale, key};
use spotlane_store::{
    BoxedStore, Mutation, ReadOutcome, ScanOutcome, ScanRequest, StoreError, StoreKey,
    StoreProvider, WriteOutcome, WriteRequest,
};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::id::OperationId;
use spotlane_types::kind::SpotAuthorityState;

use crate::host::{Counts, Host, descriptor, everything, memory, spot};

async fn two_hosts(store: &BoxedStore) -> (Host, Host) {
    let a = Host::start("a", store, store.clone()).await;
    (a, Host::start("b", store, store.clone()).await)
}

async fn put(store: &BoxedStore, key: StoreKey, value: &str) {
    let put = Mutation::put(key, value.to_owned(), None).unwrap();
    let applied = store
        .write(WriteRequest::new(vec![], vec![put]).unwrap())
        .await
        .unwrap();
    assert!(applied.applied().is_some());
}

async fn text(store: &BoxedStore, key: StoreKey) -> String {
    let found = store.read(&key).await.unwrap().found().unwrap();
    String::from_utf8(found.value.as_bytes().to_vec()).unwrap()
}

fn conflict(error: LocationError) -> Conflict {
    match error {
        LocationError::Conflict { reason } => reason,
        other => panic!("expected a conflict, found {other:?}"),
    }
}

/// RL-10, RL-11, ST-51, ST-52: both generations come from their counters, in the batch that uses them.
#[tokio::test]
async fn reserve_and_commit_create_an_object() {
    let (store, _) = memory();
    let host = Host::start("a", &store, store.clone()).await;
    put(&store, Counter::Object.key(), "7").await;
    put(&store, Counter::AuthorityOwner.key(), "3").await;
    let reserved = host.reserve_on(&host, "room").await.unwrap();
    assert_eq!(reserved.row().object_generation.get(), 7);
    assert_eq!(reserved.row().authority_owner_generation.get(), 3);
    assert_eq!(reserved.row().allocation.state, AllocationState::Reserved);
    assert_eq!(text(&store, Counter::Object.key()).await, "8");
    assert_eq!(text(&store, Counter::AuthorityOwner.key()).await, "4");
    let active = host.commit("room", &reserved).await.unwrap();
    assert_eq!(active.row().allocation.state, AllocationState::Active);
    assert_eq!(active.row().object_generation.get(), 7);
    assert_eq!(active.row().authority_owner_generation.get(), 3);
    let read = host.active("room").await;
    assert_eq!(
        (read.version(), read.row()),
        (active.version(), active.row())
    );
}

/// RL-10: missing is a condition.
#[tokio::test]
async fn what_exists_is_not_reserved_again() {
    let (store, _) = memory();
    let (a, b) = two_hosts(&store).await;
    let reserved = a.reserve_on(&a, "room").await.unwrap();
    assert_eq!(
        conflict(b.reserve_on(&b, "room").await.unwrap_err()),
        Conflict::Exists
    );
    a.commit("room", &reserved).await.unwrap();
    assert_eq!(
        conflict(b.reserve_on(&b, "room").await.unwrap_err()),
        Conflict::Exists
    );
}

fn operation(host: &Host) -> CreationOperation {
    CreationOperation {
        source: host.node.routing_id.clone(),
        source_generation: host.node.lifecycle_generation,
        operation: OperationId::new(0, 1).unwrap(),
    }
}

/// RL-11, RL-85, RL-87: the terminal record stands in the batch that ends the creation, and a resend of the same operation
/// reads it until five minutes past the deadline of the original.
#[tokio::test]
async fn abort_removes_the_reservation_and_leaves_the_result() {
    let (store, clock) = memory();
    let host = Host::start("a", &store, store.clone()).await;
    let reserved = host.reserve_on(&host, "room").await.unwrap();
    let (repository, until) = (&host.repository, host.until());
    let operation = operation(&host);
    let before = repository.creation_result(&operation, until).await.unwrap();
    assert_eq!(before, None);
    let left = Duration::from_secs(30);
    let terminal = TerminalRecord::new(operation.clone(), &b"rejected"[..], left).unwrap();
    let candidate = host.candidate().await;
    repository
        .abort(&host.held, &candidate, &reserved, Some(terminal), until)
        .await
        .unwrap();
    assert_eq!(host.read("room").await, Authority::Missing);
    let gone = host.commit("room", &reserved).await.unwrap_err();
    assert_eq!(conflict(gone), Conflict::Gone);
    clock.advance(Duration::from_secs(30 + 5 * 60 - 1));
    let result = repository.creation_result(&operation, until).await.unwrap();
    assert_eq!(result.as_deref(), Some(&b"rejected"[..]));
    let mut other = operation.clone();
    other.operation = OperationId::new(0, 2).unwrap();
    assert_eq!(
        repository.creation_result(&other, until).await.unwrap(),
        None
    );
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        repository.creation_result(&operation, until).await.unwrap(),
        None
    );
}

/// RL-85, RL-87: a commit leaves its result too; one of more than 1 MiB is refused before anything is sent.
#[tokio::test]
async fn commit_leaves_its_result_within_its_bound() {
    let (store, _) = memory();
    let host = Host::start("a", &store, store.clone()).await;
    let reserved = host.reserve_on(&host, "room").await.unwrap();
    let operation = operation(&host);
    let left = Duration::from_secs(30);
    let large = vec![0; (1 << 20) + 1];
    assert!(TerminalRecord::new(operation.clone(), large, left).is_err());
    let terminal = TerminalRecord::new(operation.clone(), &b"created"[..], left).unwrap();
    let candidate = host.candidate().await;
    let payload = host.payload("room", SpotAuthorityState::Ready);
    let (repository, until) = (&host.repository, host.until());
    repository
        .commit(
            &host.held,
            &candidate,
            &reserved,
            &payload,
            Some(terminal),
            until,
        )
        .await
        .unwrap();
    let result = repository.creation_result(&operation, until).await.unwrap();
    assert_eq!(result.as_deref(), Some(&b"created"[..]));
}

/// RL-84: another host is told of a reservation and finds the request in it; without one it could only give up.
#[tokio::test]
async fn a_reservation_on_another_host_carries_its_request() {
    let (store, _) = memory();
    let (a, b) = two_hosts(&store).await;
    let reservation = Reservation::new(b.payload("room", SpotAuthorityState::Creating), None);
    let node = b.candidate().await;
    let refused = a
        .repository
        .reserve(&a.held, &node, reservation, a.until())
        .await;
    assert!(matches!(refused, Err(LocationError::Call { .. })));
    let reserved = a.reserve_on(&b, "room").await.unwrap();
    let Authority::Reserved(read) = b.read("room").await else {
        panic!("it is reserved")
    };
    assert_eq!(read.version(), reserved.version());
    let pending = read.row().pending_creation.as_ref().unwrap();
    assert_eq!(pending.request().unwrap(), &b"request"[..]);
    b.commit("room", &read).await.unwrap();
}

/// RL-12
#[tokio::test]
async fn preserve_changes_the_payload_and_nothing_else() {
    let (store, _) = memory();
    let host = Host::start("a", &store, store.clone()).await;
    let active = host.create("room").await;
    let payload = host.payload("room", SpotAuthorityState::Closing);
    let until = host.until();
    let next = host
        .repository
        .preserve(&host.held, &active, &payload, until)
        .await
        .unwrap();
    assert_eq!(*next.payload(), payload);
    let mut expected = active.row().clone();
    expected.payload = next.row().payload.clone();
    assert_eq!(*next.row(), expected);
    assert_ne!(next.version(), active.version());
}

/// RL-12, RL-14: the version that was first read is a condition of every operation.
#[tokio::test]
async fn an_operation_on_an_earlier_version_is_a_conflict() {
    let (store, _) = memory();
    let host = Host::start("a", &store, store.clone()).await;
    let active = host.create("room").await;
    let payload = host.payload("room", SpotAuthorityState::Ready);
    let (repository, held) = (&host.repository, &host.held);
    let newer = repository
        .preserve(held, &active, &payload, host.until())
        .await
        .unwrap();
    let late = repository
        .preserve(held, &active, &payload, host.until())
        .await;
    assert_eq!(conflict(late.unwrap_err()), Conflict::Changed);
    let late = repository.delete(held, &active, host.until()).await;
    assert_eq!(conflict(late.unwrap_err()), Conflict::Changed);
    repository.delete(held, &newer, host.until()).await.unwrap();
    let late = repository.delete(held, &newer, host.until()).await;
    assert_eq!(conflict(late.unwrap_err()), Conflict::Gone);
}

/// RL-13: owner, lease, node and owner generation change; the incarnation stays; the former owner is out.
#[tokio::test]
async fn new_owner_moves_the_object() {
    let (store, _) = memory();
    let (a, b) = two_hosts(&store).await;
    let before = a.create("room").await;
    let after = b
        .repository
        .new_owner(&b.prepared("room"), &before, b.until())
        .await
        .unwrap();
    let (old, new) = (before.row(), after.row());
    assert_eq!(new.owner_id, *b.held.lease().owner());
    assert_eq!(new.owner_lease_generation, b.held.lease().generation());
    assert_eq!(new.allocation.descriptor, b.name());
    assert_eq!(new.allocation.capacity, old.allocation.capacity);
    assert_eq!(new.object_generation, old.object_generation);
    assert!(
        new.authority_owner_generation
            .is_after(old.authority_owner_generation)
    );
    let payload = a.payload("room", SpotAuthorityState::Ready);
    let stale = a
        .repository
        .preserve(&a.held, &after, &payload, a.until())
        .await;
    assert!(matches!(
        stale,
        Err(LocationError::Stale {
            reason: Stale::NotOwner
        })
    ));
    let late = a.repository.delete(&a.held, &before, a.until()).await;
    assert_eq!(conflict(late.unwrap_err()), Conflict::Changed);
}

/// Issue 3: one owner change is one round trip once the counter is known.
#[tokio::test]
async fn an_owner_change_is_one_round_trip() {
    let (store, _) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    let rows = [a.create("one").await, a.create("two").await];
    let counts = Counts::default();
    let counting = counts.over(&store);
    let b = Host::start("b", &store, counting).await;
    b.repository
        .new_owner(&b.prepared("one"), &rows[0], b.until())
        .await
        .unwrap();
    counts.reset();
    b.repository
        .new_owner(&b.prepared("two"), &rows[1], b.until())
        .await
        .unwrap();
    assert_eq!((counts.reads(), counts.writes()), (0, 1));
}

/// ST-90: owner changes of one host side by side take numbers one after the other instead of all asking for the same.
#[tokio::test]
async fn owner_changes_side_by_side_do_not_contend_for_the_counter() {
    const OBJECTS: usize = 64;
    let (store, _) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    let counts = Counts::default();
    let b = Host::start("b", &store, counts.over(&store)).await;
    let mut rows = Vec::new();
    for object in 0..OBJECTS {
        rows.push((
            format!("room-{object}"),
            a.create(&format!("room-{object}")).await,
        ));
    }
    counts.reset();
    let take = |(id, row)| {
        let (repository, target, until) = (&b.repository, b.prepared(id), b.until());
        async move { repository.new_owner(&target, row, until).await.unwrap() }
    };
    let taken = join_all(rows.iter().map(|(id, row)| take((id, row)))).await;
    let generations = taken
        .iter()
        .map(|row| row.row().authority_owner_generation.get());
    let distinct: BTreeSet<u64> = generations.collect();
    assert_eq!(distinct.len(), OBJECTS);
    assert_eq!(counts.writes(), OBJECTS);

    // Another host takes a number: all that were on their way ask once more, together.
    a.create("in between").await;
    counts.reset();
    let back = |row: &ActiveObject| {
        let row = row.clone();
        let (repository, until) = (&b.repository, b.until());
        let target = match row.object() {
            AuthorityKey::Spot(id) => b.prepared(id.as_str()),
            AuthorityKey::Actor(_) => panic!("not an actor"),
        };
        async move { repository.new_owner(&target, &row, until).await.unwrap() }
    };
    join_all(taken.iter().map(back)).await;
    assert!(counts.writes() <= 3 * OBJECTS, "{}", counts.writes());
}

/// Applies nothing of the first write, does something else in its place, and says that the outcome is unknown.
struct Thief {
    store: BoxedStore,
    instead: Mutex<Option<WriteRequest>>,
}

impl StoreProvider for Thief {
    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        self.store.read(key).await
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        let instead = self.instead.lock().unwrap().take();
        let Some(instead) = instead else {
            return self.store.write(request).await;
        };
        assert!(self.store.write(instead).await?.applied().is_some());
        Err(StoreError::indeterminate("the answer was lost"))
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanOutcome, StoreError> {
        self.store.scan(request).await
    }
}

/// ST-72, RL-85: a reservation that somebody else released is not taken for our abort, whose result would be missing.
#[tokio::test]
async fn an_abort_is_not_taken_for_done_without_its_result() {
    let (store, _) = memory();
    let host = Host::start("a", &store, store.clone()).await;
    let reserved = host.reserve_on(&host, "room").await.unwrap();
    let row = key::authority(reserved.object());
    let delete = WriteRequest::new(vec![], vec![Mutation::Delete { key: row }]).unwrap();
    let thief = Thief {
        store: store.clone(),
        instead: Mutex::new(Some(delete)),
    };
    let repository = Repository::new(BoxedStore::new(thief), host.time.clone());
    let terminal =
        TerminalRecord::new(operation(&host), &b"rejected"[..], Duration::from_secs(1)).unwrap();
    let node = host.candidate().await;
    let until = host.until();
    let aborted = repository
        .abort(&host.held, &node, &reserved, Some(terminal), until)
        .await;
    assert_eq!(conflict(aborted.unwrap_err()), Conflict::Gone);
}

/// RL-20: the proof of a prepared target cannot be made for another host's lease.
#[tokio::test]
async fn a_target_is_prepared_only_under_its_own_lease() {
    let (store, _) = memory();
    let (a, b) = two_hosts(&store).await;
    let payload = b.payload("room", SpotAuthorityState::Ready);
    let refused = PreparedTarget::new(a.held, payload);
    assert!(matches!(refused, Err(LocationError::Call { .. })));
}

/// RL-13, RL-19, ST-71: the target's lease is compared, byte for byte, and nothing else is asked of its health.
#[tokio::test]
async fn a_target_whose_lease_has_ended_wins_nothing() {
    let (store, clock) = memory();
    let (a, b) = two_hosts(&store).await;
    let before = a.create("room").await;
    clock.advance(Duration::from_secs(15));
    let lost = b
        .repository
        .new_owner(&b.prepared("room"), &before, b.until())
        .await;
    assert!(matches!(
        lost,
        Err(LocationError::Stale {
            reason: Stale::Missing
        })
    ));
    assert_eq!(a.active("room").await.version(), before.version());
}

/// ST-61, RL-284, RL-286: past its own deadline a host does not even ask.
#[tokio::test]
async fn past_the_admission_deadline_nothing_starts() {
    let (store, _) = memory();
    let (a, b) = two_hosts(&store).await;
    let before = a.create("room").await;
    let rows = everything(&store).await;
    let payload = a.payload("room", SpotAuthorityState::Ready);
    for host in [&a, &b] {
        host.time.advance(Duration::from_secs(10));
    }
    let refused = [
        b.repository
            .new_owner(&b.prepared("room"), &before, b.until())
            .await
            .map(drop),
        a.repository
            .preserve(&a.held, &before, &payload, a.until())
            .await
            .map(drop),
        a.repository.delete(&a.held, &before, a.until()).await,
        a.reserve_on(&a, "other").await.map(drop),
        a.repository
            .publish(&a.held, descriptor("a", &a.held, 2), a.until())
            .await,
    ];
    for outcome in refused {
        let reason = Stale::PastDeadline;
        assert!(matches!(outcome, Err(LocationError::Stale { reason: r }) if r == reason));
    }
    assert_eq!(everything(&store).await, rows);
}

/// RL-14, RL-103: only what is closing begins a new incarnation, on the same owner and capacity.
#[tokio::test]
async fn a_closing_object_is_reincarnated_in_place() {
    let (store, _) = memory();
    let host = Host::start("a", &store, store.clone()).await;
    let active = host.create("room").await;
    let active = active.closing().unwrap_err();
    let closing = host.payload("room", SpotAuthorityState::Closing);
    let until = host.until();
    let closing = host
        .repository
        .preserve(&host.held, &active, &closing, until)
        .await
        .unwrap();
    let closing = closing.closing().unwrap();
    let payload = host.payload("room", SpotAuthorityState::Ready);
    let next = host
        .repository
        .reincarnate(&host.held, &closing, &payload, until)
        .await
        .unwrap();
    let (old, new) = (active.row(), next.row());
    assert_ne!(new.object_generation, old.object_generation);
    assert!(
        new.authority_owner_generation
            .is_after(old.authority_owner_generation)
    );
    assert_eq!(new.owner_id, old.owner_id);
    assert_eq!(new.owner_lease_generation, old.owner_lease_generation);
    assert_eq!(new.allocation, old.allocation);
}

/// ST-52, RL-4: the last number is issued; after it the answer is the same each time and nothing changes.
#[tokio::test]
async fn an_exhausted_counter_issues_nothing() {
    let (store, _) = memory();
    let (a, b) = two_hosts(&store).await;
    put(&store, Counter::AuthorityOwner.key(), "9223372036854775806").await;
    let active = a.create("room").await;
    assert_eq!(
        active.row().authority_owner_generation.get(),
        9_223_372_036_854_775_806
    );
    assert_eq!(
        text(&store, Counter::AuthorityOwner.key()).await,
        "9223372036854775807"
    );
    let rows = everything(&store).await;
    for _ in 0..2 {
        let moved = b
            .repository
            .new_owner(&b.prepared("room"), &active, b.until())
            .await;
        let made = a.reserve_on(&a, "other").await;
        for error in [moved.unwrap_err(), made.unwrap_err()] {
            let counter = Counter::AuthorityOwner;
            assert!(
                matches!(error, LocationError::GenerationExhausted { counter: c } if c == counter)
            );
            assert_eq!(error.recovery(), spotlane_store::Recovery::GiveUp);
        }
    }
    assert_eq!(everything(&store).await, rows);
}

/// ST-90: another object took the number; the operation takes the next and nobody sees a conflict.
#[tokio::test]
async fn a_counter_that_moved_on_is_no_conflict() {
    let (store, _) = memory();
    let (a, b) = two_hosts(&store).await;
    let before = a.create("room").await;
    b.create("other").await;
    a.create("third").await;
    let after = b
        .repository
        .new_owner(&b.prepared("room"), &before, b.until())
        .await
        .unwrap();
    assert_eq!(after.row().authority_owner_generation.get(), 4);
}

/// ST-74: whoever meets a reservation whose target has ended releases it, and its capacity with it.
#[tokio::test]
async fn a_reservation_of_an_ended_lease_is_released() {
    let (store, clock) = memory();
    let (a, b) = two_hosts(&store).await;
    let reserved = a.reserve_on(&a, "room").await.unwrap();
    assert!(
        !b.repository
            .release_if_ended(&reserved, b.until())
            .await
            .unwrap()
    );
    clock.advance(Duration::from_secs(10));
    let renewed = b.keeper.renew(&b.held).await.unwrap();
    let b = Host { held: renewed, ..b };
    clock.advance(Duration::from_secs(6));
    let next = b.reserve_on(&b, "room").await.unwrap();
    assert_ne!(
        next.row().object_generation,
        reserved.row().object_generation
    );
    let late = a.repository.read(&spot("room"), a.until()).await.unwrap();
    assert!(matches!(late, Authority::Reserved(found) if found.version() == next.version()));
}

/// ST-74: the same when the node has begun another run, or has withdrawn.
#[tokio::test]
async fn a_reservation_of_an_ended_node_run_is_released() {
    let (store, _) = memory();
    let (a, b) = two_hosts(&store).await;
    let first = a.reserve_on(&a, "one").await.unwrap();
    let second = a.reserve_on(&a, "two").await.unwrap();
    let mut next_run = descriptor("a", &a.held, 2);
    next_run.lifecycle_generation = spotlane_types::generation::NodeGeneration::new(2).unwrap();
    a.repository
        .publish(&a.held, next_run.clone(), a.until())
        .await
        .unwrap();
    assert!(
        b.repository
            .release_if_ended(&first, b.until())
            .await
            .unwrap()
    );
    a.repository
        .withdraw(&a.held, &next_run, a.until())
        .await
        .unwrap();
    assert!(
        b.repository
            .release_if_ended(&second, b.until())
            .await
            .unwrap()
    );
    assert_eq!(b.read("one").await, Authority::Missing);
    assert_eq!(b.read("two").await, Authority::Missing);
}

/// RL-10, ST-71: the descriptor of a run may be published anew in between; another run may not.
#[tokio::test]
async fn a_newer_revision_of_the_same_run_is_no_conflict() {
    let (store, _) = memory();
    let (a, b) = two_hosts(&store).await;
    let candidate = b.candidate().await;
    b.repository
        .publish(&b.held, descriptor("b", &b.held, 2), b.until())
        .await
        .unwrap();
    let reservation = || {
        let request = PendingCreation::inline("once".parse().unwrap(), b"request").unwrap();
        Reservation::new(
            b.payload("room", SpotAuthorityState::Creating),
            Some(request),
        )
    };
    let until = a.until();
    a.repository
        .reserve(&a.held, &candidate, reservation(), until)
        .await
        .unwrap();
    let mut next_run = descriptor("b", &b.held, 1);
    next_run.lifecycle_generation = spotlane_types::generation::NodeGeneration::new(2).unwrap();
    b.repository
        .publish(&b.held, next_run, b.until())
        .await
        .unwrap();
    let mut other = reservation();
    other.payload = b.payload("other", SpotAuthorityState::Creating);
    let refused = a
        .repository
        .reserve(&a.held, &candidate, other, until)
        .await;
    assert_eq!(conflict(refused.unwrap_err()), Conflict::TargetDescriptor);
}

/// RL-83: a node that counts itself full gets nothing more; limit 0 is no limit.
#[tokio::test]
async fn a_full_node_is_not_reserved() {
    let (store, _) = memory();
    let host = Host::start("a", &store, store.clone()).await;
    let mut full = descriptor("a", &host.held, 2);
    full.capacity.spots = SlotCount {
        active: 1,
        reserved: 1,
        limit: 2,
    };
    host.repository
        .publish(&host.held, full, host.until())
        .await
        .unwrap();
    let refused = host.reserve_on(&host, "room").await.unwrap_err();
    assert_eq!(conflict(refused), Conflict::TargetCapacity);
}

/// ST-73, RL-9: the death of a host removes none of its rows.
#[tokio::test]
async fn a_row_outlives_its_owner() {
    let (store, clock) = memory();
    let (a, b) = two_hosts(&store).await;
    let active = a.create("room").await;
    clock.advance(Duration::from_hours(1_000));
    assert_eq!(b.active("room").await.row(), active.row());
}

/// ST-51: a call that contradicts itself is refused before anything is sent.
#[tokio::test]
async fn arguments_that_contradict_each_other_are_refused() {
    let (store, _) = memory();
    let (a, b) = two_hosts(&store).await;
    let active = a.create("room").await;
    let rows = everything(&store).await;
    let mut elsewhere = a.payload("room", SpotAuthorityState::Ready);
    let DescriptorName { routing_id, .. } = b.name();
    elsewhere.owner_node_rid = routing_id;
    let calls = [
        a.payload("other", SpotAuthorityState::Ready),
        b.payload("room", SpotAuthorityState::Ready),
        elsewhere,
    ];
    for payload in calls {
        let refused = a
            .repository
            .preserve(&a.held, &active, &payload, a.until())
            .await;
        assert!(matches!(refused, Err(LocationError::Call { .. })));
    }
    let ready = Reservation::new(a.payload("x", SpotAuthorityState::Ready), None);
    let refused = a
        .repository
        .reserve(&a.held, &a.candidate().await, ready, a.until())
        .await;
    assert!(matches!(refused, Err(LocationError::Call { .. })));
    assert_eq!(everything(&store).await, rows);
}
