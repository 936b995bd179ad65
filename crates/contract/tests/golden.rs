//! The judge reads every reference vector: bytes to value to the same bytes, and each malformed
//! case is refused with its named error.
//!
//! The vectors are read in place, next to the checkout; without them these tests only say so.

#![expect(clippy::unwrap_used, reason = "helpers outside of test functions")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spotlane_contract::{AuthorityKind, Contract, Kind, authority_key, crc32c, from_hex, to_hex};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn contract() -> Contract {
    let path = root().join("fixtures/contract/service-wire.contract");
    Contract::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn skipped(what: &str) {
    eprintln!("SKIPPED: {what} was not checked, its source is not beside the checkout");
}

/// The vectors of one file, or `None` with a note where the folder does not exist.
fn golden(name: &str) -> Option<Value> {
    let folder = root().join("../shared/golden");
    if !folder.is_dir() {
        skipped(name);
        return None;
    }
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

/// The bytes of a case, as hex under some name or as an array of numbers.
fn bytes(case: &Value) -> Vec<u8> {
    for name in ["hex", "encodedHex", "logicalHex"] {
        if let Some(hex) = case[name].as_str() {
            return from_hex(hex).unwrap();
        }
    }
    list(case, "bytes")
        .iter()
        .map(|b| u8::try_from(b.as_u64().unwrap()).unwrap())
        .collect()
}

fn kind(error: &str) -> Kind {
    match error {
        "truncated-field" | "payload length" | "partLength" => Kind::TruncatedField,
        "trailing-byte" | "trailingBytes" => Kind::TrailingByte,
        "unknown-command" => Kind::UnknownCommand,
        "forbidden-flag" => Kind::InvalidFlags,
        "actorJoin frames" => Kind::FrameCount,
        _ => Kind::InvalidField,
    }
}

/// Decodes a record and checks that it is written back to the same bytes.
fn round_trip(judge: &Contract, frames: &[Vec<u8>], pending: Option<&str>) -> Value {
    let value = judge.decode_record(frames, pending).unwrap();
    assert_eq!(judge.encode_record(&value, pending).unwrap(), frames);
    value
}

fn round_trip_type(judge: &Contract, name: &str, bytes: &[u8]) -> Value {
    let value = judge.decode_type(name, bytes).unwrap();
    assert_eq!(
        to_hex(&judge.encode_type(name, &value).unwrap()),
        to_hex(bytes)
    );
    value
}

/// Checks the `canonical` and `malformed` records of a file.
fn check_records(name: &str, pending: Option<&str>) {
    let Some(file) = golden(name) else { return };
    let judge = contract();
    let canonical = &file["canonical"];
    let cases = canonical
        .as_array()
        .map_or_else(|| std::slice::from_ref(canonical), Vec::as_slice);
    for case in cases {
        let value = round_trip(&judge, &[bytes(case)], pending);
        let id = [case, &file].map(|from| {
            from["command"]
                .as_u64()
                .or_else(|| from["commandId"].as_u64())
        });
        assert_eq!(value["command"].as_u64(), id[0].or(id[1]), "{case}");
        if let Some(decoded) = case["decoded"].as_object() {
            for (name, expected) in decoded {
                check_member(&value["body"], name, expected);
            }
        }
    }
    let malformed = file["malformed"].as_array().map_or(&[][..], Vec::as_slice);
    for case in malformed {
        let refusal = judge.decode_record(&[bytes(case)], pending).unwrap_err();
        assert_eq!(refusal.kind, kind(text(case, "error")), "{case}: {refusal}");
    }
}

/// Finds `name` anywhere in the body and compares scalars that have the same notation.
fn check_member(body: &Value, name: &str, expected: &Value) {
    let mut found = Vec::new();
    collect(body, name, &mut found);
    let is_equal = |value: &&Value| *value == expected || is_hex_of(value, expected);
    let is_scalar = !expected.is_object() && !expected.is_array() && !expected.is_null();
    // A failure code is a number in the vectors and a name in the contract.
    if is_scalar && name != "failureCode" && !found.is_empty() {
        assert!(
            found.iter().any(is_equal),
            "{name} is {expected} in the vector, not {found:?}"
        );
    }
}

fn is_hex_of(value: &Value, expected: &Value) -> bool {
    let (Some(value), Some(expected)) = (value.as_str(), expected.as_str()) else {
        return false;
    };
    value == to_hex(expected.as_bytes())
}

fn collect<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    let Some(object) = value.as_object() else {
        return;
    };
    for (member, inner) in object {
        if member == name {
            found.push(inner);
        }
        collect(inner, name, found);
    }
}

