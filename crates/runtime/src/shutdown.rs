//! The orderly end of a host (RL-220 to RL-224).

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Deadline;
use crate::core::Core;
use crate::error::Error;
use crate::state::HostState;
use crate::{destroy, directory, entry, placement};

/// How a shutdown ended (RL-220). The host is stopped either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-220")]
pub enum Shutdown {
    /// Everything ended in order.
    Stopped,
    /// Something did not.
    ForceStopped(ForceReason),
}

/// Why a host was stopped by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-220")]
pub enum ForceReason {
    /// Accepted work did not end in time; what was left ended with `ShuttingDown`.
    DeadlineExceeded,
    /// The Entry Spot did not close well, or a row, descriptor or lease could not be released; that ends with the lease.
    TeardownFailed,
}

/// Runs the shutdown once; whoever calls again gets its result.
pub(crate) async fn run(core: &Arc<Core>, deadline: Duration) -> Shutdown {
    let (task, done) = (Arc::clone(core), core.shutdown.subscribe());
    if core.begin_shutdown() {
        // Owned by the runtime and not by the host's tasks, which it ends.
        core.tasks.spawn_apart(async move {
            let outcome = end(&task, deadline).await;
            task.shutdown.send_replace(Some(outcome));
        });
    }
    let mut done = done;
    let outcome = done.wait_for(Option::is_some).await.map(|outcome| *outcome);
    outcome
        .ok()
        .flatten()
        .unwrap_or(Shutdown::ForceStopped(ForceReason::TeardownFailed))
}

async fn end(core: &Arc<Core>, within: Duration) -> Shutdown {
    let started = core.clock.elapsed();
    let deadline = core.deadline(within);
    // Draining first: admission is closed (EX-105), then everybody is told.
    core.state.advance(HostState::Draining);
    core.moves.shut_down();
    // RL-229: sessions end in order before the lanes do.
    core.sessions.drain(left(&deadline) / 2).await;
    let mut clean = attempt("publish", directory::publish(core, left(&deadline))).await;
    // RL-148: a Join that came first has its terminal, and its Actor is told, while lanes take lifecycle work.
    let _in_time = tokio::time::timeout(left(&deadline), core.joins.settled()).await;
    // RL-227: what was accepted before comes to its end, and is released with the rest.
    let _in_time = tokio::time::timeout(left(&deadline), core.capacity.settled()).await;
    let grace = tokio::time::sleep(left(&deadline));
    entry::drain_host(core, grace).await;
    // RL-221: members and instances are there; only then they go.
    clean &= entry::closing(core, deadline).await;
    core.engine.shutdown(std::future::ready(())).await;
    // RL-267: what was answered has to reach its callers.
    let confirmed = core.pending.all_confirmed();
    let _in_time = tokio::time::timeout(left(&deadline), confirmed).await;
    let late = deadline.left().is_none();
    // The lease goes on until the rows are released (RL-221), so there is time for that after the deadline too.
    let teardown = core.deadline(left(&deadline).max(TEARDOWN_MIN));
    for live in core.slots.all_live() {
        live.unit.cancel_timers();
        let release = destroy::release(core, &live, &teardown);
        clean &= attempt("release", release).await;
        core.slots.remove_live(&live);
        placement::went();
    }
    clean &= attempt("withdraw", withdraw(core, &teardown)).await;
    clean &= attempt("lease", core.lease.release()).await;
    if let Some(mesh) = core.mesh.get() {
        mesh.shutdown(left(&teardown)).await;
    }
    core.sessions.end();
    core.tasks.end().await;
    core.state.advance(HostState::Stopped);
    let outcome = match (late, clean) {
        (true, _) => Shutdown::ForceStopped(ForceReason::DeadlineExceeded),
        (false, false) => Shutdown::ForceStopped(ForceReason::TeardownFailed),
        (false, true) => Shutdown::Stopped,
    };
    report(core, outcome, started);
    outcome
}

/// Releasing rows after a late end has this long at least.
const TEARDOWN_MIN: Duration = Duration::from_secs(2);

fn left(deadline: &Deadline) -> Duration {
    deadline.left().unwrap_or_default()
}

async fn withdraw(core: &Core, deadline: &Deadline) -> Result<(), Error> {
    let Some(held) = core.lease.held() else {
        return Ok(());
    };
    let descriptor = directory::describe(core, held.lease().generation())?;
    Ok(core
        .repository
        .withdraw(&held, &descriptor, deadline.location())
        .await?)
}

async fn attempt(what: &'static str, step: impl Future<Output = Result<(), Error>>) -> bool {
    let done = step.await;
    if let Err(error) = &done {
        tracing::warn!(target: "spotlane::runtime::host", what, %error, "a step of the shutdown failed");
    }
    done.is_ok()
}

/// RL-327, RL-338
fn report(core: &Core, outcome: Shutdown, started: Duration) {
    let took = core.clock.elapsed().saturating_sub(started);
    let label = match outcome {
        Shutdown::Stopped => "stopped",
        Shutdown::ForceStopped(_) => "force_stopped",
    };
    metrics::histogram!("zlink.host.shutdown.duration", "outcome" => label)
        .record(took.as_secs_f64());
    if let Shutdown::ForceStopped(reason) = outcome {
        let reason = match reason {
            ForceReason::DeadlineExceeded => "deadline_exceeded",
            ForceReason::TeardownFailed => "teardown_failed",
        };
        metrics::counter!("zlink.host.shutdown.forced", "reason" => reason).increment(1);
    }
    tracing::info!(
        target: "spotlane::runtime::host",
        outcome = label,
        "zlink.runtime.host.termination_changed"
    );
}
