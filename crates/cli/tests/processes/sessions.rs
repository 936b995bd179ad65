//! Clients of node processes: they log in, ask, are pushed to, and stay connected while their actors move.

use std::time::Duration;

use serde_json::{Value, json};
use spotlane::{Json, Settings};
use spotlane_client::{Client, ClientSettings, CloseReason, Inbox, Incoming, Name, Payload};
use spotlane_counter::Told;
use spotlane_redis_testkit::Server;

use crate::cluster::{PATIENCE, caller, config, eventually, peers};
use crate::common::{Folder, Node};

const WAIT: Duration = Duration::from_secs(30);

fn with_stream(name: &str, redis: &Server) -> String {
    format!(
        "{}[stream]\nlisten = \"tcp://127.0.0.1:0\"\n",
        config(name, redis)
    )
}

async fn connect(node: &Node) -> (Client, Inbox) {
    let settings = ClientSettings::new(node.stream.parse().unwrap()).reconnect(None);
    let (client, inbox) = Client::new(settings).unwrap();
    client.connect().await.unwrap();
    (client, inbox)
}

async fn ask(client: &Client, name: &str, packet: Value) -> Value {
    let packet = Payload::json(packet.to_string());
    let answer = client
        .request(Name::application(name).unwrap(), packet)
        .await
        .unwrap();
    serde_json::from_slice(&answer.bytes).unwrap()
}

async fn pushed(inbox: &mut Inbox, name: &str) -> Value {
    let push = inbox.push(name, WAIT, |_| true).await.unwrap();
    serde_json::from_slice(&push.payload.bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_stays_connected_while_its_actor_moves() {
    let redis = Server::start().unwrap();
    let folder = Folder::new();
    let nodes = ["a", "b"].map(|name| Node::start(&folder, name, &with_stream(name, &redis)));
    let caller = caller(&redis, Settings::default()).await;
    caller.wait_for_peers(2, PATIENCE).await.unwrap();
    for node in &nodes {
        eventually(|| peers(node), |peers| peers.len() == 2);
    }
    let (client, mut inbox) = connect(&nodes[0]).await;
    let login = ask(&client, "login", json!({"actor": "ann"})).await;
    assert_eq!(login["actor"], "ann");
    let owner = login["node"].as_str().unwrap().to_owned();
    let added = ask(&client, "add", json!({"n": 5, "tag": "first"})).await;
    assert_eq!(added, json!({"total": 5, "node": owner}));
    let note = Payload::json(json!({"tag": "second"}).to_string());
    client
        .send(Name::application("note").unwrap(), note)
        .await
        .unwrap();

    let from = nodes.iter().find(|node| node.name == owner).unwrap();
    let to = nodes.iter().find(|node| node.name != owner).unwrap();
    let order = json!({"kind": "actor", "id": "ann", "to": to.name}).to_string();
    assert_eq!(from.post("/v1/relocate", &order).0, 200, "{}", from.log());
    assert_eq!(pushed(&mut inbox, "moved").await, json!({"node": to.name}));
    let added = ask(&client, "add", json!({"n": 2, "tag": "third"})).await;
    assert_eq!(added, json!({"total": 7, "node": to.name}));
    assert_eq!(
        ask(&client, "log", json!({})).await,
        json!(["first", "second", "third"])
    );

    caller
        .actor("ann")
        .send(
            "tell",
            Json(Told {
                text: "hello".to_owned(),
            }),
        )
        .await
        .unwrap();
    assert_eq!(pushed(&mut inbox, "told").await, json!({"text": "hello"}));
    assert_eq!(nodes[0].status()["sessions"], 1);

    // Whoever logs in later has the actor; the one before is closed.
    let (second, _second_inbox) = connect(&nodes[1]).await;
    ask(&second, "login", json!({"actor": "ann"})).await;
    let closed = tokio::time::timeout(WAIT, async {
        loop {
            match inbox.next().await {
                Some(Incoming::Disconnected(reason)) => return Some(reason),
                Some(_) => {}
                None => return None,
            }
        }
    });
    assert!(
        matches!(closed.await.unwrap(), Some(CloseReason::TransportError)),
        "closed otherwise"
    );
    assert_eq!(ask(&second, "add", json!({"n": 1})).await["total"], 8);
    second.close().await;
    caller.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_not_logged_in_is_told_to() {
    let folder = Folder::new();
    let text = "[admin]\nlisten = \"http://127.0.0.1:0\"\n[store]\nurl = \"memory\"\n[stream]\nlisten = \
                \"tcp://127.0.0.1:0\"\n";
    let node = Node::start(&folder, "a", text);
    let (client, _inbox) = connect(&node).await;
    for (name, packet, hint) in [
        ("add", json!({"n": 1}), "log in first"),
        ("login", json!({"player": "ann"}), "missing field `actor`"),
        ("login", json!({"actor": ""}), "InvalidOperation"),
    ] {
        let packet = Payload::json(packet.to_string());
        let error = client
            .request(Name::application(name).unwrap(), packet)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(hint), "{error}");
    }
    ask(&client, "login", json!({"actor": "ann"})).await;
    let nothing = Payload::json("{}");
    let error = client
        .request(Name::application("nothing").unwrap(), nothing)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("NotFound"), "{error}");
}
