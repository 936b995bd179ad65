//! Moving everything that a host has to other nodes (RL-180 to RL-217).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spotlane_types::count::ApplicationVersion;
use spotlane_types::id::{NodeRid, StableType};
use spotlane_types::kind::RelocationPolicyKind;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::moving;
use crate::clock::Deadline;
use crate::core::Core;
use crate::directory;
use crate::error::{Error, ErrorKind};
use crate::slots::Live;
use crate::state::HostState;

/// Why a host is emptied (RL-180).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-180")]
pub enum RelocateMode {
    /// To nodes of the same application version.
    PlannedMaintenance,
    /// To nodes of a newer one.
    RollingUpdate {
        /// Their version; above that of this host.
        target_version: ApplicationVersion,
    },
}

impl RelocateMode {
    const fn label(self) -> &'static str {
        match self {
            Self::PlannedMaintenance => "planned_maintenance",
            Self::RollingUpdate { .. } => "rolling_update",
        }
    }
}

/// What became of it (RL-182).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-182")]
pub enum RelocateOutcome {
    /// Every unit has left: this host serves nothing any more (RL-210).
    Relocated,
    /// At least one stayed; the host serves again what did not leave (RL-212).
    Blocked(BlockReason),
}

/// Why a host was not emptied; the first cause that stopped it (RL-211).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-182")]
#[repr(u8)]
pub enum BlockReason {
    /// No node could take it all.
    TargetUnavailable = 1,
    /// The store did not answer.
    StoreUnavailable = 2,
    /// A type does not move.
    RelocationDisabled = 3,
    /// A state could not be captured or restored.
    StateIncompatible = 4,
    /// The deadline came first.
    DeadlineExceeded = 5,
    /// A target said no.
    RelocationFailed = 6,
    /// The host is not serving.
    RuntimeNotReady = 7,
    /// A part of the topology was configured by hand and cannot follow.
    ManualTopologyUnsupported = 8,
    /// The host shuts down.
    ShutdownRequested = 9,
    /// Another relocation of this host is going on.
    OperationInProgress = 10,
}

impl BlockReason {
    const fn label(self) -> &'static str {
        match self {
            Self::TargetUnavailable => "target_unavailable",
            Self::StoreUnavailable => "store_unavailable",
            Self::RelocationDisabled => "relocation_disabled",
            Self::StateIncompatible => "state_incompatible",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::RelocationFailed => "relocation_failed",
            Self::RuntimeNotReady => "runtime_not_ready",
            Self::ManualTopologyUnsupported => "manual_topology_unsupported",
            Self::ShutdownRequested => "shutdown_requested",
            Self::OperationInProgress => "operation_in_progress",
        }
    }
}

/// The result of emptying a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostRelocation {
    /// What was asked for.
    pub mode: RelocateMode,
    /// The version that the targets had to have.
    pub target_version: ApplicationVersion,
    /// What became of it.
    pub outcome: RelocateOutcome,
}

impl HostRelocation {
    /// Whether everything has left.
    pub const fn is_relocated(&self) -> bool {
        matches!(self.outcome, RelocateOutcome::Relocated)
    }
}

/// The one relocation of a host that is going on, or the one that emptied it.
#[derive(Default)]
pub(crate) struct HostMove {
    /// A leaf lock.
    running: Mutex<Option<Running>>,
}

struct Running {
    mode: RelocateMode,
    result: watch::Receiver<Option<HostRelocation>>,
}

