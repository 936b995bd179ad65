//! Effects in one line each, for tests.

use spotlane_wire::Record;

use super::PendingRequest;
use super::sample::text_of;
use crate::source::{SourceEffect, SourcePoint};
use crate::target::{BacklogItem, LifecycleStep, TargetEffect, TargetPoint};

pub(crate) fn record(record: &Record) -> String {
    match record {
        Record::RelocationPrepare(_) => "40".to_owned(),
        Record::RelocationState(chunk) => format!("52#{}", chunk.chunk_ordinal),
        Record::RelocationReady(_) => "30".to_owned(),
        Record::RelocationFailed(failed) => format!("53 {}", failed.failure_code.name()),
        Record::RelocationData(data) => format!("31 {}", text_of(&data.record)),
        Record::RelocationCutover(cutover) => {
            format!("34 of {}", cutover.boundary_record_count)
        }
        Record::SessionRelocationSeal(seal) => format!("42 #{}", seal.binding_generation),
        Record::SessionRelocationRoute(route) => {
            format!(
                "44 #{} {}",
                route.binding_generation,
                route.route.kind().name()
            )
        }
        Record::ActorLeft(_) => "29".to_owned(),
        other => format!("{other:?}"),
    }
}

fn requests(requests: &[PendingRequest]) -> String {
    format!("{}", requests.len())
}

pub(crate) fn source(effect: &SourceEffect) -> String {
    match effect {
        SourceEffect::SendToSession { record: sent, .. } => format!("session {}", record(sent)),
        SourceEffect::Send {
            connection,
            record: sent,
        } => format!("@{} {}", connection.get(), record(sent)),
        SourceEffect::SubmitCutover {
            connection,
            record: sent,
        } => format!("@{} submit {}", connection.get(), record(sent)),
        SourceEffect::Capture(_) => "Capture".to_owned(),
        SourceEffect::AwaitChunk { .. } => "AwaitChunk".to_owned(),
        SourceEffect::RestoreQueue { held } => {
            format!(
                "RestoreQueue {:?}",
                held.iter().map(text_of).collect::<Vec<_>>()
            )
        }
        SourceEffect::FollowTo { .. } => "FollowTo".to_owned(),
        SourceEffect::Forward(forwarded) => format!("Forward {}", text_of(forwarded)),
        SourceEffect::EndRequests(ended) => format!("EndRequests {}", requests(ended)),
        SourceEffect::Reached(SourcePoint::S1 { target, .. }) => format!("S1 {target:?}"),
        SourceEffect::Reached(SourcePoint::S4 { .. }) => "S4".to_owned(),
        SourceEffect::Reached(SourcePoint::S0) => "S0".to_owned(),
        other => format!("{other:?}"),
    }
}

pub(crate) fn item(item: &BacklogItem<String>) -> String {
    match item {
        BacklogItem::Saved(entry) => format!("saved {}", text_of(&entry.record)),
        BacklogItem::Tick(tick) => format!("tick {}", tick.timer_name.as_str()),
        BacklogItem::Relay(relayed) => format!("relay {}", text_of(relayed)),
        BacklogItem::Direct(message) => format!("direct {message}"),
    }
}

pub(crate) fn target(effect: &TargetEffect<String>) -> String {
    match effect {
        TargetEffect::Send {
            connection,
            record: sent,
        } => format!("@{} {}", connection.get(), record(sent)),
        TargetEffect::Restore(order) => format!("Restore {}", order.states.len()),
        TargetEffect::Commit(_) => "Commit".to_owned(),
        TargetEffect::Merge(items) => {
            format!("Merge {:?}", items.iter().map(item).collect::<Vec<_>>())
        }
        TargetEffect::RunLifecycle(LifecycleStep::Joined(_)) => "Run Joined".to_owned(),
        TargetEffect::RunLifecycle(LifecycleStep::JoinCompleted(_)) => {
            "Run JoinCompleted".to_owned()
        }
        TargetEffect::Open(_) => "Open".to_owned(),
        TargetEffect::SendToNode { record: sent, .. } => format!("node {}", record(sent)),
        TargetEffect::Deliver(relayed) => format!("Deliver {}", text_of(relayed)),
        TargetEffect::Forward(relayed) => format!("Forward {}", text_of(relayed)),
        TargetEffect::Remove { arrivals } => format!("Remove {arrivals:?}"),
        TargetEffect::Reached(TargetPoint::S2) => "S2".to_owned(),
        TargetEffect::Reached(TargetPoint::S3 { .. }) => "S3".to_owned(),
        TargetEffect::AdmitJoin(_) => "AdmitJoin".to_owned(),
        TargetEffect::AcceptJoin { .. } => "AcceptJoin".to_owned(),
        TargetEffect::RefuseJoin(_) => "RefuseJoin".to_owned(),
        other => format!("{other:?}"),
    }
}
