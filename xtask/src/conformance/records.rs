//! Vector files that hold whole records.

use bytes::Bytes;
use serde_json::Value;
use spotlane_types::kind::{FailureCode, MeshOperationKind};
use spotlane_wire::ErrorKind;
use spotlane_wire::checksum::crc32c;

use super::checks::{Expected, invalid_record, kind_named, valid_record};
use super::listed::{Rename, compare, differences, lookup, lookup_mut};
use super::members::{Members, name_of};
use super::sheet::{Check, Sheet, same};
use crate::codec;

const NONE: MeshOperationKind = MeshOperationKind::None;

/// Runs `check` on every element of a list.
pub(super) fn each(
    sheet: &mut Sheet,
    list: &[Value],
    mut check: impl FnMut(&mut Members<'_>) -> Check,
) {
    for (index, vector) in list.iter().enumerate() {
        sheet.case(&name_of(vector, index), || {
            let mut members = Members::of(vector)?;
            members.skip(&["name"]);
            check(&mut members)?;
            members.done()
        });
    }
}

/// The body of a decoded record, after a look at its command.
fn body_of(record: &Value, command: u64) -> Check<&Value> {
    same("command", Some(command), record["command"].as_u64())?;
    Ok(&record["body"])
}

/// A malformed record of one frame with the name of its error.
fn malformed(members: &mut Members<'_>, pending: MeshOperationKind) -> Check {
    let frame = members.hex("hex")?;
    if let Some(command) = members.get("command") {
        same(
            "command",
            command.as_u64(),
            frame.get(3).copied().map(u64::from),
        )?;
    }
    if members.get("correlation").is_some() {
        let correlation = members.decimal("correlation")?.to_be_bytes();
        same("correlation", Some(&correlation[..]), frame.get(5..13))?;
    }
    let kind = kind_named(members.text("error")?)?;
    invalid_record(&[frame], pending, &kind.into())
}

/// Relocation control records.
pub(super) fn relocation_control(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    const RENAMES: [Rename; 4] = [
        ("targetNodeRid", "target.targetNodeRid"),
        ("objectKind", "object.objectKind"),
        ("spotId", "object.spot.spotId"),
        ("recordKind", "record.recordKind"),
    ];
    let valid = file.list("canonical")?;
    each(sheet, valid, |vector| {
        let record = valid_record(&[vector.hex("hex")?], NONE)?;
        let body = body_of(&record, vector.number("command")?)?;
        compare(vector.need("decoded")?, body, &RENAMES)?;
        match body.get("payloadChecksumCrc32c") {
            Some(checksum) => covers_the_chunks(body, checksum, valid),
            None => Ok(()),
        }
    });
    each(sheet, file.list("malformed")?, |vector| {
        malformed(vector, NONE)
    });
    Ok(())
}

/// WR-50: length, count and checksum of a manifest are those of the chunks beside it.
fn covers_the_chunks(manifest: &Value, checksum: &Value, vectors: &[Value]) -> Check {
    let mut stream = Vec::new();
    let mut count = 0_u64;
    for vector in vectors {
        let mut vector = Members::of(vector)?;
        let record = codec::decode(&[vector.hex("hex")?], NONE).map_err(|e| e.to_string())?;
        let record = super::checks::value_of(&record)?;
        if let Some(chunk) = record["body"]["chunkData"].as_str() {
            count = count.saturating_add(1);
            stream.extend(codec::bytes_of(chunk).unwrap_or_default());
        }
    }
    same(
        "checksum of the chunks",
        &Value::from(crc32c(&stream)),
        checksum,
    )?;
    same(
        "number of chunks",
        &Value::from(count),
        &manifest["payloadChunkCount"],
    )?;
    let length = Value::from(stream.len().to_string());
    same(
        "length of the chunks",
        &length,
        &manifest["payloadTotalLength"],
    )
}

/// Reply relay and its acknowledgement.
pub(super) fn reply_relay(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    same("major version", 1, file.number("wireMajor")?)?;
    each(sheet, file.list("canonical")?, |vector| {
        let record = valid_record(&[vector.hex("hex")?], NONE)?;
        body_of(&record, vector.number("commandId")?).map(|_| ())
    });
    Ok(())
}

/// Replies to a join; the pending operation is the join (WR-21).
pub(super) fn join_reply(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    const ACCEPTED: [Rename; 1] = [("spot.generation", "spot.objectGeneration")];
    const REJECTED: [Rename; 2] = [
        ("spot.spotId", "spot.spot.spotId"),
        ("spot.generation", "spot.spot.objectGeneration"),
    ];
    file.skip(&["consumers", "notes"]);
    each(sheet, file.list("canonical")?, |vector| {
        let record = valid_record(&[vector.hex("hex")?], MeshOperationKind::ActorJoin)?;
        let body = body_of(&record, vector.number("command")?)?;
        same(
            "correlation",
            vector.need("correlation")?,
            &body["correlation"],
        )?;
        let listed = vector.need("decoded")?;
        let tail = &body["tail"]["join"];
        let rejected = listed["joinResult"] == "rejected";
        let has_spot = tail["spot"]["hasSpot"] != false;
        same("a spot", listed.get("spot").is_some(), has_spot)?;
        compare(listed, tail, if rejected { &REJECTED } else { &ACCEPTED })
    });
    each(sheet, file.list("malformed")?, |vector| {
        malformed(vector, MeshOperationKind::ActorJoin)
    });
    Ok(())
}

/// Requests to join, with and without a payload.
pub(super) fn join_request(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    const RENAMES: [Rename; 14] = [
        ("actor.id", "body.actor.actor.actorId"),
        ("actor.generation", "body.actor.actor.objectGeneration"),
        ("actor.targetNodeRidHex", "body.actor.targetNodeRid"),
        (
            "actor.targetNodeGeneration",
            "body.actor.targetNodeGeneration",
        ),
        (
            "actor.expectedAuthorityOwnerGeneration",
            "body.actor.expectedAuthorityOwnerGeneration",
        ),
        (
            "actor.expectedOwnerLeaseGeneration",
            "body.actor.expectedOwnerLeaseGeneration",
        ),
        ("entry", "body.entry"),
        ("correlation", "body.correlation"),
        ("targetSpot.id", "body.targetSpot.spot.spotId"),
        (
            "targetSpot.generation",
            "body.targetSpot.spot.objectGeneration",
        ),
        (
            "targetSpot.targetNodeRidHex",
            "body.targetSpot.targetNodeRid",
        ),
        (
            "targetSpot.targetNodeGeneration",
            "body.targetSpot.targetNodeGeneration",
        ),
        (
            "targetSpot.expectedAuthorityOwnerGeneration",
            "body.targetSpot.expectedAuthorityOwnerGeneration",
        ),
        (
            "targetSpot.expectedOwnerLeaseGeneration",
            "body.targetSpot.expectedOwnerLeaseGeneration",
        ),
    ];
    file.skip(&["consumers"]);
    each(sheet, file.list("valid")?, |vector| {
        let frames = vector.frames("framesHex")?;
        let record = valid_record(&frames, NONE)?;
        body_of(&record, 28)?;
        let input = vector.need("input")?;
        same(
            "a payload",
            input.get("payload").is_some(),
            !record["payload"].is_null(),
        )?;
        compare(input, &record, &RENAMES)
    });
    each(sheet, file.list("invalid")?, |vector| {
        let frames = vector.frames("framesHex")?;
        // The file describes its errors in words: what the word speaks of decides the kind.
        let error = vector.text("error")?;
        let kind = match error.rsplit(' ').next() {
            Some("length") => ErrorKind::TruncatedField,
            Some("frames") => ErrorKind::FrameCount,
            Some("fence") => ErrorKind::InvalidField,
            _ => return Err(format!("error `{error}` is not understood")),
        };
        invalid_record(&frames, NONE, &kind.into())
    });
    Ok(())
}

/// Closing a user spot; with a map of every byte.
pub(super) fn spot_close(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    const RENAMES: [Rename; 1] = [("target.version", "")];
    file.skip(&["consumers"]);
    let command = file.number("commandId")?;
    let notes = file.need("notes")?;
    let valid = std::slice::from_ref(file.need("canonical")?);
    each(sheet, valid, |vector| {
        let frame = vector.hex("hex")?;
        offsets_cover(&notes["offsets"], &frame)?;
        let record = valid_record(&[frame], NONE)?;
        compare(
            vector.need("decoded")?,
            body_of(&record, command)?,
            &RENAMES,
        )
    });
    each(sheet, file.list("malformed")?, |vector| {
        malformed(vector, NONE)
    });
    Ok(())
}

/// Lines `first..last text` or `at text` name every byte once, in order; a number behind `=` is
/// what stands there.
pub(super) fn offsets_cover(lines: &Value, bytes: &[u8]) -> Check {
    let mut next = 0;
    for line in lines.as_array().ok_or("no offsets")? {
        let line = line.as_str().unwrap_or_default();
        let range = line.split(' ').next().unwrap_or_default();
        let (first, last) = range.split_once("..").unwrap_or((range, range));
        let number = |text: &str| {
            text.parse::<usize>()
                .map_err(|_| format!("offsets `{range}`"))
        };
        same("start of an offset line", next, number(first)?)?;
        let part = bytes
            .get(next..=number(last)?)
            .ok_or("offsets behind the end")?;
        let value = line
            .split_once('=')
            .and_then(|(_, value)| value.split(';').next());
        if let Some(value) = value.and_then(|value| value.trim().parse::<u64>().ok()) {
            let found = part.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
            same(line, value, found)?;
        }
        next = number(last)?.saturating_add(1);
    }
    same("bytes named by the offset lines", bytes.len(), next)
}

/// A binding that was replaced.
pub(super) fn session_replaced(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    const RENAMES: [Rename; 2] = [
        ("actorAuthority.actorId", "actorAuthority.actor.actorId"),
        (
            "actorAuthority.objectGeneration",
            "actorAuthority.actor.objectGeneration",
        ),
    ];
    const FENCE: &str = "body.retiredSession.sessionOwnerNodeGeneration";
    let command = file.number("commandId")?;
    let canonical = file.need("canonical")?;
    let mut original = Value::Null;
    sheet.case("canonical", || {
        let mut vector = Members::of(canonical)?;
        original = valid_record(&[vector.octets("bytes")?], NONE)?;
        let body = body_of(&original, command)?;
        for part in ["actorAuthority", "retiredSession"] {
            let listed = serde_json::json!({ part: vector.need(part)? });
            compare(&listed, body, &RENAMES)?;
        }
        vector.done()
    });
    each(sheet, file.list("malformed")?, |vector| {
        let kind = kind_named(vector.text("error")?)?;
        invalid_record(&[vector.octets("bytes")?], NONE, &kind.into())
    });
    each(sheet, file.list("receiverFenceCases")?, |case| {
        let generation = case.text("sessionOwnerNodeGeneration")?;
        case.text("result")?;
        mutated(&original, FENCE, generation).map(|_| ())
    });
    sheet.note("what a receiver does is checked by the session part");
    Ok(())
}

/// A record with one field changed still is a record and differs in nothing but this field.
pub(super) fn mutated(original: &Value, path: &str, value: &str) -> Check<Value> {
    let mut changed = original.clone();
    let field = lookup_mut(&mut changed, path).ok_or_else(|| format!("no field `{path}`"))?;
    *field = Value::from(value);
    let frames = codec::encode(super::checks::node_of(&changed)?, NONE).map_err(|e| e.message)?;
    let decoded = valid_record(&frames, NONE)?;
    same(
        "field after the change",
        Some(&Value::from(value)),
        lookup(&decoded, path),
    )?;
    let expected = if lookup(original, path) == Some(&Value::from(value)) {
        Vec::new()
    } else {
        vec![path.to_owned()]
    };
    same(
        "fields that changed",
        expected,
        differences(original, &decoded),
    )?;
    Ok(decoded)
}

/// Header checks on liveness records, and the numbers of framework errors.
pub(super) fn decoder_fixtures(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    same("major version", 1, file.number("wireMajor")?)?;
    let probe = file.need("probeId")?;
    let canonical = file.list("canonical")?;
    each(sheet, canonical, |vector| {
        if let Some(probe) = vector.optional_text("echoesProbeIdFrom")? {
            let known = canonical.iter().any(|other| other["name"] == probe);
            same("a vector that is echoed", true, known)?;
        }
        let record = valid_record(&[vector.octets("bytes")?], NONE)?;
        let body = body_of(&record, vector.number("commandId")?)?;
        same("probe id", probe, &body["probeId"])
    });
    each(sheet, file.list("malformed")?, |vector| {
        let kind = kind_named(vector.text("error")?)?;
        invalid_record(&[vector.octets("bytes")?], NONE, &kind.into())
    });
    let mut errors = Members::of(file.need("frameworkErrors")?)?;
    same(
        "mapping",
        "wire-value-minus-one",
        errors.text("publicMapping")?,
    )?;
    for (index, vector) in errors.list("canonical")?.iter().enumerate() {
        sheet.case(&format!("error number {}", name_of(vector, index)), || {
            let mut vector = Members::of(vector)?;
            let wire = vector.number("wireValue")?;
            let code = code_of(wire).ok_or_else(|| format!("no failure code {wire}"))?;
            same("name", vector.text("name")?, code.name())?;
            let public = wire.checked_sub(1).map_or(Value::Null, Value::from);
            same("public number", vector.need("publicValue")?, &public)?;
            vector.done()
        });
    }
    let mut reserved = Members::of(errors.need("reservedWireValues")?)?;
    let mut range = reserved.number("first")?..=reserved.number("last")?;
    reserved.skip(&["reason"]);
    reserved.done()?;
    each(sheet, errors.list("malformed")?, |vector| {
        let kind = kind_named(vector.text("error")?)?;
        let wire = vector.number("wireValue")?;
        let bytes = u32::try_from(wire)
            .map_err(|e| e.to_string())?
            .to_be_bytes();
        let bytes = Bytes::copy_from_slice(&bytes);
        super::checks::invalid_type("framework-error-code", &bytes, &Expected::from(kind))
    });
    if let Some(known) = range.find(|wire| code_of(*wire).is_some()) {
        sheet.fail(
            "reserved error numbers",
            format!("{known} is a failure code here"),
        );
    }
    errors.done()
}

fn code_of(wire: u64) -> Option<FailureCode> {
    FailureCode::from_wire(u32::try_from(wire).ok()?)
}