/// Empties the host, or shares the operation that does (RL-214 to RL-217).
///
/// # Errors
/// `InvalidOperation`: the target version is not above that of the host (RL-180).
pub(crate) async fn run(
    core: &Arc<Core>,
    mode: RelocateMode,
    within: Duration,
) -> Result<HostRelocation, Error> {
    let own = core.settings.all.application_version;
    let version = match mode {
        RelocateMode::PlannedMaintenance => own,
        RelocateMode::RollingUpdate { target_version } if target_version > own => target_version,
        RelocateMode::RollingUpdate { target_version } => {
            return Err(Error::invalid(format!(
                "the target version is {target_version}, must be above {own}"
            )));
        }
    };
    let blocked = |reason| HostRelocation {
        mode,
        target_version: version,
        outcome: RelocateOutcome::Blocked(reason),
    };
    let Some(mut result) = join_or_begin(core, mode, version, within) else {
        return Ok(blocked(BlockReason::OperationInProgress));
    };
    let done = result
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|done| *done);
    Ok(done.unwrap_or_else(|| blocked(BlockReason::ShutdownRequested)))
}

fn join_or_begin(
    core: &Arc<Core>,
    mode: RelocateMode,
    version: ApplicationVersion,
    within: Duration,
) -> Option<watch::Receiver<Option<HostRelocation>>> {
    let mut running = core
        .host_move
        .running
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = &*running {
        let done = *found.result.borrow();
        // RL-216: the first result once it is empty; RL-212: a blocked one is not kept.
        let over = done.is_some_and(|done| !done.is_relocated());
        if !over {
            let same = found.mode == mode || done.is_some();
            return same.then(|| found.result.clone());
        }
    }
    let (sender, result) = watch::channel(None);
    *running = Some(Running {
        mode,
        result: result.clone(),
    });
    drop(running);
    let task = Arc::clone(core);
    core.tasks.spawn(async move {
        let deadline = task.deadline(within);
        let began = task.clock.elapsed();
        let outcome = match empty(&task, version, &deadline).await {
            Ok(()) => RelocateOutcome::Relocated,
            Err(reason) => RelocateOutcome::Blocked(reason),
        };
        report(&task, mode, outcome, began);
        sender.send_replace(Some(HostRelocation {
            mode,
            target_version: version,
            outcome,
        }));
    });
    Some(result)
}

/// Preflight, which changes nothing; then everything at once (RL-183 to RL-194).
async fn empty(
    core: &Arc<Core>,
    version: ApplicationVersion,
    deadline: &Deadline,
) -> Result<(), BlockReason> {
    match core.state.get() {
        HostState::Serving => {}
        HostState::Relocated => return Ok(()),
        HostState::Draining => return Err(BlockReason::ShutdownRequested),
        _ => return Err(BlockReason::RuntimeNotReady),
    }
    preflight(core, version, deadline).await?;
    announce(core, deadline).await?;
    // RL-192: read once; no placement is admitted from here on, and what was admitted before is there (RL-185).
    let left = deadline.left().unwrap_or_default();
    let settled = tokio::time::timeout(left, core.capacity.settled()).await;
    let units = core.slots.all_live();
    let moved = match settled {
        Ok(()) => move_all(core, units, version, deadline).await,
        Err(_) => Err(BlockReason::DeadlineExceeded),
    };
    let next = match moved {
        Ok(()) => HostState::Relocated,
        // RL-212
        Err(_) => HostState::Serving,
    };
    core.state.advance(next);
    let within = deadline
        .left()
        .unwrap_or_default()
        .max(core.settings.lease.renew_timeout());
    if let Err(error) = directory::publish(core, within).await {
        tracing::warn!(target: "spotlane::runtime::host", %error, "the descriptor was not published");
    }
    moved
}

async fn preflight(
    core: &Core,
    version: ApplicationVersion,
    deadline: &Deadline,
) -> Result<(), BlockReason> {
    let name = core.identity.descriptor_name();
    let own = core.repository.candidate(&name, deadline.location()).await;
    if !matches!(own, Ok(Some(_))) {
        return Err(BlockReason::StoreUnavailable);
    }
    let units = core.slots.all_live();
    let fixed = |live: &Arc<Live>| live.unit.actor_type.policy == RelocationPolicyKind::Disabled;
    if units.iter().any(fixed) {
        return Err(BlockReason::RelocationDisabled);
    }
    // RL-188, RL-190: nothing to move needs no target; otherwise it is waited for, still serving.
    for live in units {
        let stable_type = &live.unit.actor_type.name;
        while moving::pick_target(core, stable_type, version).is_none() {
            let left = deadline.left().ok_or(BlockReason::TargetUnavailable)?;
            tokio::time::sleep(core.settings.all.polling_interval.min(left)).await;
        }
    }
    Ok(())
}

