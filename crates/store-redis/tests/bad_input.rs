//! What others, or a defect, left in Redis: each a clear error, and nothing is written (ST-8, ST-32).

#![expect(clippy::unwrap_used, reason = "a test file")]
#![expect(
    dead_code,
    reason = "this file needs a part of what the test files share"
)]

mod common;

use common::{key, open, put, put_request, value};
use spotlane_redis_testkit::{Client, Server};
use spotlane_store::{
    Condition, KeyPrefix, Recovery, ScanRequest, StoreError, StoreProvider, WriteRequest,
};
use spotlane_store_redis::{OpenError, RedisOptions, RedisStore};

const DOMAIN: &str = "app1:{zlink-location-v3}";
/// The record of the key `a`.
const RECORD: &str = "app1:{zlink-location-v3}:opaque:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";

fn malformed() -> Vec<(&'static str, Vec<u8>)> {
    let mut long = b"\x01\x95\xa1a\xdb\x00\x10\x00\x01".to_vec();
    long.extend(vec![b'v'; (1 << 20) + 1]);
    long.extend(b"\xa11\x00\xc2");
    vec![
        ("empty", b"".to_vec()),
        (
            "unknown format tag",
            b"\x02\x95\xa1a\xa1v\xa11\x00\xc2".to_vec(),
        ),
        ("no array", b"\x01\xa1a".to_vec()),
        ("an array of four", b"\x01\x94\xa1a\xa1v\xa11\x00".to_vec()),
        (
            "an array of six",
            b"\x01\x96\xa1a\xa1v\xa11\x00\xc2\xc2".to_vec(),
        ),
        (
            "an array16 of five",
            b"\x01\xdc\x00\x05\xa1a\xa1v\xa11\x00\xc2".to_vec(),
        ),
        (
            "key of another record",
            b"\x01\x95\xa1b\xa1v\xa11\x00\xc2".to_vec(),
        ),
        (
            "value of the bin family",
            b"\x01\x95\xa1a\xc4\x01v\xa11\x00\xc2".to_vec(),
        ),
        (
            "version a number",
            b"\x01\x95\xa1a\xa1v\x01\x00\xc2".to_vec(),
        ),
        (
            "expiry negative",
            b"\x01\x95\xa1a\xa1v\xa11\xff\xc2".to_vec(),
        ),
        (
            "expiry a float",
            b"\x01\x95\xa1a\xa1v\xa11\xcb\x00\x00\x00\x00\x00\x00\x00\x00\xc2".to_vec(),
        ),
        (
            "tombstone a number",
            b"\x01\x95\xa1a\xa1v\xa11\x00\x00".to_vec(),
        ),
        ("tombstone nil", b"\x01\x95\xa1a\xa1v\xa11\x00\xc0".to_vec()),
        (
            "bytes left over",
            b"\x01\x95\xa1a\xa1v\xa11\x00\xc2\x00".to_vec(),
        ),
        ("value cut short", b"\x01\x95\xa1a\xd9\xffv".to_vec()),
        ("length cut short", b"\x01\x95\xa1a\xdb\x00".to_vec()),
        ("no tombstone", b"\x01\x95\xa1a\xa1v\xa11\x00".to_vec()),
        ("value too long", long),
        (
            "version not utf-8",
            b"\x01\x95\xa1a\xa1v\xa1\xff\x00\xc2".to_vec(),
        ),
        ("version empty", b"\x01\x95\xa1a\xa1v\xa0\x00\xc2".to_vec()),
    ]
}

fn plant(client: &mut Client, member: &[u8]) {
    client.command(&["DEL", RECORD]).unwrap();
    client
        .command_bytes(&[b"ZADD", RECORD.as_bytes(), b"1", member])
        .unwrap();
}

fn dump(client: &mut Client) -> Vec<Vec<u8>> {
    let keys = client.command(&["KEYS", "app1:*"]).unwrap();
    let mut all: Vec<_> = keys
        .parts()
        .iter()
        .map(spotlane_redis_testkit::Reply::text)
        .collect();
    // Numbers of the sequence are used up by attempts as well; fences are the client's own.
    all.retain(|key| !key.ends_with(":sequence") && !key.contains(":fence:"));
    all.sort();
    all.iter()
        .map(|key| client.command(&["DUMP", key]).unwrap().bytes().to_vec())
        .collect()
}

fn assert_refused(what: &str, error: &StoreError) {
    assert_eq!(error.recovery(), Recovery::GiveUp, "{what}: {error}");
    assert!(
        error.to_string().contains("key \"a\""),
        "{what}: {error} names no key"
    );
}

