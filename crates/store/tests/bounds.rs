//! Arguments at, below and above each bound (ST-4, ST-5), and what their errors say.

#![expect(clippy::unwrap_used, reason = "a test file")]

use std::time::Duration;

use spotlane_store::bound::{
    BATCH_KEYS_MAX, CURSOR_BYTES_MAX, KEY_BYTES_MAX, PAGE_BYTES_MAX, PAGE_ROWS_MAX,
    PREFIX_BYTES_MAX, REFERENCE_BYTES_MAX, REQUEST_BYTES_MAX, TTL_MAX, VALUE_BYTES_MAX,
    VERSION_BYTES_MAX,
};
use spotlane_store::{
    ArgumentError, BlobReference, Condition, Cursor, Failure, KeyPrefix, Mutation, PageBuilder,
    Recovery, Row, ScanRequest, StoreError, StoreKey, StoreTime, StoreValue, StoreVersion, Ttl,
    WriteRequest,
};

fn key(name: &str) -> StoreKey {
    StoreKey::new(name).unwrap()
}

/// Which lengths a constructor takes.
fn taken<T>(make: impl Fn(&str) -> Result<T, ArgumentError>, lengths: &[usize]) -> Vec<bool> {
    lengths
        .iter()
        .map(|length| make(&"k".repeat(*length)).is_ok())
        .collect()
}

/// ST-4, ST-5, ST-92.
#[test]
fn texts_keep_their_bounds() {
    let bounds = |most: usize| [0, 1, most - 1, most, most + 1];
    let expected = [false, true, true, true, false];
    assert_eq!(taken(StoreKey::new, &bounds(KEY_BYTES_MAX)), expected);
    assert_eq!(
        taken(StoreVersion::new, &bounds(VERSION_BYTES_MAX)),
        expected
    );
    assert_eq!(
        taken(BlobReference::new, &bounds(REFERENCE_BYTES_MAX)),
        expected
    );
    let cursor = |text: &str| Cursor::new(text.as_bytes().to_vec());
    assert_eq!(taken(cursor, &bounds(CURSOR_BYTES_MAX)), expected);
    let expected = [true, true, true, true, false];
    assert_eq!(taken(KeyPrefix::new, &bounds(PREFIX_BYTES_MAX)), expected);
    let value = |text: &str| StoreValue::new(text.as_bytes().to_vec());
    assert_eq!(taken(value, &bounds(VALUE_BYTES_MAX)), expected);
}

/// ST-4: bytes count, not letters.
#[test]
fn lengths_are_counted_in_bytes() {
    assert!(StoreKey::new(&"ä".repeat(KEY_BYTES_MAX / 2)).is_ok());
    assert!(StoreKey::new(&"ä".repeat(KEY_BYTES_MAX / 2 + 1)).is_err());
}

/// ST-5.
#[test]
fn limits_keep_their_bounds() {
    let prefix = KeyPrefix::new("").unwrap();
    for (limit, fits) in [
        (0, false),
        (1, true),
        (PAGE_ROWS_MAX, true),
        (PAGE_ROWS_MAX + 1, false),
    ] {
        assert_eq!(
            ScanRequest::first(prefix.clone(), limit).is_ok(),
            fits,
            "{limit}"
        );
    }
}

/// ST-6: a part of a millisecond is a whole one, nothing is no life.
#[test]
fn lives_keep_their_bounds() {
    let millis = |duration| Ttl::new(duration).map(Ttl::as_millis).ok();
    assert_eq!(millis(Duration::ZERO), None);
    assert_eq!(millis(Duration::from_nanos(1)), Some(1));
    assert_eq!(millis(Duration::from_micros(1_001)), Some(2));
    assert!(millis(TTL_MAX).is_some());
    assert_eq!(millis(TTL_MAX + Duration::from_nanos(1)), None);
    assert_eq!(millis(Duration::MAX), None);
}

/// ST-4: over both lists together, a key in both counting once.
#[test]
fn a_batch_keeps_its_number_of_keys() {
    let missing = |range: std::ops::Range<usize>| -> Vec<_> {
        range
            .map(|n| Condition::Missing(key(&n.to_string())))
            .collect()
    };
    let delete = |range: std::ops::Range<usize>| -> Vec<_> {
        range
            .map(|n| Mutation::Delete {
                key: key(&n.to_string()),
            })
            .collect()
    };
    let most = BATCH_KEYS_MAX;
    assert!(WriteRequest::new(missing(0..most), delete(0..most)).is_ok());
    assert!(WriteRequest::new(missing(0..most - 1), delete(1..most)).is_ok());
    assert!(WriteRequest::new(missing(0..most), delete(1..most + 1)).is_err());
    assert!(WriteRequest::new(missing(0..most + 1), vec![]).is_err());
    assert!(WriteRequest::new(vec![], delete(0..most + 1)).is_err());
    assert!(WriteRequest::new(vec![], vec![]).is_ok());
}

