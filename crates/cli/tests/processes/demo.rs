//! The demo in its short form: it judges itself, and its verdict is what a reader gets.

use std::process::{Command, Output, Stdio};

use crate::common::{err, out, spotlane};

#[test]
fn a_short_demo_keeps_every_promise() {
    let output = spotlane(&[
        "demo",
        "--seconds",
        "3",
        "--rate",
        "500",
        "--moves",
        "20",
        "--actors",
        "16",
        "--senders",
        "12",
        "--state",
        "16KiB",
        "--json",
    ]);
    let verdict: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(verdict["holds"], true, "{verdict}");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let messages = &verdict["messages"];
    for broken in [
        "lost",
        "doubled",
        "out_of_order",
        "ghosts",
        "unanswered",
        "ended_twice",
        "wrong_totals",
    ] {
        assert_eq!(messages[broken], 0, "{verdict}");
    }
    assert!(messages["messages"].as_u64().unwrap() > 1_000, "{verdict}");
    assert!(
        verdict["moves"]["completed"].as_u64().unwrap() > 20,
        "{verdict}"
    );
    assert_eq!(
        verdict["interruption"]["count"], verdict["moves"]["completed"],
        "{verdict}"
    );
    assert!(
        verdict["state_bytes"].as_u64().unwrap() > 20 * 16 * 1_024,
        "{verdict}"
    );
}

/// A short demo with clients, in a shell that sets the limits of descriptors first.
fn with_limits(limits: &str, clients: &str) -> Output {
    let script = format!("ulimit {limits} && exec \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_spotlane")]);
    shell.args(["demo", "--clients", clients, "--seconds", "1"]);
    shell.args(["--rate", "100", "--senders", "4", "--state", "1KiB"]);
    shell.args(["--crossing-ms", "5000", "--json"]);
    shell.stdin(Stdio::null()).output().unwrap()
}

/// 150 clients are 300 sockets: the soft limit is raised to the hard one, and what the hard one does not allow is said.
#[test]
fn the_limit_of_descriptors_is_raised_to_the_hard_one() {
    let raised = with_limits("-Sn 200", "150");
    assert_eq!(raised.status.code(), Some(0), "{}", err(&raised));
    let verdict: serde_json::Value = serde_json::from_str(&out(&raised)).unwrap();
    assert_eq!(verdict["clients"]["connected"], 150, "{verdict}");

    let refused = with_limits("-n 200", "150");
    assert_eq!(refused.status.code(), Some(1));
    let said = err(&refused);
    assert!(
        said.contains("this process may have 200") && said.contains("ulimit -Hn"),
        "{said}"
    );
}

/// Clients on real connections, each with a request in flight whenever its actor begins to move.
#[test]
fn clients_stay_connected_while_every_actor_moves_twice() {
    let output = spotlane(&[
        "demo",
        "--clients",
        "64",
        "--seconds",
        "4",
        "--rate",
        "400",
        "--senders",
        "8",
        "--state",
        "4KiB",
        // Not a measurement: other tests run beside it.
        "--crossing-ms",
        "5000",
        "--json",
    ]);
    let verdict: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(verdict["holds"], true, "{verdict}");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(verdict["clients"]["connected"], 64, "{verdict}");
    assert_eq!(verdict["clients"]["closed"], 0, "{verdict}");
    assert!(verdict["moves"]["fewest"].as_u64() >= Some(2), "{verdict}");
    let crossed = verdict["crossing"]["count"].as_u64();
    assert!(crossed >= Some(64), "{verdict}");
}
