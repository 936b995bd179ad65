//! Vector files of durable formats, of the relocation stream and of values inside them.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::generation::AggregateGeneration;
use spotlane_types::id::{ActorId, SpotId};
use spotlane_types::kind::AuthorityObjectKind;
use spotlane_wire::authority::AuthorityRelocationState;
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::{ErrorKind, multipart};

use super::checks::{invalid_type, kind_named, refused_as, valid_type};
use super::listed::{Rename, compare};
use super::members::Members;
use super::records::{each, offsets_cover};
use super::sheet::{Check, Sheet, same};

/// A file that holds one stored value and its decoded fields.
fn one(file: &mut Members<'_>, sheet: &mut Sheet, name: &str, renames: &[Rename]) -> Check {
    file.skip(&["consumers"]);
    let bytes = file.hex("encodedHex")?;
    let listed = file.need("decoded")?;
    sheet.case(name, || {
        let value = valid_type(&format!("durable:{name}"), &bytes)?;
        compare(listed, &value, renames)
    });
    Ok(())
}

/// A stored authority payload.
pub(super) fn authority(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    let renames = [
        ("object.spotKind", "object.spot.spotKind"),
        (
            "object.authorityState",
            "object.spot.instance.authorityState",
        ),
        ("object.instanceType", "object.spot.instance.instanceType"),
        ("object.spotIdUtf8Fixture", "object.spot.instance.spotId"),
    ];
    one(file, sheet, "authority-payload-v1", &renames)
}

/// A stored intent to activate.
pub(super) fn activation(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    let renames = [
        ("operationHigh", "operation.high"),
        ("operationLow", "operation.low"),
        ("replyRouteId", "replyRoute.replyRouteId"),
        ("metadata.version", ""),
        ("metadata.entries", "metadata"),
        ("metadata.entries[].key", "metadata[].key"),
        ("metadata.entries[].value", "metadata[].value"),
        ("applicationPayload.version", ""),
    ];
    one(file, sheet, "instance-activation-recovery-v1", &renames)
}

/// A stored chunk.
pub(super) fn chunk(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    one(file, sheet, "relocation-data-chunk-v1", &[])
}

/// A stored manifest.
pub(super) fn manifest(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    one(file, sheet, "relocation-manifest-v1", &[])
}

/// The relocation stream.
pub(super) fn envelope(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    const WORK: [Rename; 8] = [
        ("relocationHigh", "relocation.high"),
        ("relocationLow", "relocation.low"),
        ("object.spotIdUtf8Fixture", "object.spot.spotId"),
        ("object.spotGeneration", "object.spot.objectGeneration"),
        (
            "savedWork[].record.metadata",
            "savedWork[].record.hasMetadata",
        ),
        (
            "savedWork[].record.replyRouteId",
            "savedWork[].record.replyRoute.replyRouteId",
        ),
        (
            "savedWork[].record.body.targetSpot.spotIdUtf8Fixture",
            "savedWork[].record.body.targetSpot.spot.spotId",
        ),
        (
            "savedWork[].record.body.targetSpot.spotGeneration",
            "savedWork[].record.body.targetSpot.spot.objectGeneration",
        ),
    ];
    file.skip(&["consumers", "durabilityBoundary"]);
    let bytes = file.hex("logicalHex")?;
    let listed = file.need("decoded")?;
    let inventory = file.list("participantAuthorityKeyInventory")?;
    sheet.case("relocation-envelope-v1", || {
        let value = valid_type("relocation-envelope-v1", &bytes)?;
        compare(listed, &value, &WORK)?;
        // WR-41: numbers follow the order of the keys, from 1.
        let mut before = "";
        for (index, entry) in inventory.iter().enumerate() {
            let mut entry = Members::of(entry)?;
            let key = entry.text("authorityKeyUtf8Fixture")?;
            same("order of the keys", true, before < key)?;
            before = key;
            let number = u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1);
            same("participant", number, entry.decimal("participantId")?)?;
            entry.done()?;
        }
        Ok(())
    });
    Ok(())
}

/// The text form of authority keys (WR-60).
pub(super) fn keys(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    file.skip(&["consumers"]);
    for vector in file.list("cases")? {
        let name = vector["encoded"].as_str().unwrap_or("a key without text");
        sheet.case(name, || {
            let mut vector = Members::of(vector)?;
            vector.skip(&["sharedBySpotKinds"]);
            let id = vector.hex("identityHex")?;
            let id = std::str::from_utf8(&id).map_err(|e| e.to_string())?;
            let kind = vector.text("objectKind")?;
            let key = match AuthorityObjectKind::from_name(kind) {
                Some(AuthorityObjectKind::Actor) => {
                    AuthorityKey::Actor(id.parse::<ActorId>().map_err(|e| e.to_string())?)
                }
                Some(AuthorityObjectKind::Spot) => {
                    AuthorityKey::Spot(id.parse::<SpotId>().map_err(|e| e.to_string())?)
                }
                None => return Err(format!("object kind `{kind}` is not understood")),
            };
            let text = vector.text("encoded")?;
            same("text of the key", text, key.to_string().as_str())?;
            let read = text.parse::<AuthorityKey>().map_err(|e| e.to_string())?;
            same("key of the text", key, read)?;
            vector.done()
        });
    }
    Ok(())
}