/// ST-8, ST-32: read, scan, conditional and unconditional write of a record that is not one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_record_is_a_permanent_error() {
    let server = Server::start().unwrap();
    let (store, mut client) = (open(&server.url()), server.client().unwrap());
    put(&store, "a", b"v").await;
    put(&store, "other", b"v").await;
    for (what, member) in malformed() {
        plant(&mut client, &member);
        let before = dump(&mut client);
        assert_refused(what, &store.read(&key("a")).await.unwrap_err());
        let scan = ScanRequest::first(KeyPrefix::new("").unwrap(), 10).unwrap();
        assert_refused(what, &store.scan(scan).await.unwrap_err());
        // A script reads headers only, so the bounds and the text of a version are the readers' business.
        if !what.contains("too long") && !what.starts_with("version ") || what.contains("number") {
            let put = put_request("a", b"new", None);
            assert_refused(what, &store.write(put).await.unwrap_err());
            let conditions = vec![Condition::Missing(key("a"))];
            let (_, mutations) = put_request("other", b"new", None).into_parts();
            let request = WriteRequest::new(conditions, mutations).unwrap();
            assert_refused(what, &store.write(request).await.unwrap_err());
        }
        // The snapshot of the scan that failed is all that may be new.
        client
            .command(&["DEL", &format!("{DOMAIN}:scans")])
            .unwrap();
        assert_eq!(dump(&mut client), before, "{what} changed something");
        assert_eq!(value(&store, "other").await.unwrap(), b"v");
    }
}

/// ST-8: keys of Redis that are of another type.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_type_is_a_permanent_error() {
    let server = Server::start().unwrap();
    let (store, mut client) = (open(&server.url()), server.client().unwrap());
    value(&store, "a").await;
    client.command(&["RPUSH", RECORD, "x"]).unwrap();
    let before = dump(&mut client);
    assert_refused("a list", &store.read(&key("a")).await.unwrap_err());
    assert_refused(
        "a list",
        &store.write(put_request("a", b"v", None)).await.unwrap_err(),
    );
    assert_eq!(dump(&mut client), before);
    client.command(&["DEL", RECORD]).unwrap();
    for part in ["index", "scans", "due", "sequence"] {
        let name = format!("{DOMAIN}:{part}");
        client.command(&["DEL", &name]).unwrap();
        client.command(&["RPUSH", &name, "x"]).unwrap();
        let before = dump(&mut client);
        let error = store.write(put_request("a", b"v", None)).await.unwrap_err();
        assert_eq!(error.recovery(), Recovery::GiveUp, "{part}: {error}");
        assert_eq!(dump(&mut client), before, "{part}");
        if part != "due" {
            let scan = ScanRequest::first(KeyPrefix::new("").unwrap(), 10).unwrap();
            let error = store.scan(scan).await.unwrap_err();
            assert_eq!(error.recovery(), Recovery::GiveUp, "{part}: {error}");
        }
        client.command(&["DEL", &name]).unwrap();
    }
    put(&store, "a", b"v").await;
}

/// ST-2, ST-8: what shares a call with a refused write is not harmed by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_record_harms_no_neighbor() {
    let server = Server::start().unwrap();
    let (store, mut client) = (open(&server.url()), server.client().unwrap());
    value(&store, "a").await;
    plant(&mut client, b"\x07");
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..200 {
        let store = store.clone();
        tasks.spawn(async move {
            if n % 2 == 0 {
                let error = store.write(put_request("a", b"v", None)).await.unwrap_err();
                assert_refused("a bad record", &error);
                assert_refused("a bad record", &store.read(&key("a")).await.unwrap_err());
            } else {
                let name = format!("neighbor {n}");
                put(&store, &name, b"v").await;
                assert_eq!(value(&store, &name).await.unwrap(), b"v");
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// ST-30: options are checked before anything is sent; no error shows the password.
#[tokio::test]
async fn bad_options_are_refused() {
    let open = |url: &str, prefix: &str| RedisStore::open(&RedisOptions::new(url, prefix));
    for url in [
        "",
        "nonsense",
        "http://127.0.0.1",
        "redis://",
        "redis-ring://127.0.0.1:1",
        "redis://u:secret@127.0.0.1:99999",
        "redis-sentinel://u:secret@127.0.0.1:1",
        "redis://127.0.0.1/x",
        "redis://127.0.0.1:1?tls-ca=/tmp/x",
    ] {
        let error = open(url, "app1").unwrap_err();
        assert!(matches!(error, OpenError::Url { .. }), "{url}: {error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
    let authority = "rediss://127.0.0.1:1?tls-ca=/nowhere/ca.pem";
    assert!(matches!(
        open(authority, "app1").unwrap_err(),
        OpenError::Certificates { .. }
    ));
    let url = "redis://127.0.0.1:1";
    assert!(matches!(
        open(url, "").unwrap_err(),
        OpenError::PrefixLength { bytes: 0 }
    ));
    assert!(matches!(
        open(url, "a{b}").unwrap_err(),
        OpenError::PrefixBrace
    ));
    let options = RedisOptions::new("redis://u:secret@127.0.0.1:1", "app1");
    assert!(!format!("{options:?}").contains("secret"));
    let none = options.operation_timeout(std::time::Duration::ZERO);
    assert!(matches!(
        RedisStore::open(&none).unwrap_err(),
        OpenError::Timeout { millis: 0 }
    ));
}