/// RL-191: a state that could not be published is taken back.
async fn announce(core: &Core, deadline: &Deadline) -> Result<(), BlockReason> {
    if !core.state.advance(HostState::Relocating) {
        return Err(BlockReason::ShutdownRequested);
    }
    let left = deadline.left().ok_or(BlockReason::DeadlineExceeded)?;
    let published = directory::publish(core, left.min(core.settings.lease.ttl())).await;
    if let Err(error) = published {
        tracing::warn!(target: "spotlane::runtime::host", %error, "the descriptor was not published");
        core.state.advance(HostState::Serving);
        return Err(BlockReason::StoreUnavailable);
    }
    Ok(())
}

/// RL-193: there are Entry Spot Actors only, so there is one batch. RL-194: nothing limits it but the budget.
async fn move_all(
    core: &Arc<Core>,
    units: Vec<Arc<Live>>,
    version: ApplicationVersion,
    deadline: &Deadline,
) -> Result<(), BlockReason> {
    let mut units_on_the_way = JoinSet::new();
    for live in units {
        let (core, deadline) = (Arc::clone(core), *deadline);
        units_on_the_way.spawn(async move {
            let stable_type: &StableType = &live.unit.actor_type.name;
            let target: NodeRid = moving::pick_target(&core, stable_type, version)
                .ok_or(BlockReason::TargetUnavailable)?;
            let moved = moving::relocate_to(&core, live.unit.id(), &target, version, deadline);
            match moved.await {
                Ok(()) => Ok(()),
                // It ended meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                // RL-148: a Join that came first has taken it away.
                Err(_) if !live.is_in(&core.slots) => Ok(()),
                Err(error) => Err(reason_of(&error)),
            }
        });
    }
    let mut first = Ok(());
    while let Some(moved) = units_on_the_way.join_next().await {
        let moved = moved.unwrap_or(Err(BlockReason::RelocationFailed));
        // RL-195, RL-211: the others go on to their own end; the first cause is reported.
        first = first.and(moved);
    }
    first
}

/// RL-211
fn reason_of(error: &Error) -> BlockReason {
    match error.kind() {
        ErrorKind::DeadlineExceeded => BlockReason::DeadlineExceeded,
        ErrorKind::ShuttingDown => BlockReason::ShutdownRequested,
        ErrorKind::InternalFailure => BlockReason::StateIncompatible,
        ErrorKind::Rejected => BlockReason::RelocationDisabled,
        _ => BlockReason::RelocationFailed,
    }
}

fn report(core: &Core, mode: RelocateMode, outcome: RelocateOutcome, began: Duration) {
    let took = core.clock.elapsed().saturating_sub(began);
    let label = match outcome {
        RelocateOutcome::Relocated => "relocated",
        RelocateOutcome::Blocked(_) => "blocked",
    };
    // RL-337
    metrics::histogram!(
        "zlink.host.relocation.duration",
        "mode" => mode.label(),
        "outcome" => label
    )
    .record(took.as_secs_f64());
    if let RelocateOutcome::Blocked(reason) = outcome {
        metrics::counter!("zlink.host.relocation.blocked", "reason" => reason.label()).increment(1);
    }
    // RL-326
    tracing::info!(
        target: "spotlane::runtime::host",
        mode = mode.label(),
        outcome = label,
        "zlink.runtime.host.relocation_changed"
    );
}

impl fmt::Debug for HostMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMove").finish_non_exhaustive()
    }
}
