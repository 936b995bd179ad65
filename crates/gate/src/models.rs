//! The protocol under loom: who brings work takes the gate or leaves it at the front, and whoever holds the gate runs until
//! there is none. Loom cannot follow a lock that spins, so those who wait do so at a door before it; `tests/gate.rs` has the
//! lock as it is, on real threads.

use std::sync::Arc;

use loom::thread;

use crate::{Front, Gate, Taken};

type Work = Gate<Vec<u32>, Vec<u32>>;

/// Runs what is inside and at the front, as a driver does; what was run stays inside.
fn run(gate: &Work, mut taken: Taken<'_, Vec<u32>, Vec<u32>>) {
    loop {
        taken = match taken.try_release() {
            Ok(()) => return,
            Err(taken) => taken,
        };
        let mut front = gate.lock();
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

fn bring(gate: &Work, item: u32) {
    let mut front = gate.lock();
    if let (_, Some(inside)) = front.both() {
        inside.push(item);
    } else {
        front.push(item);
    }
    let taken = front.take();
    drop(front);
    if let Some(taken) = taken {
        run(gate, taken);
    }
}

fn check(threads: u32, items: u32) {
    let mut builder = loom::model::Builder::new();
    let asked = std::env::var("SPOTLANE_MODEL_PREEMPTIONS").ok();
    builder.preemption_bound = asked.and_then(|asked| asked.parse().ok()).or(Some(2));
    builder.check(move || {
        let gate = Arc::new(Gate::new(Vec::new(), Vec::new()));
        let others: Vec<_> = (1..threads)
            .map(|thread| {
                let gate = Arc::clone(&gate);
                thread::spawn(move || {
                    (0..items).for_each(|item| bring(&gate, thread * items + item))
                })
            })
            .collect();
        (0..items).for_each(|item| bring(&gate, item));
        for other in others {
            other.join().unwrap();
        }
        let mut front: Front<'_, _, _> = gate.lock();
        assert!(front.is_free(), "whoever ran has let the gate go");
        let (front, inside) = front.both();
        assert!(front.is_empty(), "left at the front: {front:?}");
        let mut all = inside.unwrap().clone();
        // Of each thread in its order.
        for thread in 0..threads {
            let own: Vec<_> = all
                .iter()
                .filter(|item| **item / items == thread)
                .copied()
                .collect();
            assert!(own.is_sorted(), "{own:?}");
        }
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..threads * items), "{all:?}");
    });
}

#[test]
fn nothing_that_is_brought_is_lost() {
    check(2, 2);
}

#[test]
fn three_bring_at_once() {
    check(3, 1);
}
