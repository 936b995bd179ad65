//! The demo in its short form: it judges itself, and its verdict is what a reader gets.

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
