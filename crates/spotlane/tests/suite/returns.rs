//! A move whose source never hears that its target is ready: what its lane holds, and an object that comes back meanwhile.

use std::time::Duration;

use spotlane::prelude::*;

use crate::app::{Shared, Stores, builder, settings, text};
use crate::proxy::{Proxy, Way, Wire};
use crate::transfer::started;

/// How long anything may take before it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two hosts and a counter `c` that lives on the second; the wire steers what goes from the first to the second.
async fn on_the_second(settings: Settings) -> (Host, Host, Wire) {
    let (stores, wire) = (Stores::new(), Wire::new());
    let before_a = Proxy::start(&wire, Way::Out).await;
    let before_b = Proxy::start(&wire, Way::In).await;
    let at = |name, proxy: &Proxy| {
        builder(name, &stores, &Shared::default())
            .listen(proxy.listen())
            .advertise(proxy.advertise())
            .settings(settings.clone())
    };
    let (a, b) = started(at("a", &before_a), at("b", &before_b)).await;
    let there = a.relocate_within("c", b.node_id(), PATIENCE);
    there.await.unwrap();
    text(&b, "c", "place").await.unwrap();
    (a, b, wire)
}

/// The second host gives up on the reply long before the first one stops waiting for the cutover.
fn impatient() -> Settings {
    let mut settings = settings();
    settings.relocate_deadline = Duration::from_secs(1);
    settings.relocation_cutover_wait_timeout = Duration::from_secs(4);
    // So that its looks at the row are soon seconds apart.
    settings.polling_interval = Duration::from_secs(5);
    settings
}

/// Moves `c` to the first host, whose reply never comes, and sends notes to it until it has opened there.
async fn lost_reply(a: &Host, b: &Host, wire: &Wire) -> Vec<String> {
    wire.stop_after(0);
    let error = b.relocate("c", a.node_id()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    let opened = async {
        while a.status().actors == 0 {
            tokio::task::yield_now().await;
        }
    };
    let opened = tokio::time::timeout(PATIENCE, opened);
    tokio::pin!(opened);
    let mut sent = Vec::new();
    loop {
        let note = format!("n{}", sent.len());
        b.actor("c").send("note", note.clone()).await.unwrap();
        sent.push(note);
        // The sender has its pace.
        let paused = tokio::time::timeout(Duration::from_millis(20), &mut opened);
        if let Ok(opened) = paused.await {
            opened.expect("it opens there");
            return sent;
        }
    }
}

/// Waits until `c` has handled all of these, in this order, and nothing else.
async fn handled(host: &Host, sent: &[String]) {
    let expected = sent.join(",");
    let mut seen = String::new();
    let all = tokio::time::timeout(PATIENCE, async {
        while seen != expected {
            seen = match text(host, "c", "log").await {
                Ok(log) => log,
                Err(error) => error.to_string(),
            };
        }
    });
    if all.await.is_err() {
        assert_eq!(seen, expected);
    }
}

/// SRC-12, SRC-21, RL-150, RL-356: a commit that is seen in the row, without a ready reply, lets everything that the sealed
/// lane held go along the route, in order.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_lane_held_follows_a_commit_that_was_only_read() {
    let (a, b, wire) = on_the_second(impatient()).await;
    let sent = lost_reply(&a, &b, &wire).await;
    wire.cut_after(0);
    wire.go_on();
    handled(&b, &sent).await;
    assert_eq!(text(&b, "c", "place").await.unwrap(), "a");
    assert_eq!((a.status().actors, b.status().actors), (1, 0));
}

/// SRC-12, RL-356, TGT-5: an object that comes back while its move away is still unsettled is taken, although nobody told
/// the earlier target that its tenure has ended; and what the sealed lane held is handled in the new tenure.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_comes_back_before_its_move_away_is_settled() {
    let (a, b, wire) = on_the_second(impatient()).await;
    let sent = lost_reply(&a, &b, &wire).await;
    wire.cut_after(0);
    wire.go_on();
    let back = tokio::time::timeout(PATIENCE, async {
        while a.relocate("c", b.node_id()).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    back.await.unwrap();
    handled(&b, &sent).await;
    assert_eq!(text(&a, "c", "place").await.unwrap(), "b");
    // It moves on as any other, and nothing of the unsettled move takes its route away.
    let away = tokio::time::timeout(PATIENCE, async {
        while b.relocate("c", a.node_id()).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    away.await.unwrap();
    assert_eq!(text(&b, "c", "place").await.unwrap(), "a");
    handled(&b, &sent).await;
}
