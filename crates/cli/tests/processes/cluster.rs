//! Real node processes on a real Redis: start, status, orderly and other ends.

use std::time::Duration;

use spotlane::redis::{RedisOptions, RedisRelocation, RedisStore};
use spotlane::{Host, Json, Settings};
use spotlane_counter::{Add, Added, Counter, Log};
use spotlane_redis_testkit::Server;
use tokio::time::Instant;

use crate::common::{FAST_SETTINGS, Folder, Node, err, out, spotlane};

pub(crate) fn config(name: &str, redis: &Server) -> String {
    format!(
        "[node]\nname = \"{name}\"\n[admin]\nlisten = \"http://127.0.0.1:0\"\n[store]\nurl = \
         \"{}\"\n{FAST_SETTINGS}",
        redis.url()
    )
}

/// A host in this process that calls the actors of the nodes and takes none itself.
pub(crate) async fn caller(redis: &Server, mut settings: Settings) -> Host {
    settings.placement_weight = 0;
    let options = RedisOptions::new(redis.url(), "spotlane");
    Host::builder()
        .mesh("main")
        .node_id("caller")
        .settings(settings)
        .location_store(RedisStore::open(&options).unwrap())
        .relocation_store(RedisRelocation::open(&options).unwrap())
        .start()
        .await
        .unwrap()
}

/// How long anything may take on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(45);

/// Asks again until the answer is right; panics with the last one after a while.
pub(crate) fn eventually<T: std::fmt::Debug>(
    mut ask: impl FnMut() -> T,
    is_right: impl Fn(&T) -> bool,
) -> T {
    let (began, mut last) = (Instant::now(), ask());
    while began.elapsed() < PATIENCE {
        if is_right(&last) {
            return last;
        }
        // Sleep: leases of other processes end by the clock of their store.
        std::thread::park_timeout(Duration::from_millis(50));
        last = ask();
    }
    panic!("still {last:?}");
}

