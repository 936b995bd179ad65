//! The owner change of a whole unit (ST-83 to ST-89, RL-15, RL-122).

use std::time::Duration;

use spotlane_location::authority::{ActiveObject, Authority};
use spotlane_location::member_list::MemberList;
use spotlane_location::record::{AggregatePhase, PageEntry};
use spotlane_location::{Conflict, LocationError, Resolved, Timing, key};
use spotlane_store::{BoxedStore, Mutation, Recovery, StoreProvider, WriteRequest};
use spotlane_store_memory::{Fault, FaultControl, FaultStore};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::generation::ObjectGeneration;
use spotlane_types::id::RelocationId;
use spotlane_types::kind::SpotAuthorityState;

use crate::host::{Counts, Host, memory, spot};
use crate::unit::{
    MEMBERS, Unit, create_unit, move_id, point, pointing, prepare, room, settle, side, unit,
    unpoint,
};

async fn owners(reader: &Host, unit: &Unit) -> Vec<Option<String>> {
    let mut owners = Vec::new();
    for member in &unit.members {
        let found = reader
            .repository
            .find(member.object(), reader.until())
            .await
            .unwrap();
        owners.push(match found {
            Resolved::Ready(route) => Some(route.owner_id.to_string()),
            Resolved::NotReady => None,
            Resolved::Missing => panic!("a member is missing"),
        });
    }
    owners
}

fn all(owner: Option<&str>) -> Vec<Option<String>> {
    vec![owner.map(str::to_owned); MEMBERS.len() + 1]
}

fn conflict<T: std::fmt::Debug>(outcome: Result<T, LocationError>) -> Conflict {
    match outcome {
        Err(LocationError::Conflict { reason }) => reason,
        other => panic!("expected a conflict, found {other:?}"),
    }
}

/// ST-83, ST-84, ST-85, ST-86, ST-87, ST-88, RL-21: the whole way, with one generation for all, and every look-up agreeing at every point.
#[tokio::test]
async fn a_unit_changes_its_owner_by_one_change_of_one_record() {
    let (store, _) = memory();
    let unit = unit(&store).await;
    let b = Host::start("b", &store, store.clone()).await;
    let until = b.until();
    assert_eq!(owners(&b, &unit).await, all(Some("a")));
    let verify = b.repository.verify_aggregate(move_id(), until);
    let verified = verify.await.unwrap();
    assert_eq!(*verified.list(), unit.list);
    let commit = b
        .repository
        .commit_aggregate(&b.held, &verified, side(&b), until);
    let committed = commit.await.unwrap();
    let generation = committed.record().authority_owner_generation.unwrap();
    assert!(
        unit.members
            .iter()
            .all(|member| generation.is_after(member.row().authority_owner_generation))
    );
    assert_eq!(owners(&b, &unit).await, all(None));
    let activated = b
        .repository
        .activate_aggregate(&b.held, &committed, until)
        .await
        .unwrap();
    assert_eq!(owners(&b, &unit).await, all(Some("b")));
    let early = b
        .repository
        .finish_aggregate(&b.held, activated.clone(), &unit.list, until)
        .await;
    assert_eq!(conflict(early), Conflict::InAggregate);
    let members = verified.into_parts().1;
    let settled = settle(&b, &activated, members.clone(), until)
        .await
        .unwrap();
    for (settled, member) in settled.iter().zip(&members) {
        assert_eq!(settled.object(), member.object());
        assert_eq!(settled.row().authority_owner_generation, generation);
        assert_eq!(
            settled.row().object_generation,
            member.row().object_generation
        );
        assert_eq!(settled.aggregate(), None);
    }
    b.repository
        .finish_aggregate(&b.held, activated, &unit.list, until)
        .await
        .unwrap();
    assert_eq!(owners(&b, &unit).await, all(Some("b")));
    let rows = crate::host::everything(&store).await;
    assert!(
        !rows
            .iter()
            .any(|row| row.key.as_str().starts_with("aggregate"))
    );
}

