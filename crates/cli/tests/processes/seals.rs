//! A move whose route update never comes: the session owner closes its client when the seal has lasted long enough.
//!
//! One round for each process that is killed; `SPOTLANE_SEAL_ROUNDS=20` for more.

use std::time::Duration;

use serde_json::json;
use spotlane_client::{Client, ClientSettings, Inbox, Incoming, Name, Payload};
use spotlane_redis_testkit::Server;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{config, eventually, peers};
use crate::common::{Folder, Node, post};
use crate::kills::from_environment;

/// How long a seal may last: the default of the contract.
const SEAL_TIMEOUT: Duration = Duration::from_secs(3);
/// How much later than that a client may be closed on a machine that is busy with other things.
const SLACK: Duration = Duration::from_secs(27);
/// The state is so large, and goes over in so small pieces, one at a time, that a move is caught in the middle.
const STATE: u64 = 96 << 20;
const SLOW_MOVES: &str =
    "relocation_payload_chunk_limit = 1024\nrelocation_in_flight_payload_budget = 1\n";
/// How long a move has been under way when a process is killed.
const UNDER_WAY: Duration = Duration::from_millis(30);
/// Moves that were over before the kill, in a row, until the test gives up.
const MISSES: u32 = 8;

#[derive(Clone, Copy, Debug)]
enum Victim {
    Source,
    Target,
}

async fn ask(client: &Client, name: &str, packet: serde_json::Value) -> serde_json::Value {
    let packet = Payload::json(packet.to_string());
    let answer = client.request(Name::application(name).unwrap(), packet);
    serde_json::from_slice(&answer.await.unwrap().bytes).unwrap()
}

async fn closed(inbox: &mut Inbox) {
    while let Some(incoming) = inbox.next().await {
        if let Incoming::Disconnected(_) = incoming {
            return;
        }
    }
}

/// Kills one process in the middle of the move of an actor with a client; `false` when the move was over before.
async fn round(victim: Victim) -> bool {
    let redis = Server::start().unwrap();
    let folder = Folder::new();
    let stream = "[stream]\nlisten = \"tcp://127.0.0.1:0\"\n";
    let weightless = "placement_weight = 0\n";
    let text = |name: &str, more: &str| format!("{}{more}", config(name, &redis));
    let owner = text("owner", &format!("{weightless}{stream}"));
    let owner = Node::start(&folder, "owner", &owner);
    let mut source = Node::start(&folder, "source", &text("source", SLOW_MOVES));
    let mut target = Node::start(&folder, "target", &text("target", weightless));
    for node in [&owner, &source, &target] {
        eventually(|| peers(node), |peers| peers.len() == 2);
    }
    let settings = ClientSettings::new(owner.stream.parse().unwrap()).reconnect(None);
    let (client, mut inbox) = Client::new(settings).unwrap();
    client.connect().await.unwrap();
    let login = ask(&client, "login", json!({"actor": "ann"})).await;
    assert_eq!(login["node"], "source");
    ask(&client, "blob", json!({"bytes": STATE})).await;

    let order = json!({"kind": "actor", "id": "ann", "to": "target"}).to_string();
    let (admin, began) = (source.admin.clone(), Instant::now());
    let moved = tokio::task::spawn_blocking(move || post(&admin, "/v1/relocate", &order).0);
    while source.status()["moving"] == 0 && target.status()["actors"] == 0 {
        assert!(began.elapsed() < SLACK, "the move did not begin");
    }
    // Sleep: a moment in the middle is the subject.
    sleep(UNDER_WAY).await;
    let is_over = source.status()["moving"] == 0 || target.status()["actors"] == 1;
    match victim {
        Victim::Source => source.kill(),
        Victim::Target => target.kill(),
    }
    if is_over {
        return false;
    }
    let during = Payload::json(json!({"n": 1}).to_string());
    let held = client.request(Name::application("add").unwrap(), during);
    let (ended, held) = tokio::join!(timeout(SEAL_TIMEOUT + SLACK, closed(&mut inbox)), held);
    let after = began.elapsed();
    if ended.is_err() && victim_left_everything(victim, &target) {
        return false;
    }
    assert!(
        ended.is_ok(),
        "{victim:?}: still connected after {after:?}\n{}",
        owner.log()
    );
    assert!(
        after >= SEAL_TIMEOUT,
        "{victim:?}: closed after {after:?} already"
    );
    assert!(held.is_err(), "{victim:?}: what was held was answered");
    eventually(
        || owner.status()["sessions"].as_u64(),
        |sessions| *sessions == Some(0),
    );
    assert_eq!(owner.get("/readyz").0, 200);
    drop((source, target));
    drop(moved.await);
    true
}

/// Whether the source had sent all of the state when it died: then the target goes on alone, and tells the session owner.
fn victim_left_everything(victim: Victim, target: &Node) -> bool {
    matches!(victim, Victim::Source) && target.status()["actors"] == 1
}

async fn rounds(victim: Victim) {
    for _ in 0..from_environment("SPOTLANE_SEAL_ROUNDS", 1) {
        let mut misses = 0;
        while !round(victim).await {
            misses += 1;
            assert!(misses < MISSES, "{victim:?}: moves are over too soon");
        }
    }
}

/// T-REL-28, SES-6: the source dies with the seal in place, so nobody says where the actor is.
#[tokio::test(flavor = "multi_thread")]
async fn t_rel_28_a_client_is_closed_when_the_source_of_a_move_dies() {
    rounds(Victim::Source).await;
}

/// T-REL-28, SES-6, SRC-12: the target dies, and silence gives the actor back to nobody.
#[tokio::test(flavor = "multi_thread")]
async fn t_rel_28_a_client_is_closed_when_the_target_of_a_move_dies() {
    rounds(Victim::Target).await;
}
