//! What moves report: points of measurement, stages, and the closed list of diagnostics (RL-320 to RL-346).

use spotlane_relocation::diagnostic::{Diagnostic, Level};
use spotlane_relocation::source::{InterruptionTarget, SourcePoint, SourceStage};
use spotlane_relocation::target::{TargetPoint, TargetStage};
use spotlane_types::id::ActorId;

/// The only kind of unit so far; `UnitKind::label` has the others.
const UNIT_KIND: &str = "actor";

/// RL-325: warnings and errors with the contract's names, without ids (RL-331).
pub(super) fn diagnose(diagnostic: Diagnostic) {
    let name = diagnostic.name();
    if diagnostic == Diagnostic::CutoverTimeout {
        // RL-335
        metrics::counter!("zlink.relocation.cutover_timeout", "unit_kind" => UNIT_KIND)
            .increment(1);
    }
    match diagnostic.level() {
        Level::Warning => {
            tracing::warn!(target: "spotlane::runtime::relocation", unit_kind = UNIT_KIND, "{name}");
        }
        Level::Error => {
            tracing::error!(target: "spotlane::runtime::relocation", unit_kind = UNIT_KIND, "{name}");
        }
    }
}

/// RL-325
pub(super) fn source_stage(stage: SourceStage) {
    tracing::info!(
        target: "spotlane::runtime::relocation",
        role = "source",
        phase = ?stage,
        unit_kind = UNIT_KIND,
        "zlink.runtime.relocation.changed"
    );
}

/// RL-325
pub(super) fn target_stage(stage: TargetStage) {
    tracing::info!(
        target: "spotlane::runtime::relocation",
        role = "target",
        phase = ?stage,
        unit_kind = UNIT_KIND,
        "zlink.runtime.relocation.changed"
    );
}

/// RL-332, RL-334, RL-341, RL-342, RL-345: on the source's clock alone (RL-346).
pub(super) fn source_point(point: SourcePoint) {
    match point {
        SourcePoint::S0 => {}
        SourcePoint::S1 {
            interruption,
            target,
        } => {
            metrics::histogram!("zlink.relocation.interruption", "unit_kind" => UNIT_KIND)
                .record(interruption.as_secs_f64());
            if target == InterruptionTarget::Exceeded {
                tracing::warn!(
                    target: "spotlane::runtime::relocation",
                    unit_kind = UNIT_KIND,
                    interruption_target_exceeded = true,
                    duration_ms = u64::try_from(interruption.as_millis()).unwrap_or(u64::MAX),
                    "zlink.runtime.relocation.changed"
                );
            }
        }
        SourcePoint::S4 { convergence } => {
            if let Some(convergence) = convergence {
                metrics::histogram!("zlink.relocation.route_convergence", "unit_kind" => UNIT_KIND)
                    .record(convergence.as_secs_f64());
            }
        }
    }
}

/// RL-333, RL-343, RL-344: on the target's clock alone (RL-346).
pub(super) fn target_point(point: TargetPoint) {
    if let TargetPoint::S3 { resume } = point {
        metrics::histogram!("zlink.relocation.target_resume", "unit_kind" => UNIT_KIND)
            .record(resume.as_secs_f64());
    }
}

/// RL-341, RL-344: where nobody serves an object any more, and where somebody serves it again. Ids stand in traces only
/// (RL-331); who runs both hosts in one process can tell from these how long callers had to wait.
pub(super) fn point(actor: &ActorId, point: &'static str) {
    tracing::trace!(target: "spotlane::runtime::relocation::point", actor_id = %actor, point);
}

/// RL-336: a move has begun.
pub(super) fn started(mesh: &str, policy: &'static str) {
    metrics::counter!(
        "zlink.relocation.started",
        "mesh_name" => mesh.to_owned(),
        "object_kind" => "actor",
        "policy" => policy
    )
    .increment(1);
}

/// RL-336: a move has ended as far as its source is concerned.
pub(super) fn completed(
    mesh: &str,
    policy: &'static str,
    outcome: &'static str,
    took: std::time::Duration,
) {
    let mesh = mesh.to_owned();
    metrics::counter!(
        "zlink.relocation.completed",
        "mesh_name" => mesh.clone(),
        "object_kind" => "actor",
        "policy" => policy,
        "outcome" => outcome
    )
    .increment(1);
    metrics::histogram!(
        "zlink.relocation.duration",
        "mesh_name" => mesh,
        "object_kind" => "actor",
        "policy" => policy,
        "outcome" => outcome
    )
    .record(took.as_secs_f64());
}

/// RL-336: how large what moved was.
#[expect(clippy::cast_precision_loss, reason = "a histogram takes floats")]
pub(super) fn bytes(mesh: &str, policy: &'static str, bytes: u64) {
    metrics::histogram!(
        "zlink.relocation.bytes",
        "mesh_name" => mesh.to_owned(),
        "object_kind" => "actor",
        "policy" => policy
    )
    .record(bytes as f64);
}