/// The relocation part of an authority payload, and whether it belongs to the change of its root.
pub(super) fn relocation_state(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    const TYPE: &str = "authority-relocation-state";
    file.skip(&["consumers"]);
    let layouts = &file.need("notes")?["offsetLayouts"];
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let valid = file.list("valid")?;
    each(sheet, valid, |vector| {
        let bytes = vector.hex("hex")?;
        offsets_cover(&layouts[vector.text("offsetLayout")?], &bytes)?;
        let value = valid_type(TYPE, &bytes)?;
        compare(vector.need("decoded")?, &value, &[])?;
        if let Some(key) = vector.optional_text("authorityKey")? {
            key.parse::<AuthorityKey>().map_err(|e| e.to_string())?;
        }
        let root = vector.optional_text("rootAggregateGeneration")?;
        same(
            "agrees with its root",
            root.is_some(),
            agrees(&bytes, root)?,
        )?;
        if let Some(group) = vector.optional_text("agreementGroup")? {
            let generation = value["aggregateGeneration"].to_string();
            groups.entry(group.to_owned()).or_default().push(generation);
        }
        Ok(())
    });
    for (group, generations) in groups {
        let alike = generations.windows(2).all(|pair| pair[0] == pair[1]);
        if !alike || generations.len() < 2 {
            sheet.fail(&group, "its members do not name one generation");
        }
    }
    each(sheet, file.list("invalid")?, |vector| {
        let bytes = vector.hex("hex")?;
        offsets_cover(&layouts[vector.text("offsetLayout")?], &bytes)?;
        let root = vector.optional_text("rootAggregateGeneration")?;
        match vector.text("error")? {
            "root-disagreement" => {
                valid_type(TYPE, &bytes)?;
                same("agrees with its root", false, agrees(&bytes, root)?)
            }
            "exhausted-sentinel" | "zero-after-root" => {
                invalid_type(TYPE, &bytes, &ErrorKind::InvalidField.into())
            }
            other => invalid_type(TYPE, &bytes, &kind_named(other)?.into()),
        }
    });
    Ok(())
}

/// WR-63
fn agrees(bytes: &Bytes, root: Option<&str>) -> Check<bool> {
    let decoded = spotlane_wire::decode::<Option<AuthorityRelocationState>>(bytes);
    let state = decoded
        .map_err(|e| e.to_string())?
        .ok_or("no relocation state")?;
    let Some(root) = root else {
        return Ok(false);
    };
    let root = root.parse::<u64>().map_err(|e| e.to_string())?;
    let root = AggregateGeneration::new(root).map_err(|e| e.to_string())?;
    Ok(state.agrees_with_root(root))
}

/// Several parts in one payload (WR-10).
pub(super) fn parts(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    const TYPE: &str = "application-payload-envelope-v1";
    file.skip(&["consumers", "encoding"]);
    same("trailing bytes", "forbidden", file.text("trailingBytes")?)?;
    let payload_of = |bytes: &Bytes| -> Check<ApplicationPayload> {
        spotlane_wire::decode(bytes).map_err(|e| e.to_string())
    };
    each(sheet, file.list("valid")?, |vector| {
        let bytes = vector.hex("encodedHex")?;
        valid_type(TYPE, &bytes)?;
        let payload = payload_of(&bytes)?;
        same("is multipart", true, multipart::is_multipart(&payload))?;
        let parts = multipart::split(&payload).map_err(|e| e.to_string())?;
        same("parts", vector.frames("partsHex")?, parts.clone())?;
        let joined = multipart::join(&parts).map_err(|e| e.to_string())?;
        same("joined again", payload, joined)
    });
    each(sheet, file.list("invalid")?, |vector| {
        let payload = payload_of(&vector.hex("encodedHex")?)?;
        let kind = match vector.text("reason")? {
            "contentType" | "minimumParts" => ErrorKind::InvalidField,
            "partLength" => ErrorKind::TruncatedField,
            "trailingBytes" => ErrorKind::TrailingByte,
            other => return Err(format!("reason `{other}` is not understood")),
        };
        match multipart::split(&payload) {
            Ok(parts) => Err(format!("expected {kind}, but it has {} parts", parts.len())),
            Err(error) => refused_as(&error, &kind.into()),
        }
    });
    Ok(())
}

/// The JSON that a text stands for, for callers that compare values.
pub(super) fn text(text: &str) -> Value {
    json!(text)
}
