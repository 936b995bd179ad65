//! Bytes and names in Redis (ST-31, ST-32, ST-92): by our own examples, and by the public vectors where they are.

#![expect(clippy::unwrap_used, reason = "a test file")]
#![expect(
    dead_code,
    reason = "this file needs a part of what the test files share"
)]

mod common;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use common::{PATIENCE, key, open, open_within, put, put_request, refusal, swap_request, value};
use serde_json::Value;
use spotlane_redis_testkit::{Client, Reply, Server};
use spotlane_store::{
    BlobReference, KeyPrefix, Mutation, RelocationProvider, ScanRequest, StoreProvider, StoreValue,
    Ttl, WriteRequest,
};
use spotlane_store_redis::{RedisOptions, RedisRelocation};

const DOMAIN: &str = "app1:{zlink-location-v3}";

fn current_member(client: &mut Client, record: &str) -> Vec<u8> {
    client
        .command(&["ZREVRANGE", record, "0", "0"])
        .unwrap()
        .parts()[0]
        .bytes()
        .to_vec()
}

/// The next number of the domain's sequence.
fn set_next_version(client: &mut Client, version: u64) {
    let before = (version - 1).to_string();
    client
        .command(&["SET", &format!("{DOMAIN}:sequence"), &before])
        .unwrap();
}

fn records(client: &mut Client) -> Vec<String> {
    let keys = client
        .command(&["KEYS", &format!("{DOMAIN}:opaque:*")])
        .unwrap();
    keys.parts().iter().map(Reply::text).collect()
}

/// ST-31, ST-32: written out by hand. The SHA-256 of `a` is a well-known one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_is_what_the_contract_says() {
    let server = Server::start().unwrap();
    let (store, mut client) = (open(&server.url()), server.client().unwrap());
    value(&store, "a").await;
    set_next_version(&mut client, 500);
    put(&store, "a", b"\xffv").await;
    let record =
        format!("{DOMAIN}:opaque:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb");
    assert_eq!(records(&mut client), std::slice::from_ref(&record));
    let expected = b"\x01\x95\xa1a\xa2\xffv\xa3500\x00\xc2";
    assert_eq!(current_member(&mut client, &record), expected);
    let top = client
        .command(&["ZREVRANGE", &record, "0", "0", "WITHSCORES"])
        .unwrap();
    assert_eq!(top.parts()[1].text(), "500");
}

/// ST-32: the expiry is a number of the smallest form; here one of eight bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expiry_is_written_as_the_contract_says() {
    let server = Server::start().unwrap();
    let (store, mut client) = (open(&server.url()), server.client().unwrap());
    let ttl = Ttl::new(Duration::from_mins(1)).unwrap();
    let outcome = store
        .write(put_request("a", b"v", Some(ttl)))
        .await
        .unwrap();
    let applied = outcome.applied().unwrap();
    let version = applied.versions[0].as_str();
    let expiry = applied.store_now.after(ttl).as_unix_millis();
    let mut expected = b"\x01\x95\xa1a\xa1v".to_vec();
    expected.push(0xa0 + u8::try_from(version.len()).unwrap());
    expected.extend_from_slice(version.as_bytes());
    expected.push(0xcf);
    expected.extend_from_slice(&expiry.to_be_bytes());
    expected.push(0xc2);
    let record = records(&mut client).remove(0);
    assert_eq!(current_member(&mut client, &record), expected);
}

/// ST-9, ST-32: a sequence that fell behind the records, or is lost, never gives a version again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_sequence_gives_no_version_twice() {
    let server = Server::start().unwrap();
    let (store, mut client) = (open(&server.url()), server.client().unwrap());
    let mut versions = vec![put(&store, "a", b"v").await];
    for damage in [["SET", "1"], ["SET", "-7"], ["DEL", ""], ["SET", "0"]] {
        let sequence = format!("{DOMAIN}:sequence");
        let parts = [damage[0], &sequence, damage[1]];
        let parts = if damage[1].is_empty() {
            &parts[..2]
        } else {
            &parts[..]
        };
        client.command(parts).unwrap();
        let version = put(&store, "a", b"v").await;
        assert!(!versions.contains(&version), "{version:?} after {damage:?}");
        versions.push(version);
    }
    // ST-9: also when everything is lost, as by a restart without persistence.
    client.command(&["FLUSHALL"]).unwrap();
    assert!(!versions.contains(&put(&store, "a", b"v").await));
}