/// ST-85: while a row points at the record, nothing else changes it.
#[tokio::test]
async fn a_row_of_a_moving_unit_is_changed_by_the_move_alone() {
    let (store, _) = memory();
    let Unit {
        source, members, ..
    } = unit(&store).await;
    let b = Host::start("b", &store, store.clone()).await;
    let until = source.until();
    let payload = source.payload("room", SpotAuthorityState::Ready);
    let (repository, held) = (&source.repository, &source.held);
    let room = &members[0];
    let outcomes = [
        conflict(repository.preserve(held, room, &payload, until).await),
        conflict(repository.delete(held, room, until).await),
        conflict(
            b.repository
                .new_owner(&b.prepared("room"), room, b.until())
                .await,
        ),
        conflict(
            repository
                .point_at_aggregate(
                    held,
                    RelocationId::new(8, 8).unwrap(),
                    vec![room.clone()],
                    |row| pointing(&source, row),
                    until,
                )
                .await,
        ),
    ];
    assert_eq!(outcomes, [Conflict::InAggregate; 4]);
}

/// ST-89: the source gives up; its rows were its own all the time, and no target can commit any more.
#[tokio::test]
async fn an_aborted_move_leaves_everything_with_the_source() {
    let (store, _) = memory();
    let unit = unit(&store).await;
    let b = Host::start("b", &store, store.clone()).await;
    let verified = b
        .repository
        .verify_aggregate(move_id(), b.until())
        .await
        .unwrap();
    let (a, until) = (&unit.source, unit.source.until());
    let abort = a
        .repository
        .abort_aggregate(&a.held, &unit.aggregate, until);
    let aborted = abort.await.unwrap();
    let late = b
        .repository
        .commit_aggregate(&b.held, &verified, side(&b), b.until())
        .await;
    assert_eq!(conflict(late), Conflict::Changed);
    assert_eq!(owners(&b, &unit).await, all(Some("a")));
    let taken = unpoint(a, unit.members.clone(), until).await.unwrap();
    assert!(taken.iter().all(|row| row.aggregate().is_none()));
    a.repository
        .finish_aggregate(&a.held, aborted, &unit.list, until)
        .await
        .unwrap();
    assert_eq!(owners(&b, &unit).await, all(Some("a")));
}

/// ST-86, ST-89: pointers to a record that was never written leave the source the owner, which can take them back.
#[tokio::test]
async fn pointers_without_a_record_are_taken_back_by_the_owner() {
    let (store, _) = memory();
    let Unit {
        source: a, members, ..
    } = unit(&store).await;
    let refused = unpoint(&a, members.clone(), a.until()).await;
    assert_eq!(conflict(refused), Conflict::Aggregate);
    let delete = Mutation::Delete {
        key: key::aggregate(move_id()),
    };
    let request = WriteRequest::new(vec![], vec![delete]).unwrap();
    assert!(store.write(request).await.unwrap().applied().is_some());
    let found = a.repository.find(members[0].object(), a.until()).await;
    assert!(
        matches!(found.unwrap(), Resolved::Ready(route) if route.owner_id == *a.held.lease().owner())
    );
    let taken = unpoint(&a, members, a.until()).await.unwrap();
    assert!(taken.iter().all(|row| row.aggregate().is_none()));
    // Once more: there is nothing left to do, and nothing is written.
    assert_eq!(unpoint(&a, taken.clone(), a.until()).await.unwrap(), taken);
}

/// ST-87: of two targets one commits; after it the source can no longer give up.
#[tokio::test]
async fn one_target_commits_and_nobody_after_it() {
    let (store, _) = memory();
    let unit = unit(&store).await;
    let b = Host::start("b", &store, store.clone()).await;
    let c = Host::start("c", &store, store.clone()).await;
    let seen = [
        b.repository
            .verify_aggregate(move_id(), b.until())
            .await
            .unwrap(),
        c.repository
            .verify_aggregate(move_id(), c.until())
            .await
            .unwrap(),
    ];
    let commit = b
        .repository
        .commit_aggregate(&b.held, &seen[0], side(&b), b.until());
    let won = commit.await.unwrap();
    assert_eq!(won.record().phase, AggregatePhase::Committed);
    let late = c
        .repository
        .commit_aggregate(&c.held, &seen[1], side(&c), c.until())
        .await;
    assert_eq!(conflict(late), Conflict::Changed);
    let a = &unit.source;
    let late = a
        .repository
        .abort_aggregate(&a.held, &unit.aggregate, a.until())
        .await;
    assert_eq!(conflict(late), Conflict::Changed);
}

