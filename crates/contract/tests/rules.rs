//! The order of checks and the rules over several fields, on values broken by hand.

#![expect(clippy::unwrap_used, reason = "helpers outside of test functions")]

use std::path::Path;

use serde_json::{Value, json};
use spotlane_contract::{Contract, Generator, Kind, crc32c};

fn contract() -> Contract {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let text = std::fs::read_to_string(fixtures.join("contract/service-wire.contract")).unwrap();
    Contract::parse(&text).unwrap()
}

/// A generated value for which `wanted` holds.
fn find(judge: &Contract, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut generator = Generator::new(judge, 7);
    let mut values = std::iter::repeat_with(|| generator.standalone(name).unwrap());
    values.by_ref().take(20_000).find(wanted).unwrap()
}

/// The field for which the value is refused after `change`.
fn broken(judge: &Contract, name: &str, value: &Value, change: impl Fn(&mut Value)) -> String {
    assert!(judge.encode_type(name, value).is_ok(), "{value}");
    let mut value = value.clone();
    change(&mut value);
    let refusal = judge.encode_type(name, &value).unwrap_err();
    assert_eq!(refusal.kind, Kind::InvalidField);
    refusal.field
}

fn head(judge: &Contract, bytes: &[u8]) -> (Kind, usize) {
    let refusal = judge.decode_record(&[bytes.to_vec()], None).unwrap_err();
    (refusal.kind, refusal.offset)
}

/// WR-1, WR-2, WR-3: a wrong byte comes before a missing one, the command before the flags, the
/// flags before the frames, the frames before the body.
#[test]
fn the_head_is_checked_in_order() {
    let judge = contract();
    assert_eq!(
        judge.decode_record(&[], None).unwrap_err().kind,
        Kind::FrameCount
    );
    assert_eq!(head(&judge, &[]), (Kind::TruncatedField, 0));
    assert_eq!(head(&judge, &[0x5a]), (Kind::TruncatedField, 1));
    assert_eq!(head(&judge, &[0x5a, 0]), (Kind::InvalidField, 1));
    assert_eq!(head(&judge, &[0x5a, 0x4d, 2]), (Kind::InvalidField, 2));
    assert_eq!(head(&judge, &[0x5a, 0x4d, 1, 7]), (Kind::TruncatedField, 4));
    assert_eq!(
        head(&judge, &[0x5a, 0x4d, 1, 7, 0xff]),
        (Kind::UnknownCommand, 3)
    );
    assert_eq!(
        head(&judge, &[0x5a, 0x4d, 1, 5, 1]),
        (Kind::InvalidFlags, 4)
    );
    assert_eq!(
        head(&judge, &[0x5a, 0x4d, 1, 24, 2]),
        (Kind::InvalidFlags, 4)
    );
    assert_eq!(
        head(&judge, &[0x5a, 0x4d, 1, 24, 4]),
        (Kind::InvalidFlags, 4)
    );
    assert_eq!(head(&judge, &[0x5a, 0x4d, 1, 24, 6]).0, Kind::FrameCount);
    assert_eq!(
        head(&judge, &[0x5a, 0x4d, 1, 5, 0]),
        (Kind::TruncatedField, 5)
    );
    for id in (7..16).chain([0, 32, 35, 41, 45]).chain(54..=255) {
        assert_eq!(
            head(&judge, &[0x5a, 0x4d, 1, id, 0]).0,
            Kind::UnknownCommand
        );
    }
}

/// WR-9
#[test]
fn metadata_is_unique_and_bounded() {
    let judge = contract();
    let entry = |key: &str, bytes: usize| json!({ "key": key, "value": "v".repeat(bytes) });
    let encode = |value: Value| judge.encode_type("metadata-frame", &value);
    // Version, count, key with its length, length of the value.
    let room = 1024 - 2 - 2 - 2;
    assert_eq!(encode(json!([entry("a", room)])).unwrap().len(), 1024);
    assert_eq!(
        encode(json!([entry("a", room + 1)])).unwrap_err().kind,
        Kind::InvalidField
    );
    assert!(encode(json!([entry("b", 1), entry("a", 1)])).is_ok());
    assert_eq!(
        encode(json!([entry("a", 1), entry("b", 1), entry("a", 2)]))
            .unwrap_err()
            .field,
        "2"
    );
}

