//! One host: creation, handlers, timers, errors, end.

use std::time::Duration;

use spotlane::memory::MemoryStore;
use spotlane::prelude::*;
use spotlane::{Shutdown, StartError};

use crate::app::{self, Counter, Shared, Stores, add, host, refuses_and_fails, text};

/// RL-90, RL-92, EX-261, EX-368: the first creation creates, the second finds, and messages are handled in order.
#[tokio::test(flavor = "multi_thread")]
async fn an_actor_is_created_once_and_counts() {
    let (host, _) = host("a", &Stores::new()).await;
    let first = host.actors().get_or_create::<Counter>("c").await.unwrap();
    assert!(first.is_created());
    let second = host.actors().get_or_create::<Counter>("c").await.unwrap();
    assert_eq!(
        second,
        Creation::Existing {
            actor: first.actor().unwrap().clone()
        }
    );
    for n in 1..=5 {
        add(&host, "c", n).await.unwrap();
    }
    host.actor("c").send("note", "end").await.unwrap();
    assert_eq!(text(&host, "c", "log").await.unwrap(), "1,2,3,4,5,end");
    assert_eq!(host.status().actors, 1);
}

/// RL-90, RL-92, RL-93: what a taken id answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_taken_id_is_refused_by_kind() {
    let (host, _) = host("a", &Stores::new()).await;
    host.actors().create::<Counter>("c").await.unwrap();
    let again = host.actors().create::<Counter>("c").await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let other = host
        .actors()
        .get_or_create_type("c", "other")
        .await
        .unwrap_err();
    assert_eq!(other.kind(), ErrorKind::TypeMismatch);
    let unknown = host.actors().create_type("d", "other").await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Unavailable);
    let illegal = host.actors().create::<Counter>("").await.unwrap_err();
    assert_eq!(illegal.kind(), ErrorKind::InvalidOperation);
}

/// RL-43, RL-85, EX-361: a refused or failed creation never leaves a ready Actor, and the address stays free.
#[tokio::test(flavor = "multi_thread")]
async fn on_create_decides() {
    let (host, _) = host("a", &Stores::new()).await;
    refuses_and_fails(&host).await;
    assert_eq!(host.status().actors, 0);
    let made = host
        .actors()
        .create::<Counter>("c")
        .request("hello")
        .await
        .unwrap();
    let Creation::Created {
        reply: Some(reply), ..
    } = made
    else {
        panic!("{made:?}");
    };
    assert_eq!(reply.as_bytes(), "welcome");
    assert_eq!(text(&host, "c", "log").await.unwrap(), "hello");
}

/// RL-80, EX-282: an option is set once.
#[tokio::test(flavor = "multi_thread")]
async fn an_option_set_twice_is_an_error_before_anything_happens() {
    let (host, _) = host("a", &Stores::new()).await;
    let second = Duration::from_secs(1);
    let twice = host
        .actors()
        .create::<Counter>("c")
        .timeout(second)
        .timeout(second);
    assert_eq!(twice.await.unwrap_err().kind(), ErrorKind::InvalidOperation);
    let twice = host
        .actor("c")
        .request("add", "1")
        .timeout(second)
        .timeout(second);
    assert_eq!(twice.await.unwrap_err().kind(), ErrorKind::InvalidOperation);
    assert_eq!(host.actors().find("c").await.unwrap(), None);
}

/// EX-12, EX-106, EX-340, EX-344, EX-348, EX-351, EX-356: how a request fails is told apart by kind, and the Actor goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_handler_fails_its_own_request_only() {
    let (host, _) = host("a", &Stores::new()).await;
    host.actors().create::<Counter>("c").await.unwrap();
    let kind = |name: &'static str| {
        let call = host.actor("c").request(name, ());
        async move { call.await.unwrap_err().kind() }
    };
    assert_eq!(kind("fail").await, ErrorKind::Rejected);
    assert_eq!(kind("explode").await, ErrorKind::InternalFailure);
    assert_eq!(kind("nothing").await, ErrorKind::NotFound);
    // The payload is no text.
    assert_eq!(kind("add").await, ErrorKind::ProtocolError);
    assert_eq!(add(&host, "c", 3).await.unwrap(), "3");
    let nobody = add(&host, "nobody", 1).await.unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::NotFound);
}

/// EX-268, EX-269, EX-301: a timeout ends the wait; what is still queued then never runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_ends_the_wait_and_what_was_queued() {
    let (host, shared) = host("a", &Stores::new()).await;
    host.actors().create::<Counter>("c").await.unwrap();
    let long = host.actor("c");
    let running = tokio::spawn(async move { long.request("wait", ()).await });
    shared.began.notified().await;
    let call = host
        .actor("c")
        .request("add", "7")
        .timeout(Duration::from_millis(20));
    assert_eq!(call.await.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    shared.gate.notify_one();
    running.await.unwrap().unwrap();
    assert_eq!(text(&host, "c", "log").await.unwrap(), "");
}

/// EX-37, EX-40: an Actor may ask another one, and is told at once that it cannot ask itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_actor_asks_another_but_not_itself() {
    let (host, _) = host("a", &Stores::new()).await;
    host.actors().create::<Counter>("c").await.unwrap();
    host.actors().create::<Counter>("d").await.unwrap();
    let other: String = host.actor("c").request("ask", "d").reply().await.unwrap();
    assert_eq!(other, "1");
    let itself = host.actor("c").request("ask", "c").await.unwrap_err();
    assert_eq!(itself.kind(), ErrorKind::InvalidOperation);
}

