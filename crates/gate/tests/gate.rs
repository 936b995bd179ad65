//! What a gate promises to whoever uses it, without a model checker.
#![cfg(not(any(loom, shuttle)))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use spotlane_gate::{AnyHeld, Gate, Gated};

struct Object {
    gate: Gate<Vec<u64>, Vec<u64>>,
}

impl Gated for Object {
    type Front = Vec<u64>;
    type Inside = Vec<u64>;

    fn gate(&self) -> &Gate<Vec<u64>, Vec<u64>> {
        &self.gate
    }
}

struct Other {
    gate: Gate<Vec<u64>, Vec<u64>>,
}

impl Gated for Other {
    type Front = Vec<u64>;
    type Inside = Vec<u64>;

    fn gate(&self) -> &Gate<Vec<u64>, Vec<u64>> {
        &self.gate
    }
}

fn object() -> Arc<Object> {
    Arc::new(Object {
        gate: Gate::new(Vec::new(), Vec::new()),
    })
}

#[test]
fn a_gate_is_held_once() {
    let object = object();
    let mut front = object.gate.lock();
    assert!(front.is_free());
    let taken = front.take().unwrap();
    assert!(!front.is_free());
    assert!(front.take().is_none());
    assert!(front.both().1.is_none(), "the inside is the holder's");
    drop(front);
    assert!(object.gate.lock().take().is_none());
    // Somebody was at the front.
    let taken = taken.try_release().unwrap_err();
    let mut front = object.gate.lock();
    taken.release(&mut front);
    assert!(front.is_free());
    assert!(front.both().1.is_some());
}

#[test]
fn a_gate_that_nobody_looked_at_is_let_go_without_its_lock() {
    let object = object();
    let taken = object.gate.lock().take().unwrap();
    taken.try_release().unwrap();
    assert!(object.gate.lock().is_free());
}

#[test]
fn a_note_keeps_the_gate() {
    let object = object();
    let mut front = object.gate.lock();
    let taken = front.take().unwrap();
    front.note();
    drop(front);
    let taken = taken.try_release().unwrap_err();
    let mut front = object.gate.lock();
    front.seen(&taken);
    drop(front);
    taken.try_release().unwrap();
}

#[test]
fn a_note_at_a_free_gate_is_nothing() {
    let object = object();
    object.gate.lock().note();
    let taken = object.gate.lock().take().unwrap();
    taken.try_release().unwrap();
}

#[test]
fn a_lost_right_leaves_the_gate_taken() {
    let object = object();
    assert!(object.gate.lock().take().is_some());
    assert!(object.gate.lock().take().is_none());
}

#[test]
fn a_right_that_is_sent_finds_its_way_back() {
    let object = object();
    let taken = object.gate.lock().take().unwrap();
    let mut held = taken.hold(Arc::clone(&object));
    held.inside().push(1);
    let any: AnyHeld = held.into_any();
    assert!(any.is::<Object>() && !any.is::<Other>());
    let any = any.downcast::<Other>().unwrap_err();
    let held = thread::spawn(move || {
        let mut held = any.downcast::<Object>().unwrap();
        held.inside().push(2);
        held
    })
    .join()
    .unwrap();
    let mut slot = None;
    let (owner, mut taken) = held.open(&mut slot);
    assert!(Arc::ptr_eq(owner, &object));
    assert_eq!(*taken.inside(), [1, 2]);
    let held = taken.hold(Arc::clone(&object));
    drop(slot);
    let mut front = object.gate.lock();
    drop(held.release(&mut front));
    assert!(front.is_free());
}

#[test]
fn a_right_is_held_with_its_own_owner_only() {
    refused("its own owner", || {
        let (one, two) = (object(), object());
        let taken = one.gate.lock().take().unwrap();
        drop(taken.hold(two));
    });
}

#[test]
fn a_gate_is_let_go_at_its_own_front_only() {
    refused("its own front", || {
        let (one, two) = (object(), object());
        let taken = one.gate.lock().take().unwrap();
        taken.release(&mut two.gate.lock());
    });
}

#[test]
fn notes_are_taken_back_by_the_holder_only() {
    refused("another gate", || {
        let (one, two) = (object(), object());
        let (taken, _other) = (one.gate.lock().take().unwrap(), two.gate.lock().take());
        two.gate.lock().seen(&taken);
    });
}

/// Ends with a panic that says so.
fn refused(why: &str, act: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(act)).err();
    let said = panic.and_then(|panic| panic.downcast_ref::<&str>().copied());
    assert!(said.is_some_and(|said| said.contains(why)), "{said:?}");
}

/// Threads on two processors bring, and whoever finds the gate free runs: nothing is lost, doubled or out of order.
#[test]
fn many_threads_lose_nothing() {
    const THREADS: u64 = 4;
    const ITEMS: u64 = 100_000;
    let object = object();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let object = &object;
            scope.spawn(move || {
                for item in 0..ITEMS {
                    bring(object, thread * ITEMS + item);
                }
            });
        }
    });
    let mut front = object.gate.lock();
    assert!(front.is_free() && front.is_empty());
    let all = front.both().1.unwrap();
    for thread in 0..THREADS {
        let own = all.iter().filter(|item| **item / ITEMS == thread);
        assert!(own.copied().eq(thread * ITEMS..(thread + 1) * ITEMS));
    }
    assert_eq!(all.len() as u64, THREADS * ITEMS);
}

fn bring(object: &Object, item: u64) {
    let mut front = object.gate.lock();
    if let (_, Some(inside)) = front.both() {
        inside.push(item);
    } else {
        front.push(item);
    }
    let Some(mut taken) = front.take() else {
        return;
    };
    drop(front);
    loop {
        taken = match taken.try_release() {
            Ok(()) => return,
            Err(taken) => taken,
        };
        let mut front = object.gate.lock();
        let more = std::mem::take(&mut *front);
        if more.is_empty() {
            taken.release(&mut front);
            return;
        }
        front.seen(&taken);
        drop(front);
        taken.inside().extend(more);
    }
}