/// WR-5, WR-50
#[test]
fn relocation_control_records_hold() {
    check_records("relocation-control-v1.json", None);
}

/// WR-53
#[test]
fn session_barrier_records_hold() {
    check_records("session-relocation-barrier-v1.json", None);
}

#[test]
fn reply_relay_records_hold() {
    check_records("reply-relay-v1.json", None);
}

/// WR-21, WR-57
#[test]
fn actor_join_replies_hold() {
    check_records("actor-join-reply-v1.json", Some("actorJoin"));
}

#[test]
fn user_spot_close_records_hold() {
    check_records("user-spot-close-v1.json", None);
}

#[test]
fn bound_session_replaced_records_hold() {
    check_records("bound-session-replaced-v1.json", None);
}

/// WR-1, WR-3, WR-21
#[test]
fn head_frames_and_failure_codes_hold() {
    check_records("service-decoder-fixtures-v1.json", None);
    let Some(file) = golden("service-decoder-fixtures-v1.json") else {
        return;
    };
    let judge = contract();
    let errors = &file["frameworkErrors"];
    let code = |case: &Value| {
        let number = u32::try_from(case["wireValue"].as_u64().unwrap()).unwrap();
        judge.decode_type("framework-error-code", &number.to_be_bytes())
    };
    for case in list(errors, "canonical") {
        assert_eq!(code(case).unwrap(), case["name"]);
    }
    for case in list(errors, "malformed") {
        assert_eq!(code(case).unwrap_err().kind, Kind::InvalidField);
    }
}

#[test]
fn actor_join_requests_hold() {
    let Some(file) = golden("actor-join-request-v1.json") else {
        return;
    };
    let judge = contract();
    let frames = |case: &Value| -> Vec<Vec<u8>> {
        list(case, "framesHex")
            .iter()
            .map(|hex| from_hex(hex.as_str().unwrap()).unwrap())
            .collect()
    };
    for case in list(&file, "valid") {
        let value = round_trip(&judge, &frames(case), None);
        let payload = &case["input"]["payload"];
        assert_eq!(value["payload"]["payload"], payload["payloadHex"]);
        assert_eq!(value["payload"]["packetName"], payload["packetName"]);
        assert_eq!(value["body"]["targetSpot"]["spot"]["spotId"], "spot");
    }
    for case in list(&file, "invalid") {
        let refusal = judge.decode_record(&frames(case), None).unwrap_err();
        assert_eq!(refusal.kind, kind(text(case, "error")), "{case}: {refusal}");
    }
}

/// WR-40, WR-42
#[test]
fn the_relocation_envelope_holds() {
    let Some(file) = golden("relocation-envelope-v1.json") else {
        return;
    };
    let value = round_trip_type(&contract(), "relocation-envelope-v1", &bytes(&file));
    let decoded = &file["decoded"];
    assert_eq!(value["timerRegistrations"], decoded["timerRegistrations"]);
    assert_eq!(value["pendingTimerTicks"], decoded["pendingTimerTicks"]);
    let (record, expected) = (
        &value["savedWork"][0]["record"],
        &decoded["savedWork"][0]["record"],
    );
    assert_eq!(record["operationId"], expected["operationId"]);
    assert_eq!(
        record["replyRoute"]["replyRouteId"],
        expected["replyRouteId"]
    );
}

