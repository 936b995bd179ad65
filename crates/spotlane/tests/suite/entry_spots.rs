//! Entry Spots that are told who joins and leaves, and Joins that meet a shutdown or a bound session.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use spotlane::prelude::*;
use spotlane::{CloseReason, Closing, EntrySpot, ForceReason, Shutdown, SpotContext, StartError};
use tokio::sync::Notify;

use crate::app::{Stores, settings};
use crate::players::PATIENCE;
use crate::two_hosts::acquainted;

/// What happened, in order, on all hosts of a test.
#[derive(Clone, Default)]
struct Diary {
    lines: Arc<Mutex<Vec<String>>>,
    written: Arc<Notify>,
    began: Arc<Notify>,
    gate: Arc<Notify>,
}

impl Diary {
    fn note(&self, line: String) {
        self.lines.lock().unwrap().push(line);
        self.written.notify_one();
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    async fn wait_for(&self, line: &str) {
        let written = async {
            while !self.lines().iter().any(|found| found == line) {
                self.written.notified().await;
            }
        };
        let soon = Duration::from_secs(20);
        let found = tokio::time::timeout(soon, written).await;
        assert!(found.is_ok(), "no {line:?} in {:?}", self.lines());
    }
}

/// An Actor that joins where it is told to.
struct Guest(Diary);

impl Guest {
    async fn join(&mut self, context: &mut Context, to: String) -> Result<(), Error> {
        let node = spotlane::id::NodeRid::new(to.as_bytes())?;
        context.join_entry_spot().to(&node).defer()
    }

    async fn join_and_wait(&mut self, context: &mut Context, to: String) -> Result<(), Error> {
        let node = spotlane::id::NodeRid::new(to.as_bytes())?;
        context.join_entry_spot().to(&node).defer()?;
        self.0.began.notify_one();
        self.0.gate.notified().await;
        Ok(())
    }

    async fn place(&mut self, context: &mut Context, (): ()) -> String {
        name(context.node())
    }
}

fn name(node: &spotlane::id::NodeRid) -> String {
    String::from_utf8_lossy(node.as_bytes()).into_owned()
}

impl Actor for Guest {
    const TYPE: &'static str = "guest";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers
            .request("join", Self::join)
            .request("join_and_wait", Self::join_and_wait)
            .request("place", Self::place);
    }

    async fn on_join_completed(&mut self, context: &mut Context, outcome: JoinOutcome) {
        let node = name(context.node());
        self.0.note(match outcome {
            JoinOutcome::Accepted { .. } => format!("completed at {node}"),
            JoinOutcome::Failed(kind) => format!("{kind:?} at {node}"),
            JoinOutcome::Rejected { .. } => format!("rejected at {node}"),
        });
    }
}

/// A Spot that writes down what it is told, and stumbles over the first joiner if it shall.
struct Lobby {
    diary: Diary,
    stumbles: u32,
}

impl EntrySpot for Lobby {
    async fn on_joined_actor(&mut self, context: &mut SpotContext, actor: &ActorRef) {
        let node = name(context.node());
        assert_eq!(name(actor.node()), node);
        if self.stumbles > 0 {
            self.stumbles -= 1;
            self.diary.note(format!("{node} stumbles"));
            panic!("as asked");
        }
        self.diary.note(format!("{} joined {node}", actor.id()));
    }

    async fn on_leave_actor(&mut self, context: &mut SpotContext, actor: &ActorRef) {
        let node = name(context.node());
        self.diary.note(format!("{} left {node}", actor.id()));
    }
}

async fn host(node: &str, stores: &Stores, diary: &Diary, stumbles: u32) -> Host {
    let (of_guests, diary) = (diary.clone(), diary.clone());
    let host = Host::builder()
        .mesh("test")
        .node_id(node)
        .location_store(stores.location.clone())
        .relocation_store(stores.relocation.clone())
        .actor(Policy::recreate(), move || Guest(of_guests.clone()))
        .entry_spot(Lobby { diary, stumbles })
        .settings(settings());
    host.start().await.unwrap()
}

