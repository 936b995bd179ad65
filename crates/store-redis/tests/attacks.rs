//! What operators, networks and other programs do to a store while it works (ST-7, ST-8, ST-36).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test file")]
mod common;

use std::time::Duration;

use common::{
    PATIENCE, key, open, open_within, put, put_request, refusal, settled, swap_request, value,
};
use spotlane_redis_testkit::{Cluster, Reply, Server, TlsServer};
use spotlane_store::{Recovery, StoreError, StoreProvider};
use spotlane_store_redis::RedisStore;
use tokio::task::JoinSet;

/// The slot of the domain: CLUSTER KEYSLOT of its hash tag.
fn slot(server: &Server) -> String {
    let slot = server.command(&["CLUSTER", "KEYSLOT", "{zlink-location-v3}"]);
    slot.unwrap().integer().to_string()
}

fn id(server: &Server) -> String {
    server.command(&["CLUSTER", "MYID"]).unwrap().text()
}

/// Moves the slot with its keys to another master, as `redis-cli --cluster reshard` does.
fn move_slot(cluster: &Cluster, from: usize, to: usize) {
    let servers = cluster.servers();
    let (source, target) = (&servers[from], &servers[to]);
    let slot = slot(source);
    let set = |server: &Server, what: &str, node: &str| {
        server
            .command(&["CLUSTER", "SETSLOT", &slot, what, node])
            .unwrap();
    };
    set(target, "IMPORTING", &id(source));
    set(source, "MIGRATING", &id(target));
    loop {
        let keys = source.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
        let keys: Vec<String> = keys.unwrap().parts().iter().map(Reply::text).collect();
        if keys.is_empty() {
            break;
        }
        let port = target.address().port().to_string();
        let mut parts = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        parts.extend(keys.iter().map(String::as_str));
        source.command(&parts).unwrap();
    }
    let node = id(target);
    set(target, "NODE", &node);
    set(source, "NODE", &node);
    for server in servers {
        set(server, "NODE", &node);
    }
}

/// Writes until one is applied; until then nothing may be given up or told wrongly.
async fn swap_at_last(store: &RedisStore, text: &str) {
    for _ in 0..1_000 {
        let found = store.read(&key("a")).await;
        let version = match found {
            Ok(outcome) => outcome.found().unwrap().version,
            Err(error) => {
                assert_eq!(error.recovery(), Recovery::Retry, "{error}");
                continue;
            }
        };
        match store
            .write(swap_request("a", &version, text.as_bytes()))
            .await
        {
            Ok(outcome) => {
                assert!(outcome.applied().is_some(), "nobody else writes it");
                return;
            }
            Err(error) => assert_ne!(error.recovery(), Recovery::GiveUp, "{error}"),
        }
        if value(store, "a").await.as_deref() == Some(text.as_bytes()) {
            return;
        }
    }
    panic!("the store did not find the slot again");
}

/// ST-30, ST-36: a slot that moves to another master and back is followed, and no write is lost, doubled or told wrongly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_is_followed() {
    let cluster = Cluster::start().unwrap();
    let store = open_within(&cluster.url(), Duration::from_secs(5));
    put(&store, "a", b"0").await;
    let servers = cluster.servers();
    let slot = slot(&servers[0]);
    let owner = servers.iter().position(|server| {
        let keys = server.command(&["CLUSTER", "COUNTKEYSINSLOT", &slot]);
        keys.unwrap().integer() > 0
    });
    let owner = owner.unwrap();
    let other = (owner + 1) % servers.len();
    for (round, (from, to)) in [(owner, other), (other, owner)].into_iter().enumerate() {
        move_slot(&cluster, from, to);
        let text = format!("after move {round}");
        swap_at_last(&store, &text).await;
        assert_eq!(value(&store, "a").await.unwrap(), text.into_bytes());
    }
}

/// ST-8, ST-30: a certificate of an authority that is not ours is refused for good, before anything is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_authority_is_refused() {
    let (server, other) = (TlsServer::start().unwrap(), TlsServer::start().unwrap());
    let trusting = |authority: &TlsServer| {
        let path = authority.authority();
        format!("{}?tls-ca={}", server.url(), path.display())
    };
    let good = open(&trusting(&server));
    put(&good, "a", b"v").await;
    let bad = open_within(&trusting(&other), Duration::from_secs(1));
    let error = refusal(&bad, "a").await;
    assert_eq!(error.recovery(), Recovery::GiveUp, "{error:?}");
    let error = bad.read(&key("a")).await.unwrap_err();
    assert_eq!(error.recovery(), Recovery::GiveUp, "{error}");
    assert_eq!(value(&good, "a").await.unwrap(), b"v");
}

/// ST-7, ST-72: answers that come after the timeout are unknown, and what a read then says stays so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_come_too_late_are_unknown() {
    let server = Server::start().unwrap();
    let store = open_within(&server.url(), Duration::from_millis(150));
    let direct = open(&server.url());
    put(&direct, "a", b"0").await;
    settled(&store, "a").await;
    let mut unknown = 0;
    for round in 0..10 {
        server.command(&["CLIENT", "PAUSE", "300", "ALL"]).unwrap();
        let text = format!("late {round}").into_bytes();
        match store.write(put_request("a", &text, None)).await {
            Ok(_) => {}
            Err(error) => {
                unknown += u32::from(error.recovery() == Recovery::ReadThenDecide);
                assert_ne!(error.recovery(), Recovery::GiveUp, "{error}");
            }
        }
        let found = settled(&store, "a").await.unwrap();
        for _ in 0..20 {
            let again = direct.read(&key("a")).await.unwrap().found().unwrap();
            assert_eq!(again.version, found.version, "round {round}");
        }
    }
    assert!(unknown > 0, "no answer was late");
}