/// WR-20
#[test]
fn terminal_results_fix_code_and_payload() {
    let judge = contract();
    let record = |result: &str, code: &str, payload: Value| {
        let body = json!({
            "correlation": "1", "terminalResult": result, "failureCode": code, "tail": {},
        });
        let record = json!({
            "command": 20, "name": "reply", "flags": 0, "body": body, "metadata": null,
            "payload": payload,
        });
        judge
            .encode_record(&record, None)
            .map_err(|refusal| refusal.field)
    };
    let payload = json!({ "packetName": "p", "contentType": "c", "payload": "" });
    assert!(record("ok", "none", payload.clone()).is_ok());
    assert!(record("busy", "none", Value::Null).is_ok());
    assert!(record("conflict", "spotMoving", Value::Null).is_ok());
    assert_eq!(
        record("conflict", "none", Value::Null),
        Err("failureCode".to_owned())
    );
    assert_eq!(
        record("ok", "spotMoving", Value::Null),
        Err("failureCode".to_owned())
    );
    assert_eq!(
        record("notFound", "spotMoving", Value::Null),
        Err("failureCode".to_owned())
    );
    assert_eq!(record("busy", "none", payload), Err("payload".to_owned()));

    let name = "creation-operation-terminal-v1";
    let ok = find(&judge, name, |value| value["hasApplicationPayload"] == true);
    let field = broken(&judge, name, &ok, |value| {
        value["hasCreation"] = json!(false);
        value.as_object_mut().unwrap().remove("creation");
    });
    assert_eq!(field, "hasCreation");
    let field = broken(&judge, name, &ok, |value| {
        value["terminalResult"] = json!("timedOut");
    });
    assert_eq!(field, "hasApplicationPayload");
}

/// WR-30, WR-33, WR-34
#[test]
fn frozen_records_carry_what_their_kind_allows() {
    let judge = contract();
    let name = "frozen-record";
    let zero = json!({ "high": "0", "low": "0" });
    let of = |kind: &str| find(&judge, name, |value| value["recordKind"] == kind);
    let send = of("nodeSend");
    assert_eq!(send["operationId"], zero);
    let set_id = |value: &mut Value| value["operationId"]["low"] = json!("1");
    assert_eq!(broken(&judge, name, &send, set_id), "operationId");
    let set_kind = |value: &mut Value| value["operationKind"] = json!("actorJoin");
    assert_eq!(broken(&judge, name, &send, set_kind), "operationKind");
    for kind in ["spotSend", "actorSend", "spotRequest", "completion"] {
        let field = broken(&judge, name, &of(kind), |value| {
            value["operationId"] = zero.clone();
        });
        assert_eq!(field, "operationId", "{kind}");
    }
    for kind in [
        "spotControl",
        "completion",
        "sendReady",
        "relocationControl",
    ] {
        let field = broken(&judge, name, &of(kind), |value| {
            value["source"]["sourceKind"] = json!("spot");
            value["source"]["sourceSpotId"] = json!("s");
        });
        assert_eq!(field, "source", "{kind}");
        let field = broken(&judge, name, &of(kind), |value| {
            value["hasMetadata"] = json!(true);
            value["metadata"] = json!([]);
        });
        assert_eq!(field, "hasMetadata", "{kind}");
    }
    let change = |value: &mut Value| value["operationKind"] = json!("none");
    assert_eq!(
        broken(&judge, name, &of("completion"), change),
        "operationKind"
    );
    let activation = of("instanceSpotActivation");
    let other = if activation["body"]["operationKind"] == "send" {
        "request"
    } else {
        "send"
    };
    let field = broken(&judge, name, &activation, |value| {
        value["body"]["operationKind"] = json!(other);
    });
    assert_eq!(field, "body");
    let refusal = judge.decode_type("operation-id", &[0; 16]).unwrap_err();
    assert_eq!(
        (refusal.kind, refusal.field.as_str()),
        (Kind::InvalidField, "low")
    );
}

/// WR-63
#[test]
fn relocation_states_fit_their_phase() {
    let judge = contract();
    let name = "authority-relocation-state";
    let of = |phase: &str| find(&judge, name, |value| value["phase"] == phase);
    let zero = |value: &mut Value| value["aggregateGeneration"] = json!("0");
    assert_eq!(
        broken(&judge, name, &of("captured"), zero),
        "aggregateGeneration"
    );
    let clear = |value: &mut Value| value["targetOwnerId"] = json!("");
    for phase in [
        "prepared",
        "committed",
        "activating",
        "activated",
        "cleaning",
        "completed",
    ] {
        assert_eq!(broken(&judge, name, &of(phase), clear), "targetNodeRid");
    }
    let set = |value: &mut Value| value["targetNodeGeneration"] = json!("1");
    assert_eq!(broken(&judge, name, &of("preparing"), set), "targetNodeRid");
    for phase in ["none", "captured", "aborted"] {
        for is_set in [true, false] {
            find(&judge, name, |v| {
                v["phase"] == phase && (v["targetOwnerId"] != "") == is_set
            });
        }
    }
}

