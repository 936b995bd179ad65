//! The session barrier of a relocation: frames, and what a receiver makes of a second one.

use serde_json::Value;
use spotlane_types::kind::MeshOperationKind;

use super::checks::valid_record;
use super::listed::{Rename, compare, lookup, stands_for};
use super::members::{Members, name_of};
use super::records::mutated;
use super::sheet::{Check, Sheet, same};

/// Where the fields that a frame lists stand in a seal and in its answer.
const SEAL: [Rename; 4] = [
    ("targetNodeRid", "actor.targetNodeRid"),
    ("targetNodeGeneration", "actor.targetNodeGeneration"),
    (
        "authorityOwnerGeneration",
        "actor.expectedAuthorityOwnerGeneration",
    ),
    ("ownerLeaseGeneration", "actor.expectedOwnerLeaseGeneration"),
];

/// The same for a route update.
const ROUTE: [Rename; 7] = [
    ("action", "route.action"),
    (
        "previousAuthorityOwnerGeneration",
        "route.previousAuthorityOwnerGeneration",
    ),
    (
        "currentAuthorityOwnerGeneration",
        "route.currentAuthorityOwnerGeneration",
    ),
    (
        "targetAuthorityOwnerGeneration",
        "route.targetAuthorityOwnerGeneration",
    ),
    ("targetNodeRid", "route.targetNodeRid"),
    ("targetNodeGeneration", "route.targetNodeGeneration"),
    (
        "targetOwnerLeaseGeneration",
        "route.targetOwnerLeaseGeneration",
    ),
];

/// The possible places of a value that all frames share; a frame has at most one of them.
fn places(member: &str) -> Vec<String> {
    let path = match member {
        "relocationHigh" => "relocation.high",
        "relocationLow" => "relocation.low",
        "coordinatorOwnerId"
        | "coordinatorLeaseGeneration"
        | "coordinatorNodeRid"
        | "coordinatorNodeGeneration"
        | "expectedAuthorityStoreVersion" => return vec![format!("coordinator.{member}")],
        "actorId" | "objectGeneration" => {
            return vec![format!("actor.actor.{member}"), format!("actor.{member}")];
        }
        "sourceNodeRid" => "actor.targetNodeRid",
        "sourceNodeGeneration" => "actor.targetNodeGeneration",
        "sourceOwnerLeaseGeneration" => "actor.expectedOwnerLeaseGeneration",
        "sourceAuthorityOwnerGeneration" => {
            let all = [
                "actor.expectedAuthorityOwnerGeneration",
                "route.previousAuthorityOwnerGeneration",
                "route.currentAuthorityOwnerGeneration",
            ];
            return all.map(str::to_owned).to_vec();
        }
        target if target.starts_with("target") => return vec![format!("route.{target}")],
        own => own,
    };
    vec![path.to_owned()]
}

/// The place of a shared value in this frame, if it has one.
fn place(member: &str, body: &Value) -> Option<String> {
    places(member)
        .into_iter()
        .find(|path| lookup(body, path).is_some())
}

/// Frames, and cases of a second frame.
pub(super) fn barrier(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    let identity = file
        .need("identity")?
        .as_object()
        .ok_or("identity is no object")?;
    let mut frames: Vec<(&str, Value)> = Vec::new();
    for (index, vector) in file.list("canonical")?.iter().enumerate() {
        sheet.case(&name_of(vector, index), || {
            let mut vector = Members::of(vector)?;
            let record = valid_record(&[vector.hex("hex")?], MeshOperationKind::None)?;
            same(
                "command",
                vector.number("command")?,
                record["command"].as_u64().unwrap_or(0),
            )?;
            let body = &record["body"];
            let renames: &[Rename] = if body["route"].is_object() {
                &ROUTE
            } else {
                &SEAL
            };
            compare(vector.need("decoded")?, body, renames)?;
            for (member, value) in identity {
                let Some(path) = place(member, body) else {
                    continue;
                };
                let found = lookup(body, &path).unwrap_or(&Value::Null);
                if !stands_for(member, value, found) {
                    return Err(format!(
                        "shared value `{member}`: {value}, got {found} at `{path}`"
                    ));
                }
            }
            frames.push((vector.text("name")?, record));
            vector.done()
        });
    }
    for member in identity.keys() {
        if !frames
            .iter()
            .any(|(_, record)| place(member, &record["body"]).is_some())
        {
            sheet.fail("identity", format!("member `{member}` is not understood"));
        }
    }
    let cases = file.list("receiverCases")?;
    for (index, case) in cases.iter().enumerate() {
        sheet.case(&name_of(case, index), || receiver_case(case, &frames));
    }
    sheet.note(format!(
        "of {} receiver cases only the frames are checked: their outcome is for the session part",
        cases.len()
    ));
    Ok(())
}

/// The frames that the case names exist, and a changed one differs in the named value alone.
fn receiver_case(case: &Value, frames: &[(&str, Value)]) -> Check {
    let mut case = Members::of(case)?;
    case.skip(&["name", "stateTransitions"]);
    case.text("result")?;
    let frame = |name: &str| {
        let found = frames.iter().find(|(frame, _)| *frame == name);
        found
            .map(|(_, frame)| frame)
            .ok_or_else(|| format!("no frame `{name}`"))
    };
    let mut base = None;
    for role in ["seal", "first", "retry", "route"] {
        if let Some(name) = case.optional_text(role)? {
            let found = frame(name)?;
            if role == "first" {
                base = Some(found);
            }
        }
    }
    if let Some(mutation) = case.optional_text("retryMutation")? {
        change(
            base.ok_or("a changed retry without a first frame")?,
            mutation,
        )?;
    }
    if let Some(mutation) = case.optional_text("routeMutation")? {
        let abort = frames
            .iter()
            .find(|(_, frame)| frame["body"]["route"]["action"] == "abort");
        change(
            abort
                .map(|(_, frame)| frame)
                .ok_or("no route update to change")?,
            mutation,
        )?;
    }
    case.done()
}

fn change(record: &Value, mutation: &str) -> Check {
    let (member, value) = mutation
        .split_once('=')
        .ok_or("a change is `member=value`")?;
    let path = place(member, &record["body"]).ok_or_else(|| format!("no value `{member}`"))?;
    mutated(record, &format!("body.{path}"), value).map(|_| ())
}