/// EX-37, EX-154: a handle of the host that was moved into a handler does not wait for that handler: neither for an answer
/// nor for the end of the Actor. It is told at once and nothing has happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_handle_of_the_host_does_not_wait_for_its_own_turn() {
    let (host, _) = host("a", &Stores::new()).await;
    host.actors().create::<Counter>("c").await.unwrap();
    for what in ["ask", "destroy"] {
        let refused = host.actor("c").request("outside", what).await.unwrap_err();
        // A wait would have ended as `DeadlineExceeded`.
        assert_eq!(refused.kind(), ErrorKind::InvalidOperation, "{what}");
    }
    assert_eq!(add(&host, "c", 1).await.unwrap(), "1");
}

/// EX-230, EX-232, EX-234: a timer fires in order until it is cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn a_timer_fires_until_it_is_cancelled() {
    let (host, shared) = host("a", &Stores::new()).await;
    host.actors().create::<Counter>("c").await.unwrap();
    host.actor("c").request("start", ()).await.unwrap();
    for _ in 0..3 {
        shared.ticked.notified().await;
    }
    assert_eq!(text(&host, "c", "stop").await.unwrap(), "true");
    assert_eq!(text(&host, "c", "stop").await.unwrap(), "false");
}

/// RL-8, RL-97: destroy finishes what was accepted, names one incarnation, and a new one may follow, which handles what is
/// sent to the bare id.
#[tokio::test(flavor = "multi_thread")]
async fn destroy_ends_exactly_one_incarnation() {
    let (host, shared) = host("a", &Stores::new()).await;
    let made = host.actors().create::<Counter>("c").await.unwrap();
    let actor = made.actor().unwrap().clone();
    let waiting = host.actor("c");
    let accepted = tokio::spawn(async move { waiting.request("wait", ()).await });
    shared.began.notified().await;
    let (actors, first) = (host.actors(), actor.clone());
    let destroyed = tokio::spawn(async move { actors.destroy(&first).await });
    loop {
        // Admission closes at once; until then the request waits behind the running one and ends by its own timeout.
        let call = host
            .actor("c")
            .request("add", "1")
            .timeout(Duration::from_millis(20));
        if call.await.unwrap_err().kind() == ErrorKind::Unavailable {
            break;
        }
    }
    shared.gate.notify_one();
    assert!(destroyed.await.unwrap().unwrap());
    accepted.await.unwrap().unwrap();
    assert!(!host.actors().destroy(&actor).await.unwrap());
    let next = host.actors().create::<Counter>("c").await.unwrap();
    assert_ne!(next.actor().unwrap().generation(), actor.generation());
    let old = host.actors().destroy(&actor).await.unwrap_err();
    assert_eq!(old.kind(), ErrorKind::InvalidOperation);
    assert_eq!(add(&host, "c", 1).await.unwrap(), "1");
}

/// RL-2, RL-121, EX-353: what is registered wrongly does not start, and every fault is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_registration_does_not_start() {
    let stores = Stores::new();
    let twice = app::builder("a", &stores, &Shared::default())
        .actor(Policy::disable(), Counter::default)
        .start()
        .await;
    let Err(StartError::Registration { faults }) = twice else {
        panic!("{twice:?}");
    };
    assert_eq!(faults, ["actor type \"counter\" is registered twice"]);
    let without = Host::builder()
        .mesh("test")
        .location_store(MemoryStore::new(spotlane::store_time))
        .actor(Policy::recreate(), Counter::default)
        .start()
        .await;
    assert!(
        matches!(without, Err(StartError::Missing { .. })),
        "{without:?}"
    );
}

/// TR-12: a host that nobody names draws an id at each start: the prefix and a UUID of version 4.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_a_name_draws_one_behind_its_prefix() {
    let unnamed = || {
        Host::builder()
            .mesh("test")
            .location_store(MemoryStore::new(spotlane::store_time))
    };
    let one = unnamed().node_prefix("lobby.1").start().await.unwrap();
    let other = unnamed().node_prefix("lobby.1").start().await.unwrap();
    assert_ne!(one.node_id(), other.node_id());
    let id = std::str::from_utf8(one.node_id().as_bytes()).unwrap();
    let uuid = id.strip_prefix("lobby.1-").unwrap();
    let parts: Vec<_> = uuid.split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12]);
    assert_eq!((&uuid[14..15], uuid.to_lowercase()), ("4", uuid.to_owned()));
    let default = unnamed().start().await.unwrap();
    assert!(default.node_id().as_bytes().starts_with(b"spotlane-"));
    let refused = unnamed().node_prefix("no spaces").start().await;
    assert!(matches!(refused, Err(StartError::Prefix(_))), "{refused:?}");
}

/// RL-220, RL-221, EX-306: shutdown finishes what was accepted, refuses the rest, and releases the rows.
#[tokio::test(flavor = "multi_thread")]
async fn shutdown_finishes_and_releases() {
    let stores = Stores::new();
    let (host, shared) = host("a", &stores).await;
    host.actors().create::<Counter>("c").await.unwrap();
    let waiting = host.actor("c");
    let accepted = tokio::spawn(async move { waiting.request("wait", ()).await });
    shared.began.notified().await;
    let ending = host.clone();
    let ended = tokio::spawn(async move { ending.shutdown(None).await });
    host.wait_for_state(|state| state == HostState::Draining)
        .await;
    let late = add(&host, "c", 1).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::ShuttingDown);
    shared.gate.notify_one();
    accepted.await.unwrap().unwrap();
    assert_eq!(ended.await.unwrap(), Shutdown::Stopped);
    assert_eq!(host.shutdown(None).await, Shutdown::Stopped);
    assert_eq!(host.state(), HostState::Stopped);
    let (next, _) = app::host("b", &stores).await;
    assert_eq!(next.actors().find("c").await.unwrap(), None);
    assert!(
        next.actors()
            .create::<Counter>("c")
            .await
            .unwrap()
            .is_created()
    );
}