pub(crate) fn peers(node: &Node) -> Vec<String> {
    let status = node.status();
    let connected = status["peers"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|peer| peer["state"] == "connected");
    connected
        .map(|peer| peer["node"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn nodes_find_each_other_and_notice_who_left() {
    let redis = Server::start().unwrap();
    let folder = Folder::new();
    let start = |name: &str| Node::start(&folder, name, &config(name, &redis));
    let (first, mut second, mut third) = (start("a"), start("b"), start("c"));
    eventually(|| peers(&first), |peers| peers.len() == 2);
    assert_eq!(first.get("/readyz").0, 200);

    // One leaves in order and is gone at once; the other is killed and gone with its lease.
    assert!(second.terminate().success(), "{}", second.log());
    eventually(|| peers(&first), |peers| peers == &["c"]);
    third.kill();
    eventually(|| peers(&first), Vec::is_empty);
    assert_eq!(first.get("/readyz").0, 200, "{}", first.log());
}

#[test]
fn a_node_ends_with_its_leash() {
    let folder = Folder::new();
    let text = "[admin]\nlisten = \"http://127.0.0.1:0\"\n[store]\nurl = \"memory\"\n";
    let mut node = Node::start(&folder, "a", text);
    assert_eq!(node.status()["state"], "serving");
    assert!(node.release().success(), "{}", node.log());
}

#[test]
fn a_node_that_others_reach_asks_for_its_token() {
    let folder = Folder::new();
    let text = "[admin]\nlisten = \"http://0.0.0.0:0\"\ntoken = \"0123456789abcdef\"\n[store]\nurl = \"memory\"\n";
    let mut node = Node::start(&folder, "a", text);
    node.admin = node.admin.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(node.get("/healthz").0, 200);
    assert_eq!(node.get("/v1/status").0, 401);
    let status = |token: &str| {
        let output = crate::common::program()
            .args(["status", "--json", "--admin", &node.admin])
            .env("SPOTLANE_TOKEN", token)
            .output()
            .unwrap();
        output.status.code()
    };
    assert_eq!(status("0123456789abcdef"), Some(0));
    assert_eq!(status("0123456789abcdee"), Some(1));
}

/// Eight counters, each with one addition of its own number.
async fn populate(caller: &Host) {
    for index in 0..8 {
        let id = format!("counter {index}");
        caller.actors().create::<Counter>(&id).await.unwrap();
        let add = Add {
            n: index,
            tag: "t".to_owned(),
            ..Add::default()
        };
        caller.actor(&id).request("add", Json(add)).await.unwrap();
    }
}

async fn nothing_is_missing(caller: &Host) {
    for index in 0..8 {
        let counter = caller.actor(format!("counter {index}"));
        let log = counter.request("log", Json(Log::default()));
        let Json(tags): Json<Vec<String>> = log.reply().await.unwrap();
        assert_eq!(tags, ["t"]);
    }
}

fn owner_of(id: &str, asked: &Node) -> String {
    let output = spotlane(&["find", "actor", id, "--json", "--admin", &asked.admin]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let found: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    found["node"].as_str().unwrap().to_owned()
}

/// The wrong node says which is the right one; the right one moves it.
fn operators_move(id: &str, from: &Node, to: &Node) {
    let relocate = |node: &Node| {
        let admin = ["--admin", &node.admin];
        spotlane(&[&["relocate", "actor", id, "--to", &to.name], &admin[..]].concat())
    };
    let refused = relocate(to);
    assert_eq!(refused.status.code(), Some(1));
    let says = format!("lives on {}", from.name);
    assert!(err(&refused).contains(&says), "{}", err(&refused));
    let moved = relocate(from);
    assert_eq!(moved.status.code(), Some(0), "{}", err(&moved));
    eventually(|| owner_of(id, from), |owner| *owner == to.name);
}

fn operators_drain(from: &Node, to: &Node) {
    let drained = spotlane(&["drain", "--admin", &from.admin]);
    let code = drained.status.code();
    assert_eq!(code, Some(0), "{} {}", err(&drained), from.log());
    assert_eq!(from.status()["actors"], 0);
    assert_eq!(from.status()["state"], "relocated");
    assert_eq!(from.get("/readyz").0, 503);
    // The source knows by the store that they have gone over, which may be before they have opened there.
    eventually(|| to.status()["actors"].as_u64(), |it| *it == Some(8));
    let (code, metrics) = from.get("/metrics");
    assert_eq!(code, 200);
    let figure = "zlink_relocation_interruption_bucket";
    assert!(metrics.contains(figure), "{metrics}");

    // Nobody is left who could take them.
    let blocked = spotlane(&["drain", "--seconds", "2", "--admin", &to.admin]);
    assert_eq!(blocked.status.code(), Some(1));
    let says = "8 objects are still there";
    assert!(err(&blocked).contains(says), "{}", err(&blocked));
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_find_move_and_drain() {
    let redis = Server::start().unwrap();
    let folder = Folder::new();
    let nodes = ["a", "b"].map(|name| Node::start(&folder, name, &config(name, &redis)));
    let caller = caller(&redis, Settings::default()).await;
    caller.wait_for_peers(2, PATIENCE).await.unwrap();
    for node in &nodes {
        eventually(|| peers(node), |peers| peers.len() == 2);
    }
    populate(&caller).await;
    let owner = owner_of("counter 3", &nodes[0]);
    let from = nodes.iter().find(|node| node.name == owner).unwrap();
    let to = nodes.iter().find(|node| node.name != owner).unwrap();
    operators_move("counter 3", from, to);
    let add = Add {
        n: 4,
        ..Add::default()
    };
    let added = caller.actor("counter 3").request("add", Json(add));
    let Json(Added { total, node }) = added.reply().await.unwrap();
    assert_eq!((total, node), (7, to.name.clone()));
    operators_drain(from, to);
    nothing_is_missing(&caller).await;
    caller.shutdown(None).await;
}