/// ST-84, RL-122: more members than fit into one page or one batch; a lost or changed page is noticed.
#[tokio::test]
async fn a_long_list_is_read_back_and_a_bad_page_is_not() {
    let (store, _) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    let objects = (1..2_500).map(|n| AuthorityKey::Actor(format!("actor-{n}").parse().unwrap()));
    let sealed = a.create("room").await.version().clone();
    let entries = objects.chain([spot("room")]).map(|object| PageEntry {
        object,
        object_generation: ObjectGeneration::new(1).unwrap(),
        store_version: sealed.clone(),
    });
    let list = MemberList::new(entries.collect()).unwrap();
    let prepare =
        a.repository
            .prepare_aggregate(&a.held, move_id(), room(), side(&a), &list, a.until());
    let held = prepare.await.unwrap();
    assert_eq!(held.record().entry_count, 2_500);
    let verified = a
        .repository
        .read_aggregate(move_id(), a.until())
        .await
        .unwrap();
    assert_eq!(*verified.list(), list);
    let page = key::aggregate_page(&list.root());
    for (mutation, recovery) in [
        (
            Mutation::put(page.clone(), r#"{"recordVersion":1,"pages":[]}"#, None).unwrap(),
            Recovery::GiveUp,
        ),
        (Mutation::Delete { key: page }, Recovery::ReadThenDecide),
    ] {
        let request = WriteRequest::new(vec![], vec![mutation]).unwrap();
        assert!(store.write(request).await.unwrap().applied().is_some());
        let refused = a
            .repository
            .read_aggregate(move_id(), a.until())
            .await
            .unwrap_err();
        assert_eq!(refused.recovery(), recovery);
    }
}

/// ST-87: a row that was written over is noticed before the commit, although root, count and digest still agree.
#[tokio::test]
async fn a_row_that_is_not_the_listed_version_stops_the_target() {
    let (store, _) = memory();
    let unit = unit(&store).await;
    let b = Host::start("b", &store, store.clone()).await;
    let (repository, until) = (&b.repository, b.until());
    let verified = repository.verify_aggregate(move_id(), until).await;
    assert_eq!(verified.unwrap().members(), in_list_order(&unit));
    let at = key::authority(unit.members[2].object());
    let there = store.read(&at).await.unwrap().found().unwrap();
    let again = Mutation::put(at, there.value.into_bytes(), None).unwrap();
    let request = WriteRequest::new(vec![], vec![again]).unwrap();
    assert!(store.write(request).await.unwrap().applied().is_some());
    let refused = repository.verify_aggregate(move_id(), until).await;
    assert_eq!(conflict(refused), Conflict::Aggregate);
    assert!(repository.read_aggregate(move_id(), until).await.is_ok());
}

fn in_list_order(unit: &Unit) -> Vec<ActiveObject> {
    let entries = unit.list.entries().iter();
    let row = |object: &AuthorityKey| {
        let found = unit.members.iter().find(|row| row.object() == object);
        found.unwrap().clone()
    };
    entries.map(|entry| row(&entry.object)).collect()
}

/// ST-85, ST-88: rows go many to a batch, within the bounds of ST-4; a call that failed half-way is repeated and does the
/// rest.
#[tokio::test]
async fn rows_of_a_large_unit_are_written_in_batches() {
    const MEMBERS: usize = 1_200;
    let (store, _) = memory();
    let counts = Counts::default();
    let control = FaultControl::new();
    let counted = counts.over(&store);
    let faulty = BoxedStore::new(FaultStore::new(counted, control.clone()));
    let a = Host::start("a", &store, faulty.clone()).await;
    let ids: Vec<_> = (1..MEMBERS).map(|n| format!("actor-{n}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let rows = create_unit(&a, &ids).await;

    // The second batch is refused and the call with it; the first stands.
    counts.reset();
    for fault in [Fault::None, Fault::FailBefore] {
        control.next(fault).unwrap();
    }
    let in_time = point(
        &a,
        rows.clone(),
        a.time.now().after(Duration::from_millis(1)),
    )
    .await;
    assert_eq!(in_time.unwrap_err().recovery(), Recovery::Retry);
    assert_eq!(counts.writes(), 1);
    let objects: Vec<_> = rows.iter().map(|row| row.object().clone()).collect();
    let read = a.repository.read_many(&objects, a.until()).await.unwrap();
    let rows = read.into_iter().map(|row| match row {
        Authority::Active(active) => active,
        other => panic!("{other:?}"),
    });
    let rows: Vec<_> = rows.collect();
    assert_eq!(
        rows.iter().filter(|row| row.aggregate().is_some()).count(),
        512
    );

    counts.reset();
    control.next(Fault::LoseAnswer).unwrap();
    let pointed = point(&a, rows, a.until()).await.unwrap();
    assert_eq!(counts.writes(), 2);
    let list = MemberList::of_rows(&pointed).unwrap();
    counts.reset();
    let prepared = prepare(&a, &list, a.until()).await.unwrap();
    assert_eq!(prepared.record().entry_count, list.count());
    assert_eq!(counts.writes(), 2, "all pages in one batch, and the record");

    let b = Host::start("b", &store, faulty).await;
    let verify = b.repository.verify_aggregate(move_id(), b.until());
    let verified = verify.await.unwrap();
    let commit = b
        .repository
        .commit_aggregate(&b.held, &verified, side(&b), b.until());
    let committed = commit.await.unwrap();
    let activate = b
        .repository
        .activate_aggregate(&b.held, &committed, b.until());
    let activated = activate.await.unwrap();
    counts.reset();
    control.next(Fault::LoseRequest).unwrap();
    let (_, members) = verified.into_parts();
    let settled = settle(&b, &activated, members, b.until()).await.unwrap();
    assert_eq!(counts.writes(), 3);
    assert!(settled.iter().all(|row| row.is_owned_by(b.held.lease())));
    counts.reset();
    let again = settle(&b, &activated, settled.clone(), b.until()).await;
    assert_eq!((again.unwrap(), counts.writes()), (settled, 0));
}

/// ST-86, RL-20: rows are settled by the target of an activated move and by nobody else.
#[tokio::test]
async fn only_the_target_settles() {
    let (store, _) = memory();
    let unit = unit(&store).await;
    let b = Host::start("b", &store, store.clone()).await;
    let until = b.until();
    let verify = b.repository.verify_aggregate(move_id(), until);
    let verified = verify.await.unwrap();
    let members = verified.members().to_vec();
    let early = settle(&b, &unit.aggregate, members.clone(), until).await;
    assert_eq!(conflict(early), Conflict::Aggregate);
    let commit = b
        .repository
        .commit_aggregate(&b.held, &verified, side(&b), until);
    let committed = commit.await.unwrap();
    let early = settle(&b, &committed, members.clone(), until).await;
    assert_eq!(conflict(early), Conflict::Aggregate);
    let activated = b
        .repository
        .activate_aggregate(&b.held, &committed, until)
        .await
        .unwrap();
    let c = Host::start("c", &store, store.clone()).await;
    let foreign = settle(&c, &activated, members.clone(), until).await;
    assert_eq!(conflict(foreign), Conflict::Aggregate);
    let stranger = c.create("elsewhere").await;
    let foreign = settle(&b, &activated, vec![stranger], until).await;
    assert_eq!(conflict(foreign), Conflict::Aggregate);
    let late = unpoint(&unit.source, members, until).await;
    assert_eq!(conflict(late), Conflict::Aggregate);
}
