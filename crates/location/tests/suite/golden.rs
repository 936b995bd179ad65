//! Our rows against the public vectors, in place: bytes to value to the same bytes (ST-50, ST-51).
//!
//! The vectors are read next to the checkout; without them these tests only say so. `record` has examples of our
//! own that always run.

use std::path::Path;

use serde_json::Value;
use spotlane_location::counter::Counter;
use spotlane_location::key;
use spotlane_location::record::{
    AuthorityRow, NodeDescriptorRow, OwnerLeaseRow, PendingCreation, Record,
};
use spotlane_store::StoreKey;
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::CreationRequestSize;
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::{MeshName, NodeRid, OperationId, OwnerId, Sha256};

#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn golden(name: &str) -> Option<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden");
    if !folder.is_dir() {
        eprintln!("SKIPPED: {name} was not checked, its source is not beside the checkout");
        return None;
    }
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    spotlane_types::hex::decode(text).unwrap()
}

/// The vectors write NUL as an escape of their own.
fn key_of(case: &Value) -> StoreKey {
    StoreKey::new(&text(case, "originalKey").replace("\\u0000", "\0")).unwrap()
}

fn round_trip<T: Record>(key: &StoreKey, bytes: &[u8]) {
    let row = T::decode(key, bytes).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&row.encode()),
        String::from_utf8_lossy(bytes)
    );
}

/// ST-50, ST-51: every row of a kind that this product has; the others belong to channels that it does not offer.
#[test]
fn rows_are_written_byte_for_byte_as_in_the_vectors() {
    let Some(file) = golden("store-record-v1.json") else {
        return;
    };
    let cases = file["valueVectors"]["genericOpaqueRecord"]
        .as_array()
        .unwrap();
    let mut seen = 0;
    for case in cases {
        let key = key_of(case);
        let bytes = unhex(text(case, "jsonBytesHex"));
        let kind = key.as_str().split('\0').next().unwrap();
        match kind {
            _ if case["tombstone"] == true => continue,
            "mesh-node" => round_trip::<NodeDescriptorRow>(&key, &bytes),
            "owner-lease" => round_trip::<OwnerLeaseRow>(&key, &bytes),
            "authority" => round_trip::<AuthorityRow>(&key, &bytes),
            "client-server" | "fanout-publisher" => continue,
            other => panic!("a kind of row that nobody looks at: {other}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 4);
}

/// RL-84: a request is taken only when form, size and digest are what the row says.
#[test]
fn a_creation_request_is_read_or_refused_as_in_the_vectors() {
    let Some(file) = golden("store-record-v1.json") else {
        return;
    };
    let of = |case: &Value| PendingCreation {
        reservation_id: "r".parse().unwrap(),
        request_content_reference: text(case, "reference").parse().unwrap(),
        request_sha256: Sha256::new(unhex(text(case, "requestSha256")).try_into().unwrap()),
        request_encoded_size: CreationRequestSize::new(30).unwrap(),
    };
    let cases = &file["creationContentReference"];
    for case in cases["accepted"].as_array().unwrap() {
        let payload = unhex(text(case, "payloadHex"));
        assert_eq!(of(case).request().unwrap(), payload);
        assert_eq!(
            PendingCreation::inline("r".parse().unwrap(), &payload).unwrap(),
            of(case)
        );
    }
    for case in cases["rejected"].as_array().unwrap() {
        assert_eq!(of(case).request(), None, "{}", text(case, "name"));
    }
}

/// ST section 5: every logical key that this product uses.
#[test]
fn keys_are_those_of_the_vectors() {
    let Some(file) = golden("store-record-v1.json") else {
        return;
    };
    let rid = NodeRid::new(&[1, 2, 3, 4]).unwrap();
    let ours = |record: &str| match record {
        "mesh-node-descriptor" => Some(key::mesh_node(&MeshName::new("main").unwrap(), &rid)),
        "owner-lease" => Some(key::owner_lease(&OwnerId::new("owner-a").unwrap())),
        "authority-actor" => Some(key::authority(&AuthorityKey::Actor(
            "user:42".parse().unwrap(),
        ))),
        "authority-spot" => Some(key::authority(&AuthorityKey::Spot(
            "room:1".parse().unwrap(),
        ))),
        "creation-terminal" => Some(key::creation_terminal(
            &rid,
            NodeGeneration::new(7).unwrap(),
            OperationId::new(42, 1).unwrap(),
        )),
        "client-server-descriptor" | "fanout-publisher-descriptor" => None,
        other => panic!("a kind of key that nobody looks at: {other}"),
    };
    let mut seen = 0;
    for case in file["keyDerivation"].as_array().unwrap() {
        if let Some(key) = ours(text(case, "record")) {
            assert_eq!(key.as_str().as_bytes(), unhex(text(case, "preimageHex")));
            seen += 1;
        }
    }
    assert_eq!(seen, 5);
}

/// ST-52
#[test]
fn counters_have_the_keys_of_the_vectors() {
    let Some(file) = golden("store-record-v1.json") else {
        return;
    };
    let keys: Vec<&str> = file["counterVectors"]["vectors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| text(case, "logicalKey"))
        .collect();
    let ours = [Counter::Owner, Counter::Object, Counter::AuthorityOwner].map(Counter::key);
    assert_eq!(keys, ours.iter().map(StoreKey::as_str).collect::<Vec<_>>());
}

/// ST-51: the payload vector goes through a row and back.
#[test]
fn the_payload_of_the_vectors_is_read_from_a_row() {
    let (Some(file), Some(rows)) = (
        golden("durable-authority-v1.json"),
        golden("store-record-v1.json"),
    ) else {
        return;
    };
    let case = rows["valueVectors"]["genericOpaqueRecord"]
        .as_array()
        .unwrap()
        .iter()
        .find(|case| case["name"] == "authority-spot-normal")
        .unwrap();
    let key = key_of(case);
    let mut row = AuthorityRow::decode(&key, &unhex(text(case, "jsonBytesHex"))).unwrap();
    row.decode_payload(&key).unwrap_err();
    row.payload = unhex(text(&file, "encodedHex")).into();
    let row = AuthorityRow::decode(&key, &row.encode()).unwrap();
    let payload = row.decode_payload(&key).unwrap();
    assert_eq!(payload.owner_id.as_str(), text(&file["decoded"], "ownerId"));
}
