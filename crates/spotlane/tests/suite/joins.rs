//! Actors that join the Entry Spot of another host from inside of a handler.

use std::time::{Duration, Instant};

use spotlane::prelude::*;

use crate::app::{Shared, Stores, settings, text};
use crate::two_hosts::{acquainted, connect};

/// An Actor that joins as it is told and keeps a log.
#[derive(Default)]
struct Joiner {
    log: Vec<String>,
    shared: Shared,
}

impl Joiner {
    /// To the node of this name, or anywhere.
    async fn join(&mut self, context: &mut Context, to: String) -> Result<(), Error> {
        self.log.push("join".to_owned());
        if to.is_empty() {
            return context.join_entry_spot().defer();
        }
        let node = spotlane::id::NodeRid::new(to.as_bytes())?;
        context.join_entry_spot().to(&node).defer()
    }

    async fn join_and_wait(&mut self, context: &mut Context, (): ()) -> Result<(), Error> {
        context.join_entry_spot().request("let me in").defer()?;
        self.shared.began.notify_one();
        self.shared.gate.notified().await;
        Ok(())
    }

    async fn join_and_fail(&mut self, context: &mut Context, (): ()) -> Result<(), Error> {
        context.join_entry_spot().defer()?;
        Err(Error::rejected("as asked"))
    }

    async fn join_and_panic(&mut self, context: &mut Context, (): ()) {
        context.join_entry_spot().defer().unwrap();
        panic!("as asked");
    }

    /// Longer than the Join may take.
    async fn join_late(&mut self, context: &mut Context, (): ()) -> Result<(), Error> {
        let limit = Duration::from_millis(1);
        context.join_entry_spot().timeout(limit).defer()?;
        let began = Instant::now();
        while began.elapsed() <= 2 * limit {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// What is refused at once.
    async fn join_wrongly(&mut self, context: &mut Context, (): ()) -> String {
        let mut kinds = Vec::new();
        let long = Duration::from_millis(1 << 31);
        kinds.push(context.join_entry_spot().timeout(Duration::ZERO).defer());
        kinds.push(context.join_entry_spot().timeout(long).defer());
        let large = vec![0u8; 1024 * 1024 + 1];
        kinds.push(
            context
                .join_entry_spot()
                .request(Payload::bytes(large))
                .defer(),
        );
        kinds.push(context.join_entry_spot().defer());
        kinds.push(context.join_entry_spot().defer());
        let name = |kind: Result<(), Error>| match kind {
            Ok(()) => "fine".to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        };
        kinds.into_iter().map(name).collect::<Vec<_>>().join(",")
    }

    async fn note(&mut self, _: &mut Context, tag: String) {
        self.log.push(tag);
    }

    async fn log(&mut self, _: &mut Context, (): ()) -> String {
        self.log.join(",")
    }
}

impl Actor for Joiner {
    const TYPE: &'static str = "joiner";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers
            .request("join", Self::join)
            .request("join_and_wait", Self::join_and_wait)
            .request("join_and_fail", Self::join_and_fail)
            .request("join_and_panic", Self::join_and_panic)
            .request("join_late", Self::join_late)
            .request("join_wrongly", Self::join_wrongly)
            .request("log", Self::log)
            .send("note", Self::note);
    }

    async fn on_join_completed(&mut self, context: &mut Context, outcome: JoinOutcome) {
        let refused = context.join_entry_spot().defer().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidOperation);
        self.log.push(match outcome {
            JoinOutcome::Accepted { actor, reply: None } => {
                assert_eq!(actor, *context.actor_ref());
                format!("at {}", name(actor.node()))
            }
            JoinOutcome::Failed(kind) => format!("{kind:?}"),
            other => format!("{other:?}"),
        });
    }
}

fn name(node: &spotlane::id::NodeRid) -> String {
    String::from_utf8_lossy(node.as_bytes()).into_owned()
}

/// Moves the log.
struct Log;

impl Adapter<Joiner> for Log {
    async fn capture(&self, joiner: &mut Joiner) -> Result<Bytes, Error> {
        if joiner
            .shared
            .refuse_capture
            .load(std::sync::atomic::Ordering::SeqCst)
        {
            return Err(Error::internal("as asked"));
        }
        Ok(Bytes::from(joiner.log.join(",")))
    }

    async fn restore(&self, joiner: &mut Joiner, state: Bytes) -> Result<(), Error> {
        let text = String::from_utf8(state.to_vec()).map_err(|_| Error::internal("no text"))?;
        let tags = text.split(',').filter(|tag| !tag.is_empty());
        joiner.log = tags.map(str::to_owned).collect();
        Ok(())
    }
}

async fn host(node: &str, stores: &Stores, policy: Policy<Joiner>) -> (Host, Shared) {
    let shared = Shared::default();
    let of = shared.clone();
    let make = move || Joiner {
        shared: of.clone(),
        ..Joiner::default()
    };
    let builder = Host::builder()
        .mesh("test")
        .node_id(node)
        .location_store(stores.location.clone())
        .relocation_store(stores.relocation.clone())
        .actor(policy, make)
        .settings(settings());
    (builder.start().await.unwrap(), shared)
}

/// A joiner `j` on the first of two hosts.
async fn pair() -> (Host, Shared, Host) {
    let stores = Stores::new();
    let (a, at_a) = host("a", &stores, Policy::preserve(Log)).await;
    a.actors().create::<Joiner>("j").await.unwrap();
    let (b, _) = host("b", &stores, Policy::preserve(Log)).await;
    acquainted(&[&a, &b]).await;
    (a, at_a, b)
}

