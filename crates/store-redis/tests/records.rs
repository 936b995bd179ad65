//! The two readers of a record, ours and that of the scripts, on records of every kind (ST-32): random ones, and valid
//! ones with bytes changed, cut out and put in.

#![expect(clippy::unwrap_used, reason = "a test file")]
#![expect(
    dead_code,
    reason = "this file needs a part of what the test files share"
)]

mod common;

use common::{key, open, put};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use spotlane_redis_testkit::{Client, Server};
use spotlane_store::{Condition, ReadOutcome, Recovery, StoreProvider, WriteOutcome, WriteRequest};
use spotlane_store_redis::RedisStore;
use tokio::runtime::Runtime;

/// The record of the key `a`.
const RECORD: &[u8] = b"app1:{zlink-location-v3}:opaque:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
const CASES: u32 = 3_000;

/// One of the forms of a string, not always the shortest one: readers take each.
fn string(bytes: &[u8], form: u8) -> Vec<u8> {
    let size = bytes.len();
    let mut out = match form {
        0 if size < 32 => vec![0xa0 | u8::try_from(size).unwrap()],
        0 | 1 if size < 256 => vec![0xd9, u8::try_from(size).unwrap()],
        0..=2 => [&[0xda][..], &u16::try_from(size).unwrap().to_be_bytes()].concat(),
        _ => [&[0xdb][..], &u32::try_from(size).unwrap().to_be_bytes()].concat(),
    };
    out.extend_from_slice(bytes);
    out
}

fn number(value: u64, form: u8) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    match form {
        0 if value < 128 => vec![bytes[7]],
        0 | 1 if value < 256 => vec![0xcc, bytes[7]],
        0..=2 if value < 65_536 => [&[0xcd], &bytes[6..]].concat(),
        0..=3 if value < 1 << 32 => [&[0xce], &bytes[4..]].concat(),
        _ => [&[0xcf], &bytes[..]].concat(),
    }
}

fn valid() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![9 => Just(b"a".to_vec()), 1 => Just(b"b".to_vec())];
    let value = proptest::collection::vec(any::<u8>(), 0..300);
    let version = "[0-9]{1,40}";
    // Around now, far off, and none; up to what Lua counts exactly, as the scripts write no other.
    let expiry = prop_oneof![Just(0), 0..1_u64 << 53, Just(1), Just(4_000_000_000_000)];
    let forms = proptest::array::uniform4(0..5_u8);
    (name, value, version, expiry, any::<bool>(), forms).prop_map(
        |(name, value, version, expiry, is_tombstone, forms)| {
            let mut bytes = vec![0x01, 0x95];
            bytes.extend(string(&name, forms[0]));
            bytes.extend(string(&value, forms[1]));
            bytes.extend(string(version.as_bytes(), forms[2]));
            bytes.extend(number(expiry, forms[3]));
            bytes.push(if is_tombstone { 0xc3 } else { 0xc2 });
            bytes
        },
    )
}

#[derive(Clone, Debug)]
enum Damage {
    Change(u8),
    Insert(u8),
    Remove,
    Cut,
}

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    // Tags of the format are likelier to be taken for something than any byte.
    let tags = [
        0x00, 0x01, 0x94, 0x95, 0xa0, 0xa1, 0xc0, 0xc2, 0xc3, 0xc4, 0xcf, 0xd9, 0xdb, 0xff,
    ];
    let byte = prop_oneof![any::<u8>(), proptest::sample::select(tags.to_vec())];
    let damage = prop_oneof![
        4 => byte.clone().prop_map(Damage::Change),
        2 => byte.prop_map(Damage::Insert),
        2 => Just(Damage::Remove),
        1 => Just(Damage::Cut),
    ];
    // Mostly near the front, where the structure is.
    let place = prop_oneof![0..12_usize, 0..400_usize];
    let damages = proptest::collection::vec((place, damage), 1..3);
    (valid(), damages).prop_map(|(mut bytes, damages)| {
        for (place, damage) in damages {
            let at = place.min(bytes.len().saturating_sub(1));
            match damage {
                Damage::Change(byte) if !bytes.is_empty() => bytes[at] = byte,
                Damage::Insert(byte) => bytes.insert(at, byte),
                Damage::Remove if !bytes.is_empty() => drop(bytes.remove(at)),
                Damage::Cut => bytes.truncate(at),
                Damage::Change(_) | Damage::Remove => {}
            }
        }
        bytes
    })
}

