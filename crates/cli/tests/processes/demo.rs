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
