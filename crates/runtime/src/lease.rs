//! The owner lease of this host: claimed, renewed, and asked before anything starts (RL-280 to RL-286).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, Weak};
use std::time::Duration;

use spotlane_location::LocationError;
use spotlane_location::lease::{HeldLease, LeaseKeeper};
use spotlane_store::{BoxedStore, Recovery};
use spotlane_types::generation::OwnerLeaseGeneration;
use spotlane_types::id::MeshName;

use crate::clock::{HostClock, HostTiming};
use crate::core::Core;
use crate::error::Error;
use crate::state::HostState;

/// What the host holds, and until when.
pub(crate) struct OwnLease {
    keeper: LeaseKeeper<BoxedStore, HostTiming>,
    held: RwLock<Option<HeldLease>>,
    /// The deadline once more, for the message path: nanoseconds of the host's clock, 0 for none.
    deadline: AtomicU64,
    /// The generation of what is held once more, for the message path; 0 for nothing.
    generation: AtomicU64,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl OwnLease {
    pub(crate) fn new(keeper: LeaseKeeper<BoxedStore, HostTiming>) -> Self {
        Self {
            keeper,
            held: RwLock::new(None),
            deadline: AtomicU64::new(0),
            generation: AtomicU64::new(0),
        }
    }

    /// Whether this is the generation of the lease that is held.
    pub(crate) fn is_of(&self, generation: OwnerLeaseGeneration) -> bool {
        self.generation.load(Ordering::Acquire) == generation.get()
    }

    /// RL-283: one deadline per host.
    pub(crate) fn admits(&self, clock: HostClock) -> bool {
        nanos(clock.elapsed()) < self.deadline.load(Ordering::Acquire)
    }

    /// How long the deadline is away; zero past it.
    pub(crate) fn admits_for(&self, clock: HostClock) -> Duration {
        let deadline = Duration::from_nanos(self.deadline.load(Ordering::Acquire));
        deadline.saturating_sub(clock.elapsed())
    }

    pub(crate) fn held(&self) -> Option<HeldLease> {
        self.held
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The deadline as timers count; the origin when nothing is admitted.
    pub(crate) fn timers_until(&self) -> spotlane_lane::Monotonic {
        let deadline = Duration::from_nanos(self.deadline.load(Ordering::Acquire));
        spotlane_lane::Monotonic::from_origin(deadline)
    }

    fn keep(&self, held: HeldLease) {
        let deadline = nanos(held.deadline().since(spotlane_location::Monotonic::ORIGIN));
        let generation = held.lease().generation();
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = Some(held);
        self.generation.store(generation.get(), Ordering::Release);
        self.deadline.store(deadline, Ordering::Release);
    }

    fn lose(&self) {
        self.deadline.store(0, Ordering::Release);
    }

    /// The first claim (RL-285): `Ok` also when the store did not confirm in time; then nothing is admitted yet.
    ///
    /// # Errors
    /// A conflict or an exhausted counter: the host does not start.
    pub(crate) async fn claim(&self, mesh: &MeshName) -> Result<(), LocationError> {
        match self.keeper.claim().await {
            Ok(held) => {
                self.keep(held);
                Ok(())
            }
            Err(error) if may_pass(&error) => {
                report_failure(mesh, &error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the lease up at the end of the host.
    pub(crate) async fn release(&self) -> Result<(), Error> {
        self.lose();
        self.generation.store(0, Ordering::Release);
        let held = self
            .held
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match held {
            Some(held) => Ok(self.keeper.release(held).await?),
            None => Ok(()),
        }
    }
}

/// Whether calling again later is right.
fn may_pass(error: &LocationError) -> bool {
    let unsettled = matches!(error, LocationError::Indeterminate { .. });
    unsettled || error.recovery() == Recovery::Retry
}

/// RL-339
fn report_failure(mesh: &MeshName, error: &LocationError) {
    metrics::counter!(
        "zlink.location.owner_lease.renew.failures",
        "scope_kind" => "mesh",
        "scope_name" => mesh.as_str().to_owned()
    )
    .increment(1);
    tracing::warn!(target: "spotlane::runtime::lease", %error, "the owner lease was not renewed");
}

/// RL-339: how much later than planned a renewal began.
fn report_lateness(mesh: &MeshName, lateness: Duration) {
    metrics::histogram!(
        "zlink.location.owner_lease.renew.lateness",
        "scope_kind" => "mesh",
        "scope_name" => mesh.as_str().to_owned()
    )
    .record(lateness.as_secs_f64());
}

/// EX-243, SB-15: timers and the routes of sessions count with the deadline that holds now, a lost lease's included.
fn tell(core: &Core) {
    core.sessions.admit_for(core.lease.admits_for(core.clock));
    let until = core.lease.timers_until();
    for live in core.slots.all_live() {
        live.unit.admit_timers_until(until);
    }
}

/// Claims or renews once per interval, counted from start to start (RL-282), until the host is gone.
pub(crate) async fn keep_renewing(core: Weak<Core>) {
    let (mut wait, mut planned) = (Duration::ZERO, None::<Duration>);
    loop {
        let interval = {
            let Some(core) = core.upgrade() else { return };
            let settings = &core.settings.lease;
            wait = wait.min(settings.renew_interval());
            settings.renew_interval()
        };
        tokio::time::sleep(interval.saturating_sub(wait)).await;
        let Some(core) = core.upgrade() else { return };
        let started = core.clock.elapsed();
        if let Some(planned) = planned.replace(started.saturating_add(interval)) {
            report_lateness(&core.identity.mesh, started.saturating_sub(planned));
        }
        let held = core.lease.held();
        let renewed = match &held {
            Some(held) => core.lease.keeper.renew(held).await,
            None => core.lease.keeper.claim().await,
        };
        match renewed {
            Ok(held) => {
                core.lease.keep(held);
                tell(&core);
            }
            Err(error) if may_pass(&error) => report_failure(&core.identity.mesh, &error),
            Err(error) => {
                // RL-284: the store shows another run; nothing starts here any more.
                core.lease.lose();
                tell(&core);
                tracing::error!(target: "spotlane::runtime::lease", %error, "the owner lease is lost");
                core.state.advance(HostState::Error);
                return;
            }
        }
        wait = core.clock.elapsed().saturating_sub(started);
    }
}