/// ST-4: a request of 4 MiB and not a byte more.
#[test]
fn a_request_keeps_its_bytes() {
    let request = |last: usize| {
        let sizes = [1_048_000, 1_048_000, 1_048_000, 1_048_000, last];
        let puts = sizes.iter().enumerate();
        let puts = puts.map(|(n, size)| Mutation::put(key(&n.to_string()), vec![0; *size], None));
        WriteRequest::new(vec![], puts.collect::<Result<_, _>>().unwrap())
    };
    let rest = REQUEST_BYTES_MAX - 4 * 1_048_000 - 5 * 17;
    assert_eq!(request(rest).unwrap().encoded_bytes(), REQUEST_BYTES_MAX);
    assert!(request(rest - 1).is_ok());
    assert!(request(rest + 1).is_err());
}

/// ST-5: a page of 4 MiB and not a byte more; the refused row comes back.
#[test]
fn a_page_keeps_its_bytes_and_rows() {
    let row = |size: usize| Row {
        key: key("k"),
        value: StoreValue::new(vec![0; size]).unwrap(),
        version: StoreVersion::new("v").unwrap(),
        expires_at: None,
    };
    let request = ScanRequest::first(KeyPrefix::new("").unwrap(), 1_000).unwrap();
    let mut page = PageBuilder::new(&request);
    for _ in 0..3 {
        page.push(row(1 << 20)).unwrap();
    }
    let rest = PAGE_BYTES_MAX - 3 * row(1 << 20).encoded_bytes() - row(0).encoded_bytes();
    let refused = page.push(row(rest + 1)).unwrap_err();
    assert_eq!(refused.value.as_bytes().len(), rest + 1);
    page.push(row(rest)).unwrap();
    assert_eq!(page.room_bytes(), 0);
    let request = ScanRequest::first(KeyPrefix::new("").unwrap(), 1).unwrap();
    let mut page = PageBuilder::new(&request);
    page.push(row(1)).unwrap();
    assert!(page.is_full());
    assert!(page.push(row(1)).is_err());
}

/// ST-4: the error names the key and the bound, and no payload.
#[test]
fn errors_name_key_and_bound() {
    let long = Mutation::put(key("a\nkey"), vec![b's'; VALUE_BYTES_MAX + 1], None).unwrap_err();
    let text = "value bytes is 1048577, must be 0 to 1048576 (key \"a\\nkey\")";
    assert_eq!(long.to_string(), text);
    assert_eq!(long.recovery(), Recovery::FixCall);
    let text = StoreKey::new(&"k".repeat(1_025)).unwrap_err().to_string();
    assert!(
        text.starts_with("key bytes is 1025, must be 1 to 1024 (key \"kkk"),
        "{text}"
    );
    assert!(text.len() < 200, "{text}");
    let twice = vec![Condition::Missing(key("a")), Condition::Missing(key("a"))];
    let text = WriteRequest::new(twice, vec![]).unwrap_err().to_string();
    assert_eq!(
        text,
        "the conditions name one key twice, must be once (key \"a\")"
    );
    let text = StoreKey::from_utf8(b"ab\xff").unwrap_err().to_string();
    assert!(
        text.starts_with("key bytes: not a valid text at byte 2"),
        "{text}"
    );
    let text = BlobReference::new("a\0").unwrap_err().to_string();
    assert!(text.contains("at byte 1"), "{text}");
}

/// ST-8: what a caller does about each class, and that no class hides its cause.
#[test]
fn each_class_has_its_recovery() {
    let argument = StoreError::from(StoreKey::new("").unwrap_err());
    assert_eq!(argument.recovery(), Recovery::FixCall);
    assert_eq!(StoreError::transient("t").recovery(), Recovery::Retry);
    assert_eq!(
        StoreError::indeterminate("i").recovery(),
        Recovery::ReadThenDecide
    );
    assert_eq!(StoreError::permanent("p").recovery(), Recovery::GiveUp);
    let cause = std::io::Error::other("cause");
    let error = StoreError::Permanent(Failure::new("m").at_key("k").with_source(cause));
    assert_eq!(error.to_string(), "permanent: m (key \"k\")");
    let failure = std::error::Error::source(&error).unwrap();
    assert_eq!(
        std::error::Error::source(failure).unwrap().to_string(),
        "cause"
    );
}

/// ST-6: expiry is the moment of the commit and the life.
#[test]
fn times_add_up() {
    let now = StoreTime::from_unix_millis(1_000);
    let later = now.after(Ttl::new(Duration::from_secs(1)).unwrap());
    assert_eq!(later.as_unix_millis(), 2_000);
    assert_eq!(now.until(later), Duration::from_secs(1));
    assert_eq!(later.until(now), Duration::ZERO);
}