async fn ask(host: &Host, handler: &str) -> Result<(), Error> {
    host.actor("j").request(handler, ()).reply().await
}

async fn join(host: &Host, to: &str) -> Result<(), Error> {
    host.actor("j").request("join", to.to_owned()).reply().await
}

/// RL-50, RL-57, RL-141, RL-146, RL-360, EX-262: the Actor moves with its state, and is told once and there.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_moves_the_actor_and_completes_once() {
    let (a, _, b) = pair().await;
    join(&a, "").await.unwrap();
    assert_eq!(text(&a, "j", "log").await.unwrap(), "join,at b");
    assert_eq!((a.status().actors, b.status().actors), (0, 1));
    join(&b, "a").await.unwrap();
    assert_eq!(text(&b, "j", "log").await.unwrap(), "join,at b,join,at a");
    assert_eq!((a.status().actors, b.status().actors), (1, 0));
}

/// RL-70, RL-149: what was accepted before the seal waits behind the barrier, moves, and runs after the completion.
#[tokio::test(flavor = "multi_thread")]
async fn accepted_work_follows_the_completion_in_order() {
    let (a, at_a, b) = pair().await;
    let joiner = a.clone();
    let joined = tokio::spawn(async move { ask(&joiner, "join_and_wait").await });
    at_a.began.notified().await;
    let tags: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    for tag in &tags {
        a.actor("j").send("note", tag.clone()).await.unwrap();
    }
    at_a.gate.notify_one();
    joined.await.unwrap().unwrap();
    let log = text(&a, "j", "log").await.unwrap();
    assert_eq!(log, format!("at b,{}", tags.join(",")));
    assert_eq!(b.status().actors, 1);
}

/// RL-59: where it is already, it is accepted without a move.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_to_the_own_node_is_accepted_at_once() {
    let (a, _, _b) = pair().await;
    join(&a, "a").await.unwrap();
    assert_eq!(text(&a, "j", "log").await.unwrap(), "join,at a");
    assert_eq!(a.status().actors, 1);
}

/// RL-141, EX-45: a handler that fails or panics takes its Join back, and the Actor may join later.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_handler_discards_its_join() {
    let (a, _, _b) = pair().await;
    ask(&a, "join_and_fail").await.unwrap_err();
    ask(&a, "join_and_panic").await.unwrap_err();
    assert_eq!(text(&a, "j", "log").await.unwrap(), "");
    assert_eq!(a.status().actors, 1);
    join(&a, "b").await.unwrap();
    assert_eq!(text(&a, "j", "log").await.unwrap(), "join,at b");
}

/// RL-142: what is out of range is refused at once, and one Actor has one Join at a time.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_join_can_be_is_refused_at_once() {
    let (a, _, _b) = pair().await;
    let kinds = text(&a, "j", "join_wrongly").await.unwrap();
    let invalid = "InvalidOperation,InvalidOperation,InvalidOperation";
    assert_eq!(kinds, format!("{invalid},fine,Unavailable"));
    assert_eq!(text(&a, "j", "log").await.unwrap(), "at b");
}

/// RL-142, RL-147: the time counts from the defer.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_whose_time_is_over_fails() {
    let (a, _, _b) = pair().await;
    ask(&a, "join_late").await.unwrap();
    assert_eq!(text(&a, "j", "log").await.unwrap(), "DeadlineExceeded");
    assert_eq!(a.status().actors, 1);
}

/// RL-147: no node, and a state that is not captured; the Actor goes on where it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_cannot_be_fails_with_its_kind() {
    let stores = Stores::new();
    let (alone, _) = host("a", &stores, Policy::preserve(Log)).await;
    alone.actors().create::<Joiner>("j").await.unwrap();
    join(&alone, "").await.unwrap();
    join(&alone, "nobody").await.unwrap();
    let log = text(&alone, "j", "log").await.unwrap();
    assert_eq!(log, "join,Unavailable,join,Unavailable");

    let (a, at_a, _b) = pair().await;
    at_a.refuse_capture
        .store(true, std::sync::atomic::Ordering::SeqCst);
    join(&a, "b").await.unwrap();
    assert_eq!(text(&a, "j", "log").await.unwrap(), "join,InternalFailure");
}

/// RL-147, RL-110: a type that does not move does not join.
#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_does_not_move_is_rejected() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores, Policy::disable()).await;
    a.actors().create::<Joiner>("j").await.unwrap();
    let (b, _) = host("b", &stores, Policy::disable()).await;
    connect(&[&a, &b]).await;
    join(&a, "b").await.unwrap();
    assert_eq!(text(&a, "j", "log").await.unwrap(), "join,Rejected");
}

/// RL-148: maintenance waits for a Join that came first, and finds the Actor gone.
#[tokio::test(flavor = "multi_thread")]
async fn maintenance_waits_for_a_join_that_came_first() {
    let (a, at_a, b) = pair().await;
    let joiner = a.clone();
    let joined = tokio::spawn(async move { ask(&joiner, "join_and_wait").await });
    at_a.began.notified().await;
    let mut moved = Box::pin(a.relocate("j", b.node_id()));
    // It has begun: one that begins behind the Join would find that the Actor does not live here.
    let begun = tokio::time::timeout(Duration::ZERO, &mut moved).await;
    assert!(begun.is_err(), "{begun:?}");
    at_a.gate.notify_one();
    let (joined, moved) = tokio::join!(joined, moved);
    joined.unwrap().unwrap();
    let late = moved.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unavailable);
    assert_eq!(text(&a, "j", "log").await.unwrap(), "at b");
}