/// A guest `g` on the first of two hosts.
async fn pair(stumbles: u32) -> (Host, Host, Diary) {
    let (stores, diary) = (Stores::new(), Diary::default());
    let a = host("a", &stores, &diary, 0).await;
    a.actors().create::<Guest>("g").await.unwrap();
    let b = host("b", &stores, &diary, stumbles).await;
    acquainted(&[&a, &b]).await;
    (a, b, diary)
}

async fn ask(host: &Host, name: &str, to: &str) -> Result<(), Error> {
    host.actor("g").request(name, to.to_owned()).reply().await
}

/// RL-45, RL-46, RL-57, RL-60, RL-70: the Spot of the target is told before the Actor is, that of the source after its
/// change of owner, each once; creations and moves with the host are told to no Spot.
#[tokio::test(flavor = "multi_thread")]
async fn entry_spots_are_told_who_joins_and_who_leaves() {
    let (a, b, diary) = pair(0).await;
    ask(&a, "join", "b").await.unwrap();
    diary.wait_for("g left a").await;
    let place: String = b.actor("g").request("place", ()).reply().await.unwrap();
    assert_eq!(place, "b");
    let lines = diary.lines();
    let at = |line: &str| {
        let found: Vec<usize> = (0..lines.len()).filter(|n| lines[*n] == line).collect();
        assert_eq!(found.len(), 1, "{line:?} in {lines:?}");
        found[0]
    };
    assert!(at("g joined b") < at("completed at b"));
    assert!(at("g joined b") < at("g left a"));
    assert_eq!(lines.len(), 3);
    // RL-59: where it is already, no Spot is told.
    ask(&b, "join", "b").await.unwrap();
    let back = a.node_id();
    let moved = async {
        while b.relocate("g", back).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, moved).await.unwrap();
    let place: String = a.actor("g").request("place", ()).reply().await.unwrap();
    assert_eq!(place, "a");
    assert_eq!(diary.lines().len(), 4, "{:?}", diary.lines());
}

/// RL-77: a callback of the target's Spot that panics is run again, and the Actor is told afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_spot_that_stumbles_is_told_again() {
    let (a, _b, diary) = pair(2).await;
    ask(&a, "join", "b").await.unwrap();
    diary.wait_for("completed at b").await;
    diary.wait_for("g left a").await;
    let lines = diary.lines();
    let first = ["b stumbles", "b stumbles", "g joined b"];
    assert_eq!(lines[..3], first, "{lines:?}");
}

/// RL-147, RL-148: a Join that was recorded before the shutdown ends with `ShuttingDown`, and its Actor is told while it
/// lives; the shutdown waits for that.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_a_pending_join_and_says_so() {
    let (a, _b, diary) = pair(0).await;
    let joiner = a.clone();
    let joined = tokio::spawn(async move { ask(&joiner, "join_and_wait", "b").await });
    diary.began.notified().await;
    let stopping = tokio::spawn({
        let a = a.clone();
        async move { a.shutdown(None).await }
    });
    crate::players::until(|| a.state() == HostState::Draining).await;
    diary.gate.notify_one();
    joined.await.unwrap().unwrap();
    assert_eq!(stopping.await.unwrap(), Shutdown::Stopped);
    assert_eq!(diary.lines(), ["ShuttingDown at a"]);
}

/// How a Spot takes its end.
#[derive(Clone, Copy)]
enum Manner {
    Well,
    Stumbling,
    WithoutEnd,
}

/// A Spot that writes down how it ends.
struct Door {
    diary: Diary,
    manner: Manner,
}

impl EntrySpot for Door {
    async fn on_closing(&mut self, context: &mut SpotContext, closing: &Closing) {
        assert_eq!(context.host().state(), HostState::Draining);
        self.diary.note(format!("closes: {:?}", closing.reason()));
        match self.manner {
            Manner::Well => {
                assert!(!closing.time_left().is_zero());
                tokio::task::yield_now().await;
                self.diary.note("closed".to_owned());
            }
            Manner::Stumbling => panic!("as asked"),
            Manner::WithoutEnd => {
                closing.expired().await;
                assert!(closing.time_left().is_zero());
                self.diary.note("is late".to_owned());
                std::future::pending::<()>().await;
            }
        }
    }
}

