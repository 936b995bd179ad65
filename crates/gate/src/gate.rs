//! The word, and what it guards.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

#[cfg(any(loom, shuttle))]
use crate::sync::door;
use crate::sync::{AtomicU32, Cell, Ordering, yield_now};

/// Somebody holds the gate.
const TAKEN: u32 = 1;
/// Somebody has been at the front since the gate was taken.
const NOTED: u32 = 2;
const STATE: u32 = TAKEN | NOTED;
/// The lock is taken when this or more is added to the state. Who finds it taken has added one more in vain; giving it back
/// takes all of them away. One call adds once, so there are no more than there are threads.
const LOCK: u32 = 4;
/// How often a lock is looked at before its thread lets others run: its holder may be one of them.
const LOOKS: u32 = 128;

/// Two values behind one atomic word: a front under a short lock, and an inside for the one who holds the gate.
///
/// The lock must be held for some dozen instructions only, since others spin meanwhile. The gate may be held for any time, on
/// any thread and across any wait.
#[repr(C)]
pub struct Gate<F, I> {
    #[cfg(any(loom, shuttle))]
    door: door::Door,
    front: Cell<F>,
    word: AtomicU32,
    inside: Cell<I>,
}

// SAFETY: a shared gate gives out `&mut F` to the one who has the lock, and `&mut I` to the one who holds the gate or who has
// the lock while nobody holds it; both go from thread to thread with the release and acquire of `word`. Nobody gets `&F` or
// `&I` on two threads at once, so they need not be `Sync`.
#[expect(unsafe_code, reason = "the one crate where it is")]
unsafe impl<F: Send, I: Send> Sync for Gate<F, I> {}

impl<F, I> Gate<F, I> {
    /// A free gate.
    pub fn new(front: F, inside: I) -> Self {
        Self {
            word: AtomicU32::new(0),
            #[cfg(any(loom, shuttle))]
            door: door::Door::new(),
            front: Cell::new(front),
            inside: Cell::new(inside),
        }
    }

    /// Takes the lock: one atomic operation, unless somebody has it.
    ///
    /// Taking it twice on one thread never ends.
    #[inline]
    pub fn lock(&self) -> Front<'_, F, I> {
        #[cfg(not(any(loom, shuttle)))]
        return self.lock_bare();
        #[cfg(any(loom, shuttle))]
        {
            // Passed first, so that nobody ever finds the lock taken.
            let door = self.door.pass();
            let mut front = self.lock_bare();
            front.door = Some(door);
            front
        }
    }

    #[inline]
    fn lock_bare(&self) -> Front<'_, F, I> {
        // An addition, since it tells what was there before and needs not know it: reading first would fetch the memory
        // from another processor twice.
        let before = self.word.fetch_add(LOCK, Ordering::Acquire);
        let state = if before < LOCK { before } else { self.wait() };
        let noted = if state & TAKEN == 0 { 0 } else { NOTED };
        Front {
            gate: self,
            after: state | noted,
            #[cfg(any(loom, shuttle))]
            door: None,
            stays: PhantomData,
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) -> u32 {
        loop {
            for _ in 0..LOOKS {
                let state = self.word.load(Ordering::Relaxed);
                if state < LOCK
                    && self
                        .word
                        .compare_exchange(state, state + LOCK, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
                {
                    return state;
                }
                std::hint::spin_loop();
            }
            yield_now();
        }
    }

    /// Where the inside is; whoever looks there says why they may.
    #[inline]
    pub(crate) fn inside(&self) -> *mut I {
        self.inside.look()
    }
}

impl<F, I> fmt::Debug for Gate<F, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

/// The lock of a gate, and what it opens.
///
/// Stays on its thread (EX-364): a future that kept it across an await could not be sent. Dropped while somebody holds the
/// gate, it leaves a note for them, so that they look at the front before they let the gate go.
pub struct Front<'a, F, I> {
    gate: &'a Gate<F, I>,
    /// What the word will say once the lock is given back. Nobody else writes the state meanwhile.
    after: u32,
    #[cfg(any(loom, shuttle))]
    door: Option<door::Guard<'a>>,
    stays: PhantomData<*const ()>,
}

impl<'a, F, I> Front<'a, F, I> {
    /// Whether nobody holds the gate.
    #[inline]
    pub const fn is_free(&self) -> bool {
        self.after & TAKEN == 0
    }

