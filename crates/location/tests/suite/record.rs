//! Rows by examples of our own: exact bytes, and everything that is refused (ST-50 to ST-52).

use spotlane_location::key;
use spotlane_location::record::{
    AuthorityRow, NodeDescriptorRow, OwnerLeaseRow, PendingCreation, Record, RecordError,
};
use spotlane_store::StoreKey;
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::id::OwnerId;

use crate::host::{Host, descriptor, memory, spot};

const LEASE: &str = r#"{"recordVersion":1,"ownerId":"host \"7\"","leaseGeneration":"12"}"#;
const ROW: &str = concat!(
    r#"{"recordVersion":1,"payload":"AAE=","objectGeneration":"9223372036854775806","#,
    r#""authorityOwnerGeneration":"2","ownerId":"h","ownerLeaseGeneration":"3","allocation":{"#,
    r#""state":"active","objectKind":"instanceSpot","stableType":"t","descriptor":{"meshName":"m","#,
    r#""routingIdHex":"00ff"},"descriptorLifecycleGeneration":"4","capacity":{"actors":0,"spots":1,"#,
    r#""spotType":{"objectKind":"instanceSpot","stableType":"t","count":1}}},"pendingCreation":null}"#
);

fn lease_key() -> StoreKey {
    key::owner_lease(&OwnerId::new("host \"7\"").unwrap())
}

fn row_key() -> StoreKey {
    key::authority(&spot("s"))
}

/// ST-50
#[test]
fn rows_of_our_own_are_written_as_they_were_read() {
    let lease = OwnerLeaseRow::decode(&lease_key(), LEASE.as_bytes()).unwrap();
    assert_eq!(lease.encode(), LEASE);
    let row = AuthorityRow::decode(&row_key(), ROW.as_bytes()).unwrap();
    assert_eq!(row.encode(), ROW);
}

/// ST-50: a descriptor made here is read back as it was.
#[tokio::test]
async fn a_descriptor_survives_its_encoding() {
    let (store, _) = memory();
    let host = Host::start("a", &store, store.clone()).await;
    let row = NodeDescriptorRow::of(descriptor("a", &host.held, 5));
    assert_eq!(
        NodeDescriptorRow::decode(&row.key(), &row.encode()).unwrap(),
        row
    );
}

/// RL-84: a request of our own comes back; one that was changed does not.
#[test]
fn an_inline_request_is_checked_against_its_row() {
    let pending = PendingCreation::inline("r".parse().unwrap(), b"make room").unwrap();
    assert_eq!(pending.request().unwrap(), "make room");
    let other = PendingCreation::inline("r".parse().unwrap(), b"make rooM").unwrap();
    let reference = other.request_content_reference;
    let changed = PendingCreation {
        request_content_reference: reference,
        ..pending.clone()
    };
    assert_eq!(changed.request(), None);
    let size = pending.request_encoded_size.get() + 1;
    let size = spotlane_types::count::CreationRequestSize::new(size).unwrap();
    let longer = PendingCreation {
        request_encoded_size: size,
        ..pending
    };
    assert_eq!(longer.request(), None);
    PendingCreation::inline("r".parse().unwrap(), &[0; 4_000]).unwrap_err();
}

/// ST-50: an unknown version is told as such, whatever else the row holds.
#[test]
fn an_unknown_version_is_an_error_of_its_own() {
    for found in ["0", "2", "\"1\"", "1.0", "null"] {
        let text = format!(r#"{{"recordVersion":{found},"wholly":"other"}}"#);
        let error = AuthorityRow::decode(&row_key(), text.as_bytes()).unwrap_err();
        let RecordError::UnknownVersion { found: told, .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(told, found);
        assert!(
            error.to_string().contains("authority\\u{0}spot\\u{0}s"),
            "{error}"
        );
    }
}

/// ST-50, ST-51: nothing is guessed.
#[test]
fn a_row_that_is_not_exactly_one_is_refused() {
    for (from, to) in [
        (
            "\"objectGeneration\":\"9223372036854775806\"",
            "\"objectGeneration\":\"9223372036854775807\"",
        ),
        (
            "\"objectGeneration\":\"9223372036854775806\"",
            "\"objectGeneration\":\"0\"",
        ),
        (
            "\"objectGeneration\":\"9223372036854775806\"",
            "\"objectGeneration\":\"01\"",
        ),
        (
            "\"objectGeneration\":\"9223372036854775806\"",
            "\"objectGeneration\":7",
        ),
        ("\"AAE=\"", "\"AAE\""),
        ("\"AAE=\"", "\"0001\\u0000\""),
        ("\"00ff\"", "\"00FF\""),
        ("\"00ff\"", "\"00f\""),
        ("\"00ff\"", "\"\""),
        ("\"actors\":0", "\"actors\":\"0\""),
        ("\"actors\":0", "\"actors\":-1"),
        ("\"active\"", "\"Active\""),
        ("\"meshName\":\"m\"", "\"meshName\":\"\""),
        (",\"pendingCreation\":null", ""),
        ("{\"recordVersion\":1,", "{\"recordVersion\":1,\"more\":1,"),
        ("\"ownerId\":\"h\"", "\"ownerId\":\"h\",\"ownerId\":\"h\""),
        ("null}", "null} x"),
        ("null}", "null"),
    ] {
        assert!(ROW.contains(from), "{from}");
        let text = ROW.replacen(from, to, 1);
        let refused = AuthorityRow::decode(&row_key(), text.as_bytes());
        assert!(
            matches!(refused, Err(RecordError::NotARow { .. })),
            "{to}: {refused:?}"
        );
    }
    for bytes in [&b""[..], b"\xff", b"[]", b"{}", b"1", b"null"] {
        AuthorityRow::decode(&row_key(), bytes).unwrap_err();
    }
}

/// ST-51: a row belongs to its key, and its capacity to its object.
#[test]
fn a_row_that_contradicts_itself_is_refused() {
    let contradicts = |key: &StoreKey, text: &str| {
        let refused = AuthorityRow::decode(key, text.as_bytes());
        assert!(
            matches!(refused, Err(RecordError::Contradiction { .. })),
            "{refused:?}"
        );
    };
    contradicts(
        &key::authority(&AuthorityKey::Actor("s".parse().unwrap())),
        ROW,
    );
    contradicts(&lease_key(), ROW);
    let start = "\"spotType\":{\"objectKind\":\"";
    contradicts(
        &row_key(),
        &ROW.replace(&format!("{start}instanceSpot"), &format!("{start}userSpot")),
    );
    contradicts(
        &row_key(),
        &ROW.replace(
            "\"stableType\":\"t\",\"count\"",
            "\"stableType\":\"u\",\"count\"",
        ),
    );
    let other = key::owner_lease(&OwnerId::new("other").unwrap());
    assert!(matches!(
        OwnerLeaseRow::decode(&other, LEASE.as_bytes()),
        Err(RecordError::Contradiction { .. })
    ));
}