/// An Actor whose handler takes until it is told, and that says when its instance goes.
struct Resident(Diary);

impl Resident {
    async fn wait(&mut self, _: &mut Context, (): ()) {
        self.0.began.notify_one();
        self.0.gate.notified().await;
        self.0.note("handled".to_owned());
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.0.note("gone".to_owned());
    }
}

impl Actor for Resident {
    const TYPE: &'static str = "resident";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers.request("wait", Self::wait);
    }
}

async fn house(manner: Manner) -> (Host, Diary) {
    let diary = Diary::default();
    let (of_residents, of_door) = (diary.clone(), diary.clone());
    let host = Host::builder()
        .mesh("test")
        .node_id("a")
        .location_store(Stores::new().location)
        .actor(Policy::disable(), move || Resident(of_residents.clone()))
        .entry_spot(Door {
            diary: of_door,
            manner,
        })
        .settings(settings());
    let host = host.start().await.unwrap();
    host.actors().create::<Resident>("r").await.unwrap();
    (host, diary)
}

/// RL-48, RL-52, RL-221, EX-307: the Spot of a host that ends is told so once, behind everything that was accepted and
/// before an instance goes.
#[tokio::test(flavor = "multi_thread")]
async fn the_entry_spot_closes_behind_accepted_work_and_before_its_actors_go() {
    let (host, diary) = house(Manner::Well).await;
    let asker = host.clone();
    let asked =
        tokio::spawn(async move { asker.actor("r").request("wait", ()).reply::<()>().await });
    diary.began.notified().await;
    let stopper = host.clone();
    let stopping = tokio::spawn(async move { stopper.shutdown(None).await });
    crate::players::until(|| host.state() == HostState::Draining).await;
    assert_eq!(diary.lines(), [""; 0]);
    diary.gate.notify_one();
    assert_eq!(stopping.await.unwrap(), Shutdown::Stopped);
    asked.await.unwrap().unwrap();
    assert_eq!(host.shutdown(None).await, Shutdown::Stopped);
    let lines = diary.lines();
    assert_eq!(lines, ["handled", "closes: HostShutdown", "closed", "gone"]);
    assert_eq!(CloseReason::HostShutdown as u8, 1);
}

/// RL-77, RL-329, EX-307: a Spot that does not close well forces the end, and keeps nobody longer than the deadline.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_spot_that_does_not_close_well_forces_the_end() {
    let (host, diary) = house(Manner::Stumbling).await;
    let stopped = host.shutdown(None).await;
    assert_eq!(stopped, Shutdown::ForceStopped(ForceReason::TeardownFailed));
    assert_eq!(diary.lines(), ["closes: HostShutdown", "gone"]);
    let (host, diary) = house(Manner::WithoutEnd).await;
    let stopping = host.shutdown(Some(Duration::from_millis(100)));
    let stopped = tokio::time::timeout(Duration::from_secs(20), stopping).await;
    let reason = ForceReason::DeadlineExceeded;
    assert_eq!(stopped.unwrap(), Shutdown::ForceStopped(reason));
    assert_eq!(diary.lines()[0], "closes: HostShutdown");
}

/// RL-2: a host has one Entry Spot, and each of its types once.
#[tokio::test]
async fn what_is_registered_twice_does_not_start() {
    let diary = Diary::default();
    let lobby = || Lobby {
        diary: diary.clone(),
        stumbles: 0,
    };
    let guest = || {
        let diary = diary.clone();
        move || Guest(diary.clone())
    };
    let started = Host::builder()
        .mesh("test")
        .location_store(Stores::new().location)
        .actor(Policy::disable(), guest())
        .actor(Policy::disable(), guest())
        .entry_spot(lobby())
        .entry_spot(lobby())
        .start();
    let Err(StartError::Registration { faults }) = started.await else {
        panic!("it started");
    };
    assert_eq!(
        faults,
        [
            r#"actor type "guest" is registered twice"#,
            "the entry spot is registered twice"
        ]
    );
}
