//! Chunks that come before the driver has its turn.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;

use bytes::Bytes;
use spotlane_types::generation::{
    NodeGeneration, ObjectGeneration, OwnerLeaseGeneration, TargetAttemptGeneration,
};
use spotlane_types::id::{ActorId, NodeRid, OwnerId, RelocationId, StoreVersion};
use spotlane_types::kind::RelocationRole;
use spotlane_wire::blob::DurableBlob;
use spotlane_wire::reference::{ActorRef, RelocationCoordinatorFence};
use spotlane_wire::relocation::RelocationObject;

use super::*;

const CHUNK: usize = 256 << 10;

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn chunk(chunk_ordinal: u32) -> Box<RelocationState> {
    Box::new(RelocationState {
        relocation: RelocationId::new(1, 1).unwrap(),
        target_attempt_generation: TargetAttemptGeneration::new(1).unwrap(),
        coordinator: RelocationCoordinatorFence {
            coordinator_owner_id: OwnerId::new("o").unwrap(),
            coordinator_lease_generation: OwnerLeaseGeneration::MIN,
            coordinator_node_rid: NodeRid::new(b"a").unwrap(),
            coordinator_node_generation: NodeGeneration::new(1).unwrap(),
            expected_authority_store_version: StoreVersion::new("1").unwrap(),
        },
        sender_role: RelocationRole::Source,
        object: RelocationObject::Actor {
            actor: ActorRef {
                actor_id: ActorId::new("c").unwrap(),
                object_generation: ObjectGeneration::new(1).unwrap(),
            },
            expected_authority_owner_generation: AuthorityOwnerGeneration::MIN,
        },
        chunk_ordinal,
        chunk_data: DurableBlob::new(Bytes::from(vec![0; CHUNK])).unwrap(),
    })
}

/// A unit without a driver, and what counts how often its connection goes on.
fn without_driver() -> (TargetUnit, Arc<Woken>) {
    let unit = TargetUnit::new(RelocationSettings::default());
    (unit, Arc::default())
}

/// A chunk comes on its connection.
fn comes(unit: &TargetUnit, woken: &Arc<Woken>, ordinal: u32) -> Flow {
    let resumes = || Waker::from(Arc::clone(woken));
    let connection = ConnectionId::new(NonZeroU64::MIN);
    unit.chunk(Monotonic::ORIGIN, connection, chunk(ordinal), resumes)
}

/// EX-328, TGT-10: what a driver that is late finds is bounded, whatever the size of the state: its connection waits, and goes on
/// when half of that is taken.
#[tokio::test]
async fn what_a_late_driver_finds_is_bounded() {
    let (unit, woken) = without_driver();
    let comes = |ordinal| comes(&unit, &woken, ordinal);
    // The driver has not begun: command 40 waits for it.
    let taken = (0..64).take_while(|ordinal| matches!(comes(*ordinal), Flow::Continue));
    let taken = taken.count();
    assert_eq!((taken + 1) * CHUNK, BEHIND_MAX);
    for _ in 0..2 {
        assert_eq!(woken.0.load(Ordering::SeqCst), 0, "not yet half of it");
        assert!(unit.next_input(None).await.is_some());
    }
    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "half of it is taken");
    // It goes on, and waits again at the same place.
    assert!(matches!(comes(4), Flow::Continue));
    assert!(matches!(comes(5), Flow::Pause));
    for _ in 0..4 {
        assert!(unit.next_input(None).await.is_some());
    }
    assert_eq!(woken.0.load(Ordering::SeqCst), 2);
    assert_eq!(unit.desk().behind, 0);
}

/// EX-328: a driver that ends, by a panic at worst, leaves no connection waiting for it.
#[tokio::test]
async fn nobody_waits_for_a_driver_that_is_gone() {
    let (unit, woken) = without_driver();
    let comes = |ordinal| comes(&unit, &woken, ordinal);
    assert!((0..64).any(|ordinal| matches!(comes(ordinal), Flow::Pause)));
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    unit.driver_is_gone();
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!((0..64).all(|ordinal| matches!(comes(ordinal), Flow::Continue)));
}
