//! Real node processes on a real Redis: start, status, orderly and other ends.

use crate::common::{FAST_SETTINGS, Folder, Node};
use spotlane_redis_testkit::Server;

pub(crate) fn config(name: &str, redis: &Server) -> String {
    format!(
        "[node]\nname = \"{name}\"\n[admin]\nlisten = \"http://127.0.0.1:0\"\n[store]\nurl = \
         \"{}\"\n{FAST_SETTINGS}",
        redis.url()
    )
}

/// Asks again until the answer is right; panics with the last one after a while.
pub(crate) fn eventually<T: std::fmt::Debug>(
    mut ask: impl FnMut() -> T,
    is_right: impl Fn(&T) -> bool,
) -> T {
    let mut last = ask();
    for _ in 0..200 {
        if is_right(&last) {
            return last;
        }
        // Sleep: leases of other processes end by the clock of their store.
        std::thread::park_timeout(std::time::Duration::from_millis(50));
        last = ask();
    }
    panic!("still {last:?}");
}

fn peers(node: &Node) -> Vec<String> {
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
