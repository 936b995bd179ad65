//! The figures that issue 3 asks for: lost updates, memory of a hot record, scans beside writers.

#![expect(clippy::unwrap_used, reason = "a test file")]
#![expect(
    dead_code,
    reason = "this file needs a part of what the test files share"
)]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{key, open, put, put_request, swap_request, value};
use spotlane_redis_testkit::Server;
use spotlane_store::{KeyPrefix, Mutation, ScanRequest, StoreKey, StoreProvider, WriteRequest};
use spotlane_store_redis::RedisStore;
use tokio::sync::watch;
use tokio::task::JoinSet;

async fn finish(mut tasks: JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

async fn add_one(store: &RedisStore, name: &str) {
    loop {
        let found = store.read(&key(name)).await.unwrap().found().unwrap();
        let text = std::str::from_utf8(found.value.as_bytes()).unwrap();
        let next = (text.parse::<u64>().unwrap() + 1).to_string();
        let swap = swap_request(name, &found.version, next.as_bytes());
        if store.write(swap).await.unwrap().applied().is_some() {
            return;
        }
    }
}

/// ST-40: 64 tasks of two providers add one 1,000 times each; none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_of_many_tasks_are_all_there() {
    let server = Server::start().unwrap();
    let stores = [open(&server.url()), open(&server.url())];
    put(&stores[0], "counter", b"0").await;
    let mut tasks = JoinSet::new();
    for task in 0..64 {
        let store = stores[task % 2].clone();
        tasks.spawn(async move {
            for _ in 0..1_000 {
                add_one(&store, "counter").await;
            }
        });
    }
    finish(tasks).await;
    assert_eq!(value(&stores[1], "counter").await.unwrap(), b"64000");
}

/// ST-2, ST-71: two providers race for 1,000 records from the same first-read version: one winner each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_of_two_providers_has_one_winner() {
    let server = Server::start().unwrap();
    let stores = [open(&server.url()), open(&server.url())];
    let mut tasks = JoinSet::new();
    for object in 0..1_000 {
        let stores = stores.clone();
        tasks.spawn(async move {
            let name = format!("object {object}");
            let version = put(&stores[0], &name, b"first owner").await;
            let race = [b"owner 0", b"owner 1"].map(|owner| swap_request(&name, &version, owner));
            let [a, b] = race;
            let (a, b) = tokio::join!(stores[0].write(a), stores[1].write(b));
            let won = [
                a.unwrap().applied().is_some(),
                b.unwrap().applied().is_some(),
            ];
            let owner: &[u8] = match won {
                [true, false] => b"owner 0",
                [false, true] => b"owner 1",
                other => panic!("winners {other:?}"),
            };
            assert_eq!(value(&stores[0], &name).await.unwrap(), owner);
        });
    }
    finish(tasks).await;
}

/// ST-34: a record that is put 100,000 times stays below 64 KiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_record_stays_small() {
    let server = Server::start().unwrap();
    let store = open(&server.url());
    // A scan that never goes on holds a snapshot meanwhile.
    for n in 0..3 {
        put(&store, &format!("snapshot {n}"), b"value").await;
    }
    put(&store, "hot", &[b'v'; 200]).await;
    let all = KeyPrefix::new("").unwrap();
    let page = store
        .scan(ScanRequest::first(all, 1).unwrap())
        .await
        .unwrap()
        .page()
        .unwrap();
    assert!(page.next().is_some());
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let store = store.clone();
        tasks.spawn(async move {
            for _ in 0..2_000 {
                let applied = store.write(put_request("hot", &[b'v'; 200], None)).await;
                assert!(applied.unwrap().applied().is_some());
            }
        });
    }
    finish(tasks).await;
    let record = only_record(&server, "hot");
    let bytes = server
        .command(&["MEMORY", "USAGE", &record, "SAMPLES", "0"])
        .unwrap()
        .integer();
    let members = server.command(&["ZCARD", &record]).unwrap().integer();
    assert!((1..64 << 10).contains(&bytes), "{bytes} bytes");
    assert_eq!(members, 2, "the current one and the one of the snapshot");
}

/// The name in Redis of the record with this logical key.
fn only_record(server: &Server, name: &str) -> String {
    let mut client = server.client().unwrap();
    let keys = client
        .command(&["KEYS", "app1:{zlink-location-v3}:opaque:*"])
        .unwrap();
    let holds = |record: &String| {
        let members = client.command(&["ZRANGE", record, "0", "0"]).unwrap();
        // Two bytes of head, one of the length of a short key.
        members.parts()[0].bytes()[3..].starts_with(name.as_bytes())
    };
    keys.parts()
        .iter()
        .map(spotlane_redis_testkit::Reply::text)
        .find(holds)
        .unwrap()
}

/// ST-5, ST-35: 50,000 rows while writers go on; each row once, no command of Redis above 50 ms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_scan_blocks_nobody() {
    let server = Server::start().unwrap();
    let store = open(&server.url());
    let names: Vec<_> = (0..50_000).map(|n| format!("row/{n:06}")).collect();
    for chunk in names.chunks(1_000) {
        let puts = chunk
            .iter()
            .map(|name| Mutation::put(key(name), &[b'v'; 100][..], None));
        let puts = puts.collect::<Result<_, _>>().unwrap();
        let outcome = store
            .write(WriteRequest::new(vec![], puts).unwrap())
            .await
            .unwrap();
        assert!(outcome.applied().is_some());
    }
    server
        .command(&["CONFIG", "SET", "slowlog-log-slower-than", "50000"])
        .unwrap();
    server.command(&["SLOWLOG", "RESET"]).unwrap();
    let prefix = KeyPrefix::new("row/").unwrap();
    let request = ScanRequest::first(prefix.clone(), 1_000).unwrap();
    let mut page = store.scan(request).await.unwrap().page().unwrap();
    let (done, is_done) = watch::channel(());
    let names = Arc::new(names);
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (store, is_done, names) = (store.clone(), is_done.clone(), Arc::clone(&names));
        writers.spawn(async move {
            let mut n = writer * 6_007;
            while is_done.has_changed().is_ok() {
                n = (n + 7_919) % names.len();
                let name = &names[n];
                let request = if n % 3 == 0 {
                    let delete = Mutation::Delete { key: key(name) };
                    WriteRequest::new(vec![], vec![delete]).unwrap()
                } else {
                    put_request(name, b"overwritten", None)
                };
                assert!(store.write(request).await.unwrap().applied().is_some());
            }
        });
    }
    let mut seen: BTreeSet<StoreKey> = BTreeSet::new();
    loop {
        for row in page.rows() {
            assert_eq!(
                row.value.as_bytes(),
                &[b'v'; 100][..],
                "a row from after the first page"
            );
            assert!(seen.insert(row.key.clone()), "{:?} came twice", row.key);
        }
        let Some(next) = page.next().cloned() else {
            break;
        };
        let request = ScanRequest::new(prefix.clone(), 1_000, Some(next)).unwrap();
        page = store.scan(request).await.unwrap().page().unwrap();
    }
    drop(done);
    finish(writers).await;
    assert_eq!(seen.len(), 50_000);
    let slow = server.command(&["SLOWLOG", "GET", "10"]).unwrap();
    assert!(slow.parts().is_empty(), "{slow:?}");
}
