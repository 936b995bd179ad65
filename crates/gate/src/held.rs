//! The right to run together with an owner of the gate.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::gate::{Front, Gate, Taken};

/// Something with a gate.
pub trait Gated: Send + Sync + 'static {
    /// What everybody needs who brings work.
    type Front: Send + 'static;
    /// What only the one who runs needs.
    type Inside: Send + 'static;

    /// Its gate, always the same.
    fn gate(&self) -> &Gate<Self::Front, Self::Inside>;
}

/// The right to run, with an owner of the gate. Dropped without a release, it leaves the gate taken for ever.
#[must_use = "a gate that is not let go stays taken"]
pub struct Held<T: Gated> {
    owner: Arc<T>,
    /// Was borrowed from `owner`, which is shared as long as this lives, and is used as if it were still borrowed: an owner that
    /// lends itself cannot be changed or moved by anybody.
    gate: NonNull<Gate<T::Front, T::Inside>>,
}

// SAFETY: it is an `Arc<T>` of something that may be shared and sent, a borrow of a part of that, and the right to `&mut Inside`,
// which may be sent. What it lends through `&self` is `&Arc<T>`, which may be shared.
#[expect(unsafe_code, reason = "the one crate where it is")]
unsafe impl<T: Gated> Send for Held<T> {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "the one crate where it is")]
unsafe impl<T: Gated> Sync for Held<T> {}

impl<F: Send + 'static, I: Send + 'static> Taken<'_, F, I> {
    /// Goes on as long as `owner` lives, wherever it is sent.
    ///
    /// # Panics
    /// If it is not the gate of `owner`.
    #[inline]
    pub fn hold<T: Gated<Front = F, Inside = I>>(self, owner: Arc<T>) -> Held<T> {
        let gate = owner.gate();
        assert!(
            std::ptr::eq(gate, self.gate()),
            "a gate is held with its own owner"
        );
        let gate = NonNull::from(gate);
        Held { owner, gate }
    }
}

impl<T: Gated> Held<T> {
    /// The owner of the gate.
    #[inline]
    pub const fn owner(&self) -> &Arc<T> {
        &self.owner
    }

    /// Puts the owner into `slot`, where it is borrowed for as long as the right is used: nothing is counted for that.
    #[inline]
    pub fn open(self, slot: &mut Option<Arc<T>>) -> (&Arc<T>, Taken<'_, T::Front, T::Inside>) {
        let Self { owner, gate } = self;
        let owner = &*slot.insert(owner);
        // SAFETY: the gate was borrowed from `owner`, which stays in `slot` and shared for as long as that is borrowed.
        #[expect(unsafe_code, reason = "the one crate where it is")]
        let gate = unsafe { gate.as_ref() };
        (owner, Taken::of(gate))
    }

    fn gate(&self) -> &Gate<T::Front, T::Inside> {
        // SAFETY: the gate was borrowed from `owner`, which is here and shared as long as `self` is borrowed.
        #[expect(unsafe_code, reason = "the one crate where it is")]
        unsafe {
            self.gate.as_ref()
        }
    }

    /// What only the one who holds the gate sees.
    #[inline]
    pub fn inside(&mut self) -> &mut T::Inside {
        let inside = self.gate().inside();
        // SAFETY: there is one `Taken` or `Held` of a gate at a time, and this is it; it is borrowed mutably for as long as
        // the reference lives. Whoever has the lock looks inside only while there is none.
        #[expect(unsafe_code, reason = "the one crate where it is")]
        unsafe {
            &mut *inside
        }
    }

    /// Lets the gate go, once the lock is.
    ///
    /// # Panics
    /// If `front` is that of another gate.
    pub fn release(self, front: &mut Front<'_, T::Front, T::Inside>) -> Arc<T> {
        let Self { owner, gate } = self;
        front.let_go(gate.as_ptr());
        owner
    }

    /// For a queue that does not know what it carries.
    #[inline]
    pub fn into_any(self) -> AnyHeld {
        let Self { owner, gate } = self;
        AnyHeld {
            owner,
            gate: gate.cast(),
        }
    }
}

impl<T: Gated> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// A [`Held`] of a type that is not known here.
#[must_use = "a gate that is not let go stays taken"]
pub struct AnyHeld {
    owner: Arc<dyn Any + Send + Sync>,
    /// Of the type that belongs to the type of `owner`, which is checked before it is used.
    gate: NonNull<()>,
}

// SAFETY: it was a `Held`, and can only be made one again.
#[expect(unsafe_code, reason = "the one crate where it is")]
unsafe impl Send for AnyHeld {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "the one crate where it is")]
unsafe impl Sync for AnyHeld {}

impl AnyHeld {
    /// Whether its owner is a `T`.
    #[inline]
    pub fn is<T: Gated>(&self) -> bool {
        self.owner.is::<T>()
    }

    /// The same as it was made of.
    ///
    /// # Errors
    /// Gives it back if its owner is no `T`.
    #[inline]
    pub fn downcast<T: Gated>(self) -> Result<Held<T>, Self> {
        let Self { owner, gate } = self;
        match owner.downcast::<T>() {
            Ok(owner) => Ok(Held {
                owner,
                gate: gate.cast(),
            }),
            Err(owner) => Err(Self { owner, gate }),
        }
    }
}

impl fmt::Debug for AnyHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyHeld").finish_non_exhaustive()
    }
}