/// WR-62
#[test]
fn authority_payloads_are_consistent() {
    let judge = contract();
    let name = "authority-payload-v1";
    let kind = |kind: &'static str| move |value: &Value| value["operationKind"] == kind;
    let moving = find(&judge, name, kind("maintenanceRelocation"));
    let steady = |value: &mut Value| value["operationKind"] = json!("steady");
    assert_eq!(broken(&judge, name, &moving, steady), "operationKind");
    let spot = find(&judge, name, |value| {
        kind("maintenanceRelocation")(value) && value["object"]["spot"]["spotKind"] == "user"
    });
    let ready = |value: &mut Value| value["object"]["spot"]["state"] = json!("ready");
    assert_eq!(broken(&judge, name, &spot, ready), "operationKind");
    for (from, path) in [("coldActivation", "coldActivating"), ("close", "closing")] {
        let value = find(&judge, name, |value| {
            kind(from)(value) && value["object"]["spot"]["instance"]["authorityState"] == path
        });
        let ready = |value: &mut Value| {
            value["object"]["spot"]["instance"]["authorityState"] = json!("ready");
        };
        assert_eq!(broken(&judge, name, &value, ready), "operationKind");
    }
    let recovering = find(&judge, name, |value| {
        value["activationRecoveryState"]["hasActivationRecovery"] == true
    });
    let closing = |value: &mut Value| {
        value["object"]["spot"]["instance"]["authorityState"] = json!("closing");
    };
    assert_eq!(
        broken(&judge, name, &recovering, closing),
        "activationRecoveryState"
    );
}

/// WR-42
#[test]
fn no_order_is_both_saved_work_and_a_timer_tick() {
    let judge = contract();
    let name = "relocation-envelope-v1";
    let value = find(&judge, name, |value| {
        value["savedWork"][0].is_object()
            && value["pendingTimerTicks"]
                .as_array()
                .is_some_and(|ticks| ticks.len() == 1)
    });
    let field = broken(&judge, name, &value, |value| {
        let saved = value["savedWork"][0].clone();
        value["pendingTimerTicks"][0]["participantId"] = saved["participantId"].clone();
        value["pendingTimerTicks"][0]["order"] = saved["order"].clone();
    });
    assert_eq!(field, "pendingTimerTicks");
}

/// WR-60: an aggregate is sorted by authority key, in which the length comes before the id.
#[test]
fn aggregates_are_sorted_by_authority_key() {
    let judge = contract();
    let name = "aggregate-participant-vector";
    let participant =
        |object: Value| json!({ "object": object, "expectedStoreVersion": "v", "mutation": "00" });
    let spot = |id: &str| {
        participant(json!({
            "objectKind": "userSpot",
            "spot": { "spotId": id, "objectGeneration": "1" },
            "expectedAuthorityOwnerGeneration": "1",
        }))
    };
    let instance = |id: &str| {
        participant(json!({
            "objectKind": "instanceSpot", "instanceType": "t", "spotId": id,
            "objectGeneration": "2",
        }))
    };
    let encode = |value: Value| {
        judge
            .encode_type(name, &value)
            .map_err(|refusal| refusal.field)
    };
    assert!(encode(json!([spot("b"), instance("aa")])).is_ok());
    assert_eq!(
        encode(json!([instance("aa"), spot("b")])),
        Err("1".to_owned())
    );
    // Spots of all kinds share one key space.
    assert_eq!(
        encode(json!([spot("a"), instance("a")])),
        Err("1".to_owned())
    );
}

/// WR-61
#[test]
fn durable_formats_are_checked_in_order() {
    let judge = contract();
    let name = "durable:relocation-data-chunk-v1";
    let whole = judge
        .encode_type(name, &json!({ "order": 1, "data": "0102" }))
        .unwrap();
    let decode = |bytes: &[u8]| {
        let refusal = judge.decode_type(name, bytes).unwrap_err();
        (refusal.kind, refusal.field)
    };
    let sealed = |mut bytes: Vec<u8>| {
        bytes.extend(crc32c(&bytes).to_be_bytes());
        bytes
    };
    let changed = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        bytes
    };
    let (body, _) = whole.split_at(whole.len() - 4);
    let is = |kind: Kind, field: &str| (kind, field.to_owned());
    assert_eq!(decode(&changed(3, 0)), is(Kind::InvalidField, "magic"));
    assert_eq!(
        decode(&changed(4, 2)[..5]),
        is(Kind::InvalidField, "version")
    );
    assert_eq!(decode(&changed(6, 1)), is(Kind::InvalidField, "flags"));
    assert_eq!(decode(&whole[..10]).0, Kind::TruncatedField);
    assert_eq!(decode(body).0, Kind::TruncatedField);
    assert_eq!(decode(&[&whole[..], &[0]].concat()).0, Kind::TrailingByte);
    assert_eq!(decode(&changed(12, 9)), is(Kind::InvalidField, "crc32c"));
    // One byte more or less in the body than its fields take.
    let mut long = [body, &[0]].concat();
    long[10] += 1;
    assert_eq!(decode(&sealed(long)).0, Kind::TrailingByte);
    let mut short = body[..body.len() - 1].to_vec();
    short[10] -= 1;
    assert_eq!(decode(&sealed(short)), is(Kind::TruncatedField, "data"));
}