fn record() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => valid(),
        6 => damaged(),
        1 => proptest::collection::vec(any::<u8>(), 0..60),
    ]
}

/// What a reader took a record for.
#[derive(Debug, PartialEq, Eq)]
enum Taken {
    Malformed,
    Missing,
    There,
}

struct Bench {
    runtime: Runtime,
    store: RedisStore,
    client: std::sync::Mutex<Client>,
}

impl Bench {
    fn plant(&self, member: &[u8]) {
        let mut client = self.client.lock().unwrap();
        client.command_bytes(&[b"DEL", RECORD]).unwrap();
        client
            .command_bytes(&[b"ZADD", RECORD, b"1", member])
            .unwrap();
    }

    /// Rust reads what `read.lua` hands out as it is.
    fn by_rust(&self) -> Taken {
        match self.runtime.block_on(self.store.read(&key("a"))) {
            Ok(ReadOutcome::Found(_)) => Taken::There,
            Ok(ReadOutcome::Missing { .. }) => Taken::Missing,
            Err(error) => {
                assert_eq!(error.recovery(), Recovery::GiveUp, "{error}");
                Taken::Malformed
            }
        }
    }

    /// Lua reads it to judge a condition.
    fn by_lua(&self) -> Taken {
        let missing = WriteRequest::new(vec![Condition::Missing(key("a"))], vec![]).unwrap();
        match self.runtime.block_on(self.store.write(missing)) {
            Ok(WriteOutcome::Applied(_)) => Taken::Missing,
            Ok(WriteOutcome::Conflict) => Taken::There,
            Err(error) => {
                assert_eq!(error.recovery(), Recovery::GiveUp, "{error}");
                Taken::Malformed
            }
        }
    }
}

/// ST-8, ST-32: both readers take the same for a record, for a missing one, and for none; only what the script leaves to
/// its reader, the text of a version and the bounds, may be looser in Lua.
#[test]
fn both_readers_agree_on_every_record() {
    let server = Server::start().unwrap();
    let runtime = Runtime::new().unwrap();
    let store = runtime.block_on(async {
        let store = open(&server.url());
        put(&store, "other", b"v").await;
        store
    });
    let bench = Bench {
        runtime,
        store,
        client: std::sync::Mutex::new(server.client().unwrap()),
    };
    let counts = std::cell::Cell::new([0_u32; 3]);
    let mut runner = TestRunner::new(Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    });
    let agreed = runner.run(&record(), |member| {
        bench.plant(&member);
        let (rust, lua) = (bench.by_rust(), bench.by_lua());
        let mut seen = counts.get();
        match rust {
            Taken::Malformed => seen[0] += 1,
            Taken::Missing => seen[1] += 1,
            Taken::There => seen[2] += 1,
        }
        counts.set(seen);
        let left_to_rust = rust == Taken::Malformed && !has_good_version(&member);
        prop_assert!(
            rust == lua || left_to_rust,
            "rust {:?}, lua {:?}",
            rust,
            lua
        );
        Ok(())
    });
    agreed.unwrap();
    let [malformed, missing, there] = counts.get();
    println!("{CASES} records: {malformed} malformed, {missing} missing, {there} there");
    assert!(malformed > 500 && missing > 200 && there > 200);
}

/// Whether the third string of a record is the text of a version; `true` when the record ends before it.
fn has_good_version(member: &[u8]) -> bool {
    let mut rest = member.get(2..).unwrap_or_default();
    let mut last = None;
    for _ in 0..3 {
        let (head, size) = match rest {
            [tag @ 0xa0..=0xbf, ..] => (1, usize::from(tag & 0x1f)),
            [0xd9, a, ..] => (2, usize::from(*a)),
            [0xda, a, b, ..] => (3, usize::from(u16::from_be_bytes([*a, *b]))),
            [0xdb, a, b, c, d, ..] => {
                let size = u32::from_be_bytes([*a, *b, *c, *d]);
                (5, usize::try_from(size).unwrap())
            }
            _ => return true,
        };
        let Some(text) = rest.get(head..head + size) else {
            return true;
        };
        last = Some(text);
        rest = &rest[head + size..];
    }
    last.is_none_or(|text| !text.is_empty() && std::str::from_utf8(text).is_ok())
}