/// ST-37: expiry follows the server, and what expired or was deleted leaves Redis in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_records_that_are_gone() {
    let server = Server::start().unwrap();
    let (store, mut client) = (open(&server.url()), server.client().unwrap());
    let ttl = Ttl::new(Duration::from_millis(50)).unwrap();
    for n in 0..100 {
        let name = format!("gone {n}");
        assert!(
            store
                .write(put_request(&name, b"v", Some(ttl)))
                .await
                .unwrap()
                .applied()
                .is_some()
        );
    }
    // The server itself lets the time pass.
    client.command(&["WAIT", "9", "100"]).unwrap();
    for _ in 0..20 {
        put(&store, "stays", b"v").await;
    }
    assert_eq!(records(&mut client).len(), 1);
    let part = |part: &str| format!("{DOMAIN}:{part}");
    assert_eq!(
        client
            .command(&["ZCARD", &part("index")])
            .unwrap()
            .integer(),
        1
    );
    assert_eq!(
        client.command(&["ZCARD", &part("due")]).unwrap().integer(),
        0
    );
    let delete = Mutation::Delete { key: key("stays") };
    let outcome = store
        .write(WriteRequest::new(vec![], vec![delete]).unwrap())
        .await
        .unwrap();
    assert!(outcome.applied().is_some());
    assert!(records(&mut client).is_empty());
    assert_eq!(
        client
            .command(&["ZCARD", &part("index")])
            .unwrap()
            .integer(),
        0
    );
}

/// ST-33: after a script flush the scripts are known again, and each write still happens once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_flush_goes_unnoticed() {
    let server = Server::start().unwrap();
    let store = open(&server.url());
    let mut version = put(&store, "a", b"0").await;
    for n in 0..20 {
        server.command(&["SCRIPT", "FLUSH", "SYNC"]).unwrap();
        let swap = swap_request("a", &version, n.to_string().as_bytes());
        version = store
            .write(swap)
            .await
            .unwrap()
            .applied()
            .unwrap()
            .versions
            .remove(0);
        server.command(&["SCRIPT", "FLUSH", "SYNC"]).unwrap();
        assert_eq!(
            value(&store, "a").await.unwrap(),
            n.to_string().into_bytes()
        );
    }
}

/// ST-30: an ACL user by URL; one without the commands is refused before anything is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acl_users_get_what_they_may() {
    let server = Server::start().unwrap();
    let mut client = server.client().unwrap();
    let app = [
        "ACL",
        "SETUSER",
        "app",
        "on",
        ">se%c:ret",
        "~app1:*",
        "+@all",
        "-@dangerous",
    ];
    client.command(&app).unwrap();
    client
        .command(&[
            "ACL", "SETUSER", "reader", "on", ">pass", "~*", "+@all", "-zadd",
        ])
        .unwrap();
    let url = |user: &str| {
        server
            .url()
            .replace("redis://", &format!("redis://{user}@"))
    };
    let store = open(&url("app:se%25c%3Aret"));
    put(&store, "a", b"v").await;
    assert_eq!(value(&store, "a").await.unwrap(), b"v");
    let before = client.command(&["DBSIZE"]).unwrap();
    for (user, patience) in [
        ("reader:pass", PATIENCE),
        ("app:wrong", Duration::from_secs(1)),
        ("nobody:x", Duration::from_secs(1)),
    ] {
        let store = open_within(&url(user), patience);
        let error = refusal(&store, "b").await;
        assert_eq!(
            error.recovery(),
            spotlane_store::Recovery::GiveUp,
            "{user}: {error}"
        );
    }
    assert_eq!(client.command(&["DBSIZE"]).unwrap(), before);
}

/// The public vectors beside the project, if they are there; they are never copied into it.
#[expect(
    clippy::print_stderr,
    reason = "a test without its source must be seen"
)]
fn vectors() -> Option<Value> {
    let folder = std::env::var_os("SPOTLANE_GOLDEN").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../../shared/golden"
            ))
        },
        PathBuf::from,
    );
    let file = folder.join("store-record-v1.json");
    if !file.exists() {
        eprintln!(
            "SKIPPED: the layout was not compared with the public vectors, {} is not there",
            file.display()
        );
        return None;
    }
    // What is there must be readable.
    Some(serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap())
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    spotlane_types::hex::decode(text).unwrap()
}