/// WR-61
#[test]
fn durable_formats_hold() {
    let judge = contract();
    let files = [
        (
            "relocation-manifest-v1.json",
            "durable:relocation-manifest-v1",
        ),
        (
            "relocation-data-chunk-v1.json",
            "durable:relocation-data-chunk-v1",
        ),
        ("durable-authority-v1.json", "durable:authority-payload-v1"),
        (
            "instance-activation-recovery-v1.json",
            "durable:instance-activation-recovery-v1",
        ),
    ];
    for (file_name, name) in files {
        let Some(file) = golden(file_name) else {
            return;
        };
        let value = round_trip_type(&judge, name, &bytes(&file));
        for (member, expected) in file["decoded"].as_object().unwrap() {
            check_member(&value, member, expected);
        }
    }
}

/// WR-44: the checksums that vectors give are those of the bytes that other vectors give.
#[test]
fn checksums_of_the_vectors_are_ours() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    let Some(envelope) = golden("relocation-envelope-v1.json") else {
        return;
    };
    let Some(manifest) = golden("relocation-manifest-v1.json") else {
        return;
    };
    let checksum = crc32c(&bytes(&envelope));
    assert_eq!(manifest["decoded"]["totalChecksumCrc32c"], json!(checksum));
}

/// WR-63. A disagreement with the root needs the root, so it is no matter of decoding.
#[test]
fn authority_relocation_states_hold() {
    let Some(file) = golden("authority-relocation-state-v1.json") else {
        return;
    };
    let judge = contract();
    let name = "authority-relocation-state";
    for case in list(&file, "valid") {
        let value = round_trip_type(&judge, name, &bytes(case));
        for (member, expected) in case["decoded"].as_object().unwrap() {
            let member = member.strip_suffix("Hex").unwrap_or(member);
            assert_eq!(&value[member], expected, "{member}");
        }
    }
    for case in list(&file, "invalid") {
        if text(case, "error") == "root-disagreement" {
            round_trip_type(&judge, name, &bytes(case));
        } else {
            let refusal = judge.decode_type(name, &bytes(case)).unwrap_err();
            assert_eq!(refusal.kind, Kind::InvalidField, "{case}: {refusal}");
        }
    }
}

/// WR-10
#[test]
fn multipart_envelopes_hold() {
    let Some(file) = golden("framework-multipart-v1.json") else {
        return;
    };
    let judge = contract();
    for case in list(&file, "valid") {
        let value = round_trip_type(&judge, "framework-multipart", &bytes(case));
        assert_eq!(value, json!({ "parts": case["partsHex"] }));
    }
    for case in list(&file, "invalid") {
        let refusal = judge
            .decode_type("framework-multipart", &bytes(case))
            .unwrap_err();
        assert_eq!(
            refusal.kind,
            kind(text(case, "reason")),
            "{case}: {refusal}"
        );
    }
}

/// WR-60
#[test]
fn authority_keys_hold() {
    let Some(file) = golden("authority-key-v1.json") else {
        return;
    };
    for case in list(&file, "cases") {
        let id = from_hex(text(case, "identityHex")).unwrap();
        let kind = match text(case, "objectKind") {
            "actor" => AuthorityKind::Actor,
            _ => AuthorityKind::Spot,
        };
        assert_eq!(authority_key(kind, &id), text(case, "encoded"));
    }
}

/// The contract of this repository is the one it was taken from.
#[test]
fn the_contract_file_is_unchanged() {
    let source = root().join("../shared/contract/service-wire.contract");
    let Ok(source) = std::fs::read_to_string(source) else {
        skipped("the copy of the contract");
        return;
    };
    let copy = root().join("fixtures/contract/service-wire.contract");
    assert!(std::fs::read_to_string(copy).unwrap() == source);
}
