//! The right to run, and the short lock in front of it, in one atomic word.
//!
//! A [`Gate`] keeps two values. The *front* is what everybody needs who brings work: it opens under a short lock that spins.
//! The *inside* is what only the one who runs needs: it opens for whoever holds the gate, and for whoever has the lock while
//! nobody holds it. Both states are in one word, so
//!
//! - the lock and the free gate are taken by one atomic operation, and the lock is given back by a plain store;
//! - whoever holds the gate needs no lock to begin, and none to let it go as long as nobody has come to the front
//!   meanwhile: one atomic operation tells both (EX-391).
//!
//! The right is a value: [`Taken`] for as long as the gate is borrowed, [`Held`] together with an owner of the gate, to be
//! sent elsewhere, and [`AnyHeld`] when the queue it is sent through does not know the type. None of them can be copied, so
//! there is one at most; losing one leaves its gate taken for ever, which is safe.
//!
//! This is the only crate of the workspace with `unsafe`, and knows nothing of lanes: the reasons and what was measured are in
//! `docs/decisions/lane-gate.md`. Its protocol is checked by loom, here with its own lock and in the models of the lane.
//!
//! # Example
//! ```
//! use std::sync::Arc;
//! use spotlane_gate::{Gate, Gated};
//!
//! struct Object {
//!     gate: Gate<Vec<u32>, u64>,
//! }
//!
//! impl Gated for Object {
//!     type Front = Vec<u32>;
//!     type Inside = u64;
//!     fn gate(&self) -> &Gate<Vec<u32>, u64> {
//!         &self.gate
//!     }
//! }
//!
//! let object = Arc::new(Object { gate: Gate::new(Vec::new(), 0) });
//! // Whoever brings work to a free gate takes it, and may put that work inside.
//! let mut front = object.gate.lock();
//! let (_, inside) = front.both();
//! if let Some(inside) = inside {
//!     *inside = 7;
//! }
//! let taken = front.take().expect("nobody holds it");
//! drop(front);
//! let held = taken.hold(Arc::clone(&object));
//!
//! // The one who runs, on whatever thread.
//! let mut slot = None;
//! let (object, mut taken) = held.open(&mut slot);
//! assert_eq!(*taken.inside(), 7);
//! // A second one finds the gate taken and leaves its work at the front.
//! let mut front = object.gate.lock();
//! assert!(front.take().is_none());
//! front.push(8);
//! drop(front);
//! // So the gate cannot be let go without a look at the front.
//! let taken = taken.try_release().expect_err("somebody came to the front");
//! let mut front = object.gate.lock();
//! assert_eq!(front.pop(), Some(8));
//! taken.release(&mut front);
//! ```

mod gate;
mod held;
mod sync;

#[cfg(all(test, loom))]
mod models;

pub use gate::{Front, Gate, Taken};
pub use held::{AnyHeld, Gated, Held};
