//! What follows the commit of a single object, and what each side reads (RL-24 to RL-28, RL-138, RL-356, RL-365).

use spotlane_location::authority::{ActiveObject, PreparedTarget};
use spotlane_location::{
    Dispatch, LocationError, MoveStep, ObjectState, Resolved, SourceFence, SourceView, Stale,
};
use spotlane_types::generation::AggregateGeneration;
use spotlane_types::id::RelocationId;
use spotlane_types::kind::{
    AuthorityOperationKind, RelocationPhase, SpotAuthorityState, StatefulObjectKind,
};
use spotlane_wire::authority::{AuthorityPayload, RecordedAggregateGeneration};

use crate::host::{Host, memory, spot};
use crate::unit::{move_id, pointing, unit};

/// The payload with which a target takes a Spot over.
fn committed(source: &ActiveObject, target: &Host) -> AuthorityPayload {
    let mut payload = pointing(target, source);
    let state = payload.relocation_state.as_mut().unwrap();
    let reference = format!("relocation/{}", move_id());
    state.relocation_reference = reference.parse().unwrap();
    let one = AggregateGeneration::new(1).unwrap();
    state.aggregate_generation = RecordedAggregateGeneration::new(one).unwrap();
    state.phase = RelocationPhase::Committed;
    state.source_owner_id = source.row().owner_id.clone();
    state.source_owner_lease_generation = source.row().owner_lease_generation;
    state.target_owner_id = Some(payload.owner_id.clone());
    state.target_owner_lease_generation = Some(payload.owner_lease_generation);
    state.target_node_rid = Some(payload.owner_node_rid.clone());
    state.target_node_generation = Some(payload.owner_node_generation);
    payload
}

fn fence(row: &ActiveObject) -> SourceFence {
    SourceFence {
        object_generation: row.row().object_generation,
        authority_owner_generation: row.row().authority_owner_generation,
    }
}

async fn seen(host: &Host, fence: SourceFence) -> SourceView {
    let (room, until) = (spot("room"), host.until());
    let read = host.repository.read_commit(&room, fence, until).await;
    read.unwrap()
}

fn dispatch(view: &SourceView) -> Dispatch {
    match view {
        SourceView::Committed { dispatch, .. } => *dispatch,
        other => panic!("not committed: {other:?}"),
    }
}

/// RL-24, RL-25, RL-26, RL-28, RL-138, RL-356, RL-365: none to committed, then step by step until the row is plain again;
/// at each point both sides and any reader see what the phase means.
#[tokio::test]
async fn a_move_goes_from_its_commit_to_a_plain_row() {
    let (store, _) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    let b = Host::start("b", &store, store.clone()).await;
    let source = a.create("room").await;
    let fence = fence(&source);
    assert_eq!(seen(&a, fence).await, SourceView::Pending);
    let prepared = PreparedTarget::new(b.held.clone(), committed(&source, &b)).unwrap();
    let take = b.repository.new_owner(&prepared, &source, b.until());
    let mut row = take.await.unwrap();
    let node = &b.node;
    let (rid, run) = (&node.routing_id, node.lifecycle_generation);
    assert!(row.is_taken_by(b.held.lease(), rid, run, move_id()));
    assert!(!row.is_taken_by(a.held.lease(), rid, run, move_id()));
    let other = RelocationId::new(1, 1).unwrap();
    assert!(!row.is_taken_by(b.held.lease(), rid, run, other));
    assert_eq!(dispatch(&seen(&a, fence).await), Dispatch::Closed);
    for (step, open) in [
        (MoveStep::Activating, Dispatch::Closed),
        (MoveStep::Activated, Dispatch::Open),
        (MoveStep::Cleaning, Dispatch::Open),
        (MoveStep::Completed, Dispatch::Open),
    ] {
        let advance = b.repository.advance_move(&b.held, &row, step, b.until());
        row = advance.await.unwrap();
        let again = b.repository.advance_move(&b.held, &row, step, b.until());
        assert_eq!(
            again.await.unwrap().version(),
            row.version(),
            "{step:?} twice"
        );
        assert_eq!(dispatch(&seen(&a, fence).await), open, "{step:?}");
        let found = a.repository.find(&spot("room"), a.until()).await.unwrap();
        assert_eq!(matches!(found, Resolved::Ready(_)), open == Dispatch::Open);
    }
    assert_eq!(row.payload().relocation_state, None);
    assert_eq!(row.payload().operation_kind, AuthorityOperationKind::Steady);
    assert_eq!(*row.payload(), b.payload("room", SpotAuthorityState::Ready));
    let SourceView::Committed { target, .. } = seen(&a, fence).await else {
        panic!("it is committed")
    };
    assert_eq!(target.owner_id, *b.held.lease().owner());
    b.repository.delete(&b.held, &row, b.until()).await.unwrap();
    assert_eq!(seen(&a, fence).await, SourceView::Ended);
    a.create("room").await;
    assert_eq!(
        seen(&a, fence).await,
        SourceView::Ended,
        "another incarnation"
    );
}

