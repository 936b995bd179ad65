//! A kind of lane: what all lanes of one registered type share.

use std::fmt;
use std::sync::Arc;

use crate::core::Core;
use crate::engine::Shared;
use crate::host::AnyLane;
use crate::lane::Lane;
use crate::limits::LaneLimits;
use crate::owner::Owner;
use crate::signal::Boundaries;
use crate::sync::Ordering;

/// Whether the gate of a lane is one that turns may give up while they wait (EX-33).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by EX-33")]
pub enum GateUse {
    /// Entry Spots and their Actors, `PerActor` Spots, their Actors and timers, sessions.
    #[default]
    Own,
    /// `SpotWide` User Spots and Instance Spots.
    Shared,
}

/// Lanes of one registered type on one engine: their limits and their gate, chosen once (EX-24).
pub struct Kind<O: Owner> {
    pub(crate) inner: Arc<KindInner<O>>,
}

pub(crate) struct KindInner<O: Owner> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) limits: LaneLimits,
    pub(crate) gate: GateUse,
    boundaries: Boundaries,
    /// After how many ended items those who wait for room are served.
    pub(crate) serve_after: u64,
    owner: std::marker::PhantomData<fn() -> O>,
}

impl<O: Owner> KindInner<O> {
    /// Only behind a shared gate, for `SpotWide` Spots, does the application signal (RL-205).
    pub(crate) fn boundaries(&self) -> Boundaries {
        match self.gate {
            GateUse::Shared => self.boundaries,
            GateUse::Own => Boundaries::FrameworkManaged,
        }
    }
}

impl<O: Owner> Kind<O> {
    pub(crate) fn new(shared: Arc<Shared>, limits: LaneLimits, gate: GateUse) -> Self {
        Self::make(shared, limits, gate, Boundaries::default())
    }

    pub(crate) fn with_boundaries(self, boundaries: Boundaries) -> Self {
        let KindInner {
            shared,
            limits,
            gate,
            ..
        } = &*self.inner;
        Self::make(Arc::clone(shared), *limits, *gate, boundaries)
    }

    fn make(
        shared: Arc<Shared>,
        limits: LaneLimits,
        gate: GateUse,
        boundaries: Boundaries,
    ) -> Self {
        let serve_after = (limits.application.items_max / 4).clamp(1, 256);
        let owner = std::marker::PhantomData;
        Self {
            inner: Arc::new(KindInner {
                shared,
                limits,
                gate,
                boundaries,
                serve_after,
                owner,
            }),
        }
    }

    /// Makes a lane. It occupies memory and nothing else until work arrives (EX-28).
    pub fn lane(&self, owner: O) -> Lane<O> {
        Lane {
            core: self.core(owner),
        }
    }

    pub(crate) fn core(&self, owner: O) -> Arc<Core<O>> {
        let shared = &self.inner.shared;
        let core = Arc::new(Core::new(
            Arc::clone(&self.inner),
            shared.next_lane_id(),
            owner,
        ));
        let weak = Arc::downgrade(&core);
        let key = shared.registry.add(weak);
        core.registered.store(key, Ordering::Relaxed);
        if shared.is_stopping() {
            // It is new, so no move holds it.
            core.close().ok();
        }
        core
    }
}

impl<O: Owner> Clone for Kind<O> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<O: Owner> fmt::Debug for Kind<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind")
            .field("limits", &self.inner.limits)
            .field("gate", &self.inner.gate)
            .finish_non_exhaustive()
    }
}