/// ST-31: the name of each record of the vectors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vector_keys_are_ours() {
    let Some(vectors) = vectors() else { return };
    let server = Server::start().unwrap();
    let (store, mut client) = (open(&server.url()), server.client().unwrap());
    for vector in vectors["keyDerivation"].as_array().unwrap() {
        let name = String::from_utf8(unhex(text(vector, "preimageHex"))).unwrap();
        put(&store, &name, b"v").await;
        let there = client
            .command(&["EXISTS", text(vector, "redisKey")])
            .unwrap();
        assert_eq!(there.integer(), 1, "{name:?}");
    }
}

/// ST-32: what we write is byte for byte the vector, and what the vector holds is read as what it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vector_members_are_ours() {
    let Some(vectors) = vectors() else { return };
    let server = Server::start().unwrap();
    let (store, mut client) = (open(&server.url()), server.client().unwrap());
    let list = vectors["valueVectors"]["genericOpaqueRecord"]
        .as_array()
        .unwrap();
    assert!(!list.is_empty());
    for vector in list {
        client.command(&["FLUSHALL"]).unwrap();
        let name = text(vector, "originalKey").replace("\\u0000", "\0");
        let bytes = unhex(text(vector, "jsonBytesHex"));
        let expected = unhex(text(vector, "fullValueHex"));
        let version: u64 = text(vector, "version").parse().unwrap();
        let is_tombstone = vector["tombstone"].as_bool().unwrap();
        let has_expired = text(vector, "expiresAtMs") != "0";
        // Settles the fence first, which takes a number of the sequence.
        put(&store, &name, b"before").await;
        let record = records(&mut client).remove(0);
        if is_tombstone {
            put(&store, "another", b"v").await;
            let all = KeyPrefix::new("").unwrap();
            let first = ScanRequest::first(all, 1).unwrap();
            assert!(
                store
                    .scan(first)
                    .await
                    .unwrap()
                    .page()
                    .unwrap()
                    .next()
                    .is_some()
            );
            set_high(&mut client, &record, version);
            let delete = Mutation::Delete { key: key(&name) };
            let request = WriteRequest::new(vec![], vec![delete]).unwrap();
            assert!(store.write(request).await.unwrap().applied().is_some());
        } else if !has_expired {
            client.command(&["DEL", &record]).unwrap();
            set_next_version(&mut client, version);
            put(&store, &name, &bytes).await;
        }
        if !has_expired {
            assert_eq!(
                current_member(&mut client, &record),
                expected,
                "{}",
                text(vector, "name")
            );
        }
        client.command(&["DEL", &record]).unwrap();
        let number = version.to_string();
        client
            .command_bytes(&[b"ZADD", record.as_bytes(), number.as_bytes(), &expected])
            .unwrap();
        let found = store.read(&key(&name)).await.unwrap().found();
        if is_tombstone || has_expired {
            assert!(found.is_none());
        } else {
            let found = found.unwrap();
            assert_eq!(found.value.as_bytes(), &bytes);
            assert_eq!(found.version.as_str(), text(vector, "version"));
        }
    }
}

/// Makes the next number of the sequence this one, above the record's, whose score is lowered.
fn set_high(client: &mut Client, record: &str, version: u64) {
    let member = current_member(client, record);
    client
        .command_bytes(&[b"ZADD", record.as_bytes(), b"1", &member])
        .unwrap();
    // The snapshot of the scan must see that member still, so it begins there.
    let scans = format!("{DOMAIN}:scans");
    let snapshot = client
        .command(&["ZRANGE", &scans, "0", "0", "WITHSCORES"])
        .unwrap();
    let (name, deadline) = (snapshot.parts()[0].text(), snapshot.parts()[1].text());
    let moment = name.split_once(':').unwrap().1;
    client.command(&["ZREM", &scans, &name]).unwrap();
    client
        .command(&["ZADD", &scans, &deadline, &format!("1:{moment}")])
        .unwrap();
    set_next_version(client, version);
}

/// ST-92: the name and the raw bytes of a blob.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vector_blobs_are_ours() {
    let Some(vectors) = vectors() else { return };
    let server = Server::start().unwrap();
    let vector = &vectors["relocationBlob"];
    let bytes = unhex(text(vector, "rawBytesHex"));
    let blobs = RedisRelocation::open(&RedisOptions::new(server.url(), "app1")).unwrap();
    let reference = BlobReference::new(text(vector, "reference")).unwrap();
    let ttl = Ttl::new(Duration::from_mins(1)).unwrap();
    let stored = StoreValue::new(bytes.clone()).unwrap();
    assert!(blobs.put(&reference, stored, ttl).await.is_ok());
    let found = server.command(&["GET", text(vector, "redisKey")]).unwrap();
    assert_eq!(found.bytes(), bytes);
}