/// ST-7, ST-8: a read has no unknown outcome, also not when it shares a call and the answer comes too late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gathered_reads_that_are_late_are_transient() {
    let server = Server::start().unwrap();
    let store = open_within(&server.url(), Duration::from_millis(150));
    put(&open(&server.url()), "a", b"v").await;
    settled(&store, "a").await;
    // To the end of the test, so that the last of them is late as well.
    let pause = ["CLIENT", "PAUSE", "3600000", "ALL"];
    server.command(&pause).unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let store = store.clone();
        tasks.spawn(async move { store.read(&key("a")).await.unwrap_err() });
    }
    while let Some(error) = tasks.join_next().await {
        let error = error.unwrap();
        assert_eq!(error.recovery(), Recovery::Retry, "{error}");
    }
}

/// ST-4, ST-5: the largest values, by many callers at once: no call breaks a bound of the answer or starves another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_values_go_through_side_by_side() {
    let server = Server::start().unwrap();
    let store = open(&server.url());
    let mut tasks = JoinSet::new();
    for n in 0..24_u8 {
        let store = store.clone();
        tasks.spawn(async move {
            let (name, bytes) = (format!("large {n}"), vec![n; 1 << 20]);
            put(&store, &name, &bytes).await;
            for _ in 0..3 {
                assert!(value(&store, &name).await.unwrap() == bytes, "{name}");
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// ST-8: a server without room refuses writes for now; reads go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_for_now() {
    let server = Server::start().unwrap();
    let store = open(&server.url());
    put(&store, "a", b"v").await;
    server
        .command(&["CONFIG", "SET", "maxmemory", "1"])
        .unwrap();
    for _ in 0..3 {
        let error = store.write(put_request("a", b"w", None)).await.unwrap_err();
        assert_eq!(error.recovery(), Recovery::Retry, "{error}");
        assert_eq!(value(&store, "a").await.unwrap(), b"v");
    }
    server
        .command(&["CONFIG", "SET", "maxmemory", "0"])
        .unwrap();
    put(&store, "a", b"w").await;
}

/// ST-8: a permission that is taken away while the store works may have stopped a script half-way, so the first write is
/// unknown; from then on the store says that it may not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_that_is_taken_away_is_reported() {
    let server = Server::start().unwrap();
    let set = |rule: &str| {
        let parts = [
            "ACL", "SETUSER", "app", "on", ">pass", "~app1:*", "+@all", rule,
        ];
        server.command(&parts).unwrap();
    };
    set("+zadd");
    let url = server.url().replace("redis://", "redis://app:pass@");
    let store = open(&url);
    put(&store, "a", b"v").await;
    set("-zadd");
    let error = store.write(put_request("a", b"w", None)).await.unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Indeterminate(_) | StoreError::Permanent(_)
        ),
        "{error}"
    );
    let error = store.write(put_request("a", b"w", None)).await.unwrap_err();
    assert_eq!(error.recovery(), Recovery::GiveUp, "{error}");
    set("+zadd");
    assert_eq!(value(&store, "a").await.unwrap(), b"v");
    put(&store, "a", b"w").await;
}

/// ST-36: many callers while the server dies again and again: each operation ends in its time, none is given up, and the
/// server never sees more than a handful of connections of one store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_keeps_dying_meets_no_storm() {
    const TIMEOUT: Duration = Duration::from_millis(400);
    let mut server = Server::start().unwrap();
    let store = open_within(&server.url(), TIMEOUT);
    settled(&store, "a").await;
    let mut tasks = JoinSet::new();
    for n in 0..100 {
        let store = store.clone();
        tasks.spawn(async move {
            for step in 0..10 {
                let begin = tokio::time::Instant::now();
                let name = format!("{n} {step}");
                if let Err(error) = store.write(put_request(&name, b"v", None)).await {
                    assert_ne!(error.recovery(), Recovery::GiveUp, "{error}");
                }
                if let Err(error) = store.read(&key(&name)).await {
                    assert_eq!(error.recovery(), Recovery::Retry, "{error}");
                }
                // Two operations, each with ten times its time: the machine may be busy with other things.
                assert!(begin.elapsed() < TIMEOUT * 20, "{:?}", begin.elapsed());
            }
        });
    }
    for _ in 0..4 {
        server = tokio::task::spawn_blocking(move || {
            server.restart().unwrap();
            server
        })
        .await
        .unwrap();
        let clients = server.command(&["CLIENT", "LIST"]).unwrap().text();
        assert!(clients.lines().count() <= 4, "{clients}");
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let back = async { while store.write(put_request("a", b"last", None)).await.is_err() {} };
    let back = tokio::time::timeout(PATIENCE, back).await;
    back.expect("the store did not come back");
    let found = settled(&store, "a").await.unwrap();
    assert_eq!(found.value.as_bytes(), &b"last"[..]);
}
