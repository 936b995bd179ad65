//! The buffer of a stream.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::target::assembly::{Assembly, Taken, contents};

fn whole(payload: &Payload) -> Bytes {
    let prepare = prepare_for(1, payload);
    let mut assembly = Assembly::new(&prepare, |_| None);
    let mut taken = Taken::More;
    for (ordinal, chunk) in (0..).zip(payload.chunks()) {
        taken = assembly.push(&prepare, ordinal, chunk);
    }
    match taken {
        Taken::Whole(stream) => stream,
        other => panic!("{other:?}"),
    }
}

/// RL-359, D-9
#[test]
fn the_buffer_grows_with_what_came_and_never_by_the_claim() {
    let payload = payload(Some(vec![1; 4_000_000].into()), Vec::new(), 32 * 1024);
    let prepare = prepare_for(1, &payload);
    let mut assembly = Assembly::new(&prepare, |_| None);
    let mut received = 0;
    for (ordinal, chunk) in (0..).zip(payload.chunks()) {
        received += chunk.len();
        if let Taken::Whole(stream) = assembly.push(&prepare, ordinal, chunk) {
            assert_eq!(stream.len(), received);
            return;
        }
        assert!(assembly.capacity() <= (received * 2).max(64 * 1024));
        assert!(assembly.capacity() <= 4_001_000);
    }
    panic!("the stream did not end");
}

/// RL-118: the state of a participant is a slice of the stream.
#[test]
fn a_state_is_not_copied_out_of_the_stream() {
    let payload = payload(Some(vec![1; 100_000].into()), vec![note("w")], 32 * 1024);
    let stream = whole(&payload);
    let contents = contents(&prepare_for(1, &payload), &stream).unwrap();
    let state = contents.states[0].1.as_ref().unwrap();
    assert_eq!(state.len(), 100_000);
    assert!(stream.as_ptr_range().contains(&state.as_ptr()));
    assert_eq!(contents.work.len(), 1);
}

/// One queued record must not keep a whole large stream alive.
#[test]
fn saved_work_is_copied_out_of_a_large_stream() {
    let payload = payload(Some(vec![1; 2_000_000].into()), vec![note("w")], 32 * 1024);
    let stream = whole(&payload);
    let contents = contents(&prepare_for(1, &payload), &stream).unwrap();
    let spotlane_wire::frozen::FrozenRecordBody::ActorSend { payload, .. } =
        &contents.work[0].record.body
    else {
        panic!("no message");
    };
    let inside = payload.payload.as_bytes().as_ptr();
    assert!(!stream.as_ptr_range().contains(&inside));
}

/// WR-56
#[test]
fn a_stream_of_another_object_does_not_decode() {
    let payload = payload(None, Vec::new(), 1000);
    let stream = whole(&payload);
    let mut prepare = prepare_for(1, &payload);
    prepare.relocation = identity(2).relocation;
    let code = contents(&prepare, &stream).unwrap_err();
    assert_eq!(code, spotlane_types::kind::FailureCode::PayloadDecodeFailed);
}

/// EX-328, RL-115: a long stream is put together in the memory of the host, once, and given up with its last
/// slice.
#[test]
fn memory_of_the_host_holds_the_stream_until_its_last_slice_is_gone() {
    static HELD: AtomicUsize = AtomicUsize::new(0);

    #[derive(Debug)]
    struct Counted(Vec<u8>);

    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl AsMut<[u8]> for Counted {
        fn as_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            HELD.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn reserve(bytes: u64) -> Option<Box<dyn StreamMemory>> {
        HELD.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(Counted(vec![0; usize::try_from(bytes).unwrap()])))
    }

    let payload = payload(Some(vec![7; 100_000].into()), Vec::new(), 32 * 1024);
    let prepare = prepare_for(1, &payload);
    let mut assembly = Assembly::new(&prepare, reserve);
    let mut whole = None;
    for (ordinal, chunk) in (0..).zip(payload.chunks()) {
        match assembly.push(&prepare, ordinal, chunk) {
            Taken::Whole(stream) => whole = Some(stream),
            Taken::More => {}
            other => panic!("{other:?}"),
        }
        if whole.is_none() {
            assert!(matches!(
                assembly.push(&prepare, ordinal, chunk),
                Taken::Repeated
            ));
        }
    }
    drop(assembly);
    let contents = contents(&prepare, &whole.unwrap()).unwrap();
    let state = contents.states[0].1.clone().unwrap();
    drop(contents);
    assert_eq!(&state[..], &[7; 100_000]);
    assert_eq!(HELD.load(Ordering::Relaxed), 1);
    drop(state);
    assert_eq!(HELD.load(Ordering::Relaxed), 0);
}

/// RL-359: memory of the wrong size breaks the move and nothing else.
#[test]
fn memory_that_is_too_short_breaks_the_move() {
    let payload = payload(Some(vec![7; 1000].into()), Vec::new(), 32 * 1024);
    let prepare = prepare_for(1, &payload);
    let mut assembly = Assembly::new(&prepare, |_| Some(Box::new(vec![0; 10])));
    let taken = assembly.push(&prepare, 0, &payload.chunks()[0]);
    assert!(matches!(taken, Taken::Broken));
}