/// RL-22, RL-23, RL-27, RL-365: a move of somebody who records captured, prepared and aborted has not committed: the source owns
/// the object, for itself and for everybody who looks for it.
#[tokio::test]
async fn phases_before_the_commit_name_the_source_as_owner() {
    for phase in [
        RelocationPhase::Captured,
        RelocationPhase::Prepared,
        RelocationPhase::Aborted,
    ] {
        let (store, _) = memory();
        let a = Host::start("a", &store, store.clone()).await;
        let b = Host::start("b", &store, store.clone()).await;
        let source = a.create("room").await;
        let mut early = committed(&source, &b);
        let of_a = pointing(&a, &source);
        early.owner_id = of_a.owner_id;
        early.owner_lease_generation = of_a.owner_lease_generation;
        early.owner_node_rid = of_a.owner_node_rid;
        early.owner_node_generation = of_a.owner_node_generation;
        early.relocation_state.as_mut().unwrap().phase = phase;
        let recorded = a.repository.preserve(&a.held, &source, &early, a.until());
        let row = recorded.await.unwrap();
        assert_eq!(
            seen(&a, fence(&source)).await,
            SourceView::Pending,
            "{phase}"
        );
        let rid = &b.node.routing_id;
        let run = b.node.lifecycle_generation;
        assert!(!row.is_taken_by(b.held.lease(), rid, run, move_id()));
        let found = b.repository.find(&spot("room"), b.until()).await.unwrap();
        let Resolved::Ready(route) = found else {
            panic!("{phase}: {found:?}")
        };
        assert_eq!(route.tenure.node_rid, a.node.routing_id, "{phase}");
    }
}

/// RL-20, RL-25: steps are the target's, after a commit and forwards only.
#[tokio::test]
async fn no_step_is_taken_by_another_or_backwards() {
    let (store, _) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    let b = Host::start("b", &store, store.clone()).await;
    let source = a.create("room").await;
    let (repository, until) = (&b.repository, b.until());
    let early = a
        .repository
        .advance_move(&a.held, &source, MoveStep::Activated, a.until());
    assert!(matches!(early.await, Err(LocationError::Call { .. })));
    let prepared = PreparedTarget::new(b.held.clone(), committed(&source, &b)).unwrap();
    let taken = repository
        .new_owner(&prepared, &source, until)
        .await
        .unwrap();
    let foreign = a
        .repository
        .advance_move(&a.held, &taken, MoveStep::Activated, a.until());
    let stale = foreign.await.unwrap_err();
    assert!(
        matches!(
            stale,
            LocationError::Stale {
                reason: Stale::NotOwner
            }
        ),
        "{stale}"
    );
    let activated = repository.advance_move(&b.held, &taken, MoveStep::Activated, until);
    let activated = activated.await.unwrap();
    let back = repository.advance_move(&b.held, &activated, MoveStep::Activating, until);
    assert!(matches!(back.await, Err(LocationError::Call { .. })));
}

/// RL-356, ST-86: a member of a unit is read through the record of its move.
#[tokio::test]
async fn a_source_reads_the_commit_of_a_unit_through_its_record() {
    let (store, _) = memory();
    let unit = unit(&store).await;
    let a = &unit.source;
    let b = Host::start("b", &store, store.clone()).await;
    let fence = fence(&unit.members[0]);
    assert_eq!(seen(a, fence).await, SourceView::Pending);
    let verify = b.repository.verify_aggregate(move_id(), b.until());
    let verified = verify.await.unwrap();
    let side = crate::unit::side(&b);
    let commit = b
        .repository
        .commit_aggregate(&b.held, &verified, side, b.until());
    let committed = commit.await.unwrap();
    assert_eq!(dispatch(&seen(a, fence).await), Dispatch::Closed);
    let activate = b
        .repository
        .activate_aggregate(&b.held, &committed, b.until());
    let activated = activate.await.unwrap();
    assert_eq!(
        activated
            .record()
            .target
            .as_ref()
            .unwrap()
            .owner_id
            .as_str(),
        "b"
    );
    assert_eq!(dispatch(&seen(a, fence).await), Dispatch::Open);
}

/// RL-90, RL-91, RL-92, RL-93, RL-95: what stands under an id, with kind and type, at each point of a life.
#[tokio::test]
async fn a_creation_learns_what_is_in_its_way() {
    let (store, _) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    let b = Host::start("b", &store, store.clone()).await;
    let standing = || async {
        let standing = b
            .repository
            .standing(&spot("room"), b.until())
            .await
            .unwrap();
        standing.map(|standing| {
            assert_eq!(standing.kind, StatefulObjectKind::UserSpot);
            assert_eq!(standing.stable_type.as_str(), "game");
            standing.state
        })
    };
    assert_eq!(standing().await, None);
    let reserved = a.reserve_on(&a, "room").await.unwrap();
    assert_eq!(standing().await, Some(ObjectState::Creating));
    let active = a.commit("room", &reserved).await.unwrap();
    assert!(matches!(standing().await, Some(ObjectState::Ready(_))));
    let prepared = PreparedTarget::new(b.held.clone(), committed(&active, &b)).unwrap();
    let take = b.repository.new_owner(&prepared, &active, b.until());
    let taken = take.await.unwrap();
    assert_eq!(standing().await, Some(ObjectState::Moving));
    let complete = b
        .repository
        .advance_move(&b.held, &taken, MoveStep::Completed, b.until());
    let plain = complete.await.unwrap();
    let closing = b.payload("room", SpotAuthorityState::Closing);
    let close = b.repository.preserve(&b.held, &plain, &closing, b.until());
    close.await.unwrap();
    assert_eq!(standing().await, Some(ObjectState::Closing));
}