    /// The front, and the inside if nobody holds the gate.
    #[inline]
    pub fn both(&mut self) -> (&mut F, Option<&mut I>) {
        let (front, inside) = (self.gate.front.look(), self.is_free());
        let inside = inside.then(|| self.gate.inside());
        // SAFETY: this is the one who has the lock, and `self` is borrowed for as long as the reference lives.
        #[expect(unsafe_code, reason = "the one crate where it is")]
        let front = unsafe { &mut *front };
        // SAFETY: nobody holds the gate, nobody can take it without the lock, and `self`, which has the lock, can neither
        // take it nor let the lock go while it is borrowed. The inside does not overlap with the front.
        #[expect(unsafe_code, reason = "the one crate where it is")]
        let inside = inside.map(|inside| unsafe { &mut *inside });
        (front, inside)
    }

    /// Takes the gate, if nobody holds it. Others see that once the lock is let go, in the same store.
    #[inline]
    pub fn take(&mut self) -> Option<Taken<'a, F, I>> {
        if !self.is_free() {
            return None;
        }
        self.after |= TAKEN;
        Some(Taken { gate: self.gate })
    }

    /// Leaves a note for whoever holds the gate, also when that began here.
    #[inline]
    pub const fn note(&mut self) {
        if self.after & TAKEN != 0 {
            self.after |= NOTED;
        }
    }

    /// Takes back all notes, this one's too: the one who holds the gate has seen what there is at the front.
    ///
    /// # Panics
    /// If `by` holds another gate.
    #[inline]
    pub fn seen(&mut self, by: &Taken<'_, F, I>) {
        assert!(std::ptr::eq(self.gate, by.gate), "seen at another gate");
        self.after &= !NOTED;
    }
}

impl<F, I> Front<'_, F, I> {
    /// The right to this gate is gone.
    #[inline]
    pub(crate) fn let_go(&mut self, gate: *const Gate<F, I>) {
        assert!(
            std::ptr::eq(self.gate, gate),
            "a gate is let go at its own front"
        );
        self.after &= !STATE;
    }
}

impl<F, I> Deref for Front<'_, F, I> {
    type Target = F;

    #[inline]
    fn deref(&self) -> &F {
        let front = self.gate.front.look();
        // SAFETY: this is the one who has the lock, and whoever borrows mutably borrows `self` so.
        #[expect(unsafe_code, reason = "the one crate where it is")]
        unsafe {
            &*front
        }
    }
}

impl<F, I> DerefMut for Front<'_, F, I> {
    #[inline]
    fn deref_mut(&mut self) -> &mut F {
        self.both().0
    }
}

impl<F, I> Drop for Front<'_, F, I> {
    #[inline]
    fn drop(&mut self) {
        // A plain store: while the lock is taken others only add to it, and those additions go with it.
        self.gate.word.store(self.after, Ordering::Release);
    }
}

impl<F, I> fmt::Debug for Front<'_, F, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front")
            .field("is_free", &self.is_free())
            .finish_non_exhaustive()
    }
}

/// The right to run, as long as its gate is borrowed. Dropped without a release, it leaves the gate taken for ever.
#[must_use = "a gate that is not let go stays taken"]
pub struct Taken<'a, F, I> {
    gate: &'a Gate<F, I>,
}

impl<'a, F, I> Taken<'a, F, I> {
    /// The right that a [`crate::Held`] stood for.
    pub(crate) const fn of(gate: &'a Gate<F, I>) -> Self {
        Self { gate }
    }

    pub(crate) const fn gate(&self) -> &'a Gate<F, I> {
        self.gate
    }

    /// What only the one who holds the gate sees.
    #[inline]
    pub fn inside(&mut self) -> &mut I {
        let inside = self.gate.inside();
        // SAFETY: there is one `Taken` or `Held` of a gate at a time: `take` and `Held::open` make one, each of what stands
        // for nobody or for the value that they take, and whoever has the lock looks inside only while there is none.
        // `self` is borrowed mutably for as long as the reference lives.
        #[expect(unsafe_code, reason = "the one crate where it is")]
        unsafe {
            &mut *inside
        }
    }

    /// Lets the gate go with one atomic operation, if nobody is or has been at the front.
    ///
    /// # Errors
    /// Gives the right back: look at the front under the lock, and let go there.
    #[inline]
    pub fn try_release(self) -> Result<(), Self> {
        let released =
            self.gate
                .word
                .compare_exchange(TAKEN, 0, Ordering::Release, Ordering::Relaxed);
        released.map(|_| ()).map_err(|_| self)
    }

    /// Lets the gate go, once the lock is.
    ///
    /// # Panics
    /// If `front` is that of another gate.
    #[inline]
    pub fn release(self, front: &mut Front<'_, F, I>) {
        front.let_go(self.gate);
    }
}

impl<F, I> fmt::Debug for Taken<'_, F, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken").finish_non_exhaustive()
    }
}
