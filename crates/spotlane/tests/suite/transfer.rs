//! The transfer of a state over real sockets: what goes between its chunks, and what faults on the way lead to.
//!
//! Of the tests that the contract lists for relocation (T-REL-01 to T-REL-33) those of level P stand here; those of level M
//! stand with the machines, in `crates/relocation`, and those about sessions (T-REL-26, T-REL-28, T-REL-29) with theirs.

use std::time::Duration;

use spotlane::HostBuilder;
use spotlane::prelude::*;
use spotlane_store_memory::{Fault, FaultControl, FaultStore};
use tokio::runtime::Runtime;

use crate::app::{Counter, Shared, Stores, add, builder, settings, text};
use crate::proxy::{Proxy, Way, Wire};
use crate::two_hosts::{acquainted, move_behind_a_handler};

const STATE: usize = 2_000_000;
const LARGE: usize = 64_000_000;
const NOTE: usize = 4_000;
const NOTES: usize = 100;

/// Two hosts that see each other, and a counter `c` that lives on the first.
pub(crate) async fn started(a: HostBuilder, b: HostBuilder) -> (Host, Host) {
    let a = a.start().await.unwrap();
    a.actors().create::<Counter>("c").await.unwrap();
    let b = b.start().await.unwrap();
    acquainted(&[&a, &b]).await;
    (a, b)
}

/// A runtime of its own for one host, which ends as a process does that is killed.
pub(crate) struct Process(Option<Runtime>);

impl Process {
    pub(crate) fn new() -> Self {
        Self(Some(Runtime::new().unwrap()))
    }

    pub(crate) async fn start(&self, host: HostBuilder) -> Host {
        let runtime = self.0.as_ref().unwrap();
        runtime.spawn(host.start()).await.unwrap().unwrap()
    }

    /// Runs something of the process to its end.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        part: impl Future<Output = T> + Send + 'static,
    ) -> T {
        self.0.as_ref().unwrap().spawn(part).await.unwrap()
    }

    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// As [`wired`], each host in a process of its own.
pub(crate) async fn wired_apart(settings: Settings) -> ((Host, Process), (Host, Process), Wire) {
    let (a, b, wire) = behind_proxies(&settings).await;
    let (at_a, at_b) = (Process::new(), Process::new());
    let a = at_a.start(a).await;
    a.actors().create::<Counter>("c").await.unwrap();
    let b = at_b.start(b).await;
    acquainted(&[&a, &b]).await;
    grow(&a, STATE).await;
    ((a, at_a), (b, at_b), wire)
}

/// As [`started`], with a wire that steers what goes from the first to the second, and `c` has a large state.
pub(crate) async fn wired(settings: Settings) -> (Host, Host, Wire) {
    let (a, b, wire) = behind_proxies(&settings).await;
    let (a, b) = started(a, b).await;
    grow(&a, STATE).await;
    (a, b, wire)
}

async fn behind_proxies(settings: &Settings) -> (HostBuilder, HostBuilder, Wire) {
    let (stores, wire) = (Stores::new(), Wire::new());
    let before_a = Proxy::start(&wire, Way::Out).await;
    let before_b = Proxy::start(&wire, Way::In).await;
    let at = |name, proxy: &Proxy| {
        builder(name, &stores, &Shared::default())
            .listen(proxy.listen())
            .advertise(proxy.advertise())
            .settings(settings.clone())
    };
    (at("a", &before_a), at("b", &before_b), wire)
}

pub(crate) async fn grow(host: &Host, bytes: usize) {
    let state = "x".repeat(bytes);
    host.actor("c").request("note2", state).await.unwrap();
}

/// Sends notes with numbers, as long as [`NOTE`].
pub(crate) async fn send_notes(host: &Host) {
    for n in 0..NOTES {
        let note = format!("{n:0>NOTE$}");
        host.actor("c").send("note", note).await.unwrap();
    }
}

/// The numbers of the notes that were handled, in order.
pub(crate) fn numbers(log: &str) -> Vec<usize> {
    let notes = log.split(',').filter(|note| note.len() == NOTE);
    notes.map(|note| note.parse().unwrap()).collect()
}

pub(crate) fn bytes(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap()
}

/// T-REL-07, RL-132: while the chunks of one object are on their way, others of the same two hosts are asked over the
/// same connection and answer.
#[tokio::test(flavor = "multi_thread")]
async fn t_rel_07_others_are_answered_between_chunks() {
    let (a, b, wire) = wired(settings()).await;
    let other = a.actors().create::<Counter>("other").await.unwrap();
    if other.actor().unwrap().node() == a.node_id() {
        a.relocate("other", b.node_id()).await.unwrap();
    }
    assert_eq!(text(&a, "other", "place").await.unwrap(), "b");
    // Far more than what the buffers of the sockets hold, so that most of it is still to be sent.
    grow(&a, LARGE).await;
    wire.stop_after(bytes(LARGE / 8));
    let (mover, target) = (a.clone(), b.node_id().clone());
    let moved = tokio::spawn(async move { mover.relocate("c", &target).await });
    for n in 1..=2 {
        wire.stopped().await;
        let asker = a.clone();
        let asked = tokio::spawn(async move { add(&asker, "other", 1).await });
        wire.go_on();
        assert_eq!(asked.await.unwrap().unwrap(), n.to_string());
        assert!(
            !moved.is_finished(),
            "question {n} was answered after the move"
        );
        wire.stop_after(bytes(LARGE / 8));
    }
    wire.go_on();
    moved.await.unwrap().unwrap();
    let length = text(&a, "c", "log").await.unwrap().len();
    assert_eq!(length, STATE + ",".len() + LARGE);
}

/// T-REL-11, WR-44, WR-50, WR-54: hosts with other sizes of chunks and budgets understand each other both ways.
#[tokio::test(flavor = "multi_thread")]
async fn t_rel_11_hosts_with_other_sizes_take_each_others_chunks() {
    for (limit, budget) in [(1, 1), (700, 0), (64 * 1024 * 1024, 16 * 1024 * 1024)] {
        let stores = Stores::new();
        let mut odd = settings();
        odd.relocation_payload_chunk_limit = limit;
        odd.relocation_in_flight_payload_budget = budget;
        let (a, b) = started(
            builder("a", &stores, &Shared::default()).settings(odd),
            builder("b", &stores, &Shared::default()),
        )
        .await;
        grow(&a, 100_001).await;
        a.relocate("c", b.node_id()).await.unwrap();
        assert_eq!(add(&a, "c", 1).await.unwrap(), "1");
        while b.relocate("c", a.node_id()).await.is_err() {}
        assert_eq!(text(&b, "c", "place").await.unwrap(), "a");
        let log = text(&a, "c", "log").await.unwrap();
        assert_eq!(log.len(), 100_001 + ",1".len(), "chunks of {limit}");
    }
}

/// T-REL-12, RL-131, SRC-3: a state far above the budget is on its way; an Actor that is to move to the same node waits for its
/// turn, unsealed, and goes on answering where it is. Both moves end well.
#[tokio::test(flavor = "multi_thread")]
async fn t_rel_12_an_actor_that_waits_for_the_budget_goes_on_answering() {
    let mut narrow = settings();
    narrow.relocation_in_flight_payload_budget = 100_000;
    waits_for_the_budget(narrow).await;
}

/// T-REL-12, RL-131, RL-294: the same by the budget of the whole node, which has none for each peer.
#[tokio::test(flavor = "multi_thread")]
async fn t_rel_12_an_actor_that_waits_for_the_budget_of_the_node_goes_on_answering() {
    let mut narrow = settings();
    narrow.relocation_in_flight_payload_budget = 0;
    narrow.relocation_node_in_flight_payload_budget = 100_000;
    waits_for_the_budget(narrow).await;
}

/// How many Actors may find room: the budget opens again for each chunk that the sockets still take, and the system may let
/// the two of a connection grow to some 10 MB.
const FIND_ROOM: usize = 256;

async fn waits_for_the_budget(narrow: Settings) {
    let (a, b, wire) = wired(narrow).await;
    let others: Vec<_> = (0..FIND_ROOM).map(|n| format!("other-{n}")).collect();
    for other in &others {
        let created = a.actors().create::<Counter>(other).await.unwrap();
        if created.actor().unwrap().node() == b.node_id() {
            b.relocate(other, a.node_id()).await.unwrap();
        }
        while text(&a, other, "place").await.unwrap() != "a" {
            tokio::task::yield_now().await;
        }
    }
    // Far more than the buffers of the sockets hold.
    grow(&a, LARGE).await;
    wire.stop_after(bytes(LARGE / 8));
    let move_of = |id: &str| {
        let (mover, target, id) = (a.clone(), b.node_id().clone(), id.to_owned());
        tokio::spawn(async move { mover.relocate(&id, &target).await })
    };
    let first = move_of("c");
    wire.stopped().await;
    let (mut moves, mut waits) = (Vec::new(), None);
    for other in &others {
        let sealing = a.status().sealing;
        moves.push(move_of(other));
        while a.status().moving <= moves.len() {
            tokio::task::yield_now().await;
        }
        let answers = async {
            for n in 1..=50 {
                assert_eq!(add(&a, other, 1).await.unwrap(), n.to_string());
            }
        };
        let found_room = async {
            while a.status().sealing == sealing {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = found_room => {}
            () = answers => {
                waits = Some(other);
                break;
            }
        }
    }
    let waits = waits.expect("one waits for its turn, unsealed");
    assert!(!first.is_finished() && moves.iter().all(|it| !it.is_finished()));
    wire.go_on();
    first.await.unwrap().unwrap();
    for moved in moves {
        moved.await.unwrap().unwrap();
    }
    assert_eq!(add(&a, waits, 1).await.unwrap(), "51");
    assert_eq!(text(&a, waits, "place").await.unwrap(), "b");
}

/// T-REL-23, RL-129, EX-136: what comes with an Actor is more than all the jobs that its new host takes at once. It drains in
/// order, and nothing fails for want of room.
#[tokio::test(flavor = "multi_thread")]
async fn t_rel_23_a_backlog_above_the_job_limit_drains_in_order() {
    const REQUESTS: usize = 20;
    let (stores, at_a) = (Stores::new(), Shared::default());
    let mut tight = settings();
    tight.job_limit = spotlane::JobLimit::Manual(2);
    let (a, b) = started(
        builder("a", &stores, &at_a),
        builder("b", &stores, &Shared::default()).settings(tight),
    )
    .await;
    let blocker = a.actor("c");
    let blocked = tokio::spawn(async move { blocker.request("wait", ()).await });
    at_a.began.notified().await;
    send_notes(&a).await;
    let asked: Vec<_> = (0..REQUESTS)
        .map(|_| {
            let asker = a.clone();
            tokio::spawn(async move { add(&asker, "c", 1).await })
        })
        .collect();
    crate::players::until(|| usize::try_from(a.status().jobs.queued).unwrap() >= NOTES + REQUESTS)
        .await;
    move_behind_a_handler(&a, &b, &at_a).await;
    blocked.await.unwrap().unwrap();
    let mut totals = Vec::new();
    for asked in asked {
        totals.push(asked.await.unwrap().unwrap().parse::<usize>().unwrap());
    }
    totals.sort_unstable();
    assert_eq!(totals, (1..=REQUESTS).collect::<Vec<_>>());
    let log = text(&b, "c", "log").await.unwrap();
    assert_eq!(numbers(&log), (0..NOTES).collect::<Vec<_>>());
    assert_eq!(text(&b, "c", "place").await.unwrap(), "b");
    assert!(b.status().jobs.peak <= 2, "{:?}", b.status().jobs);
}

/// T-REL-13, RL-134, RL-135, RL-136, SRC-11, TGT-20: a connection that is cut among the chunks, and one that is cut among
/// the relayed records: both come again on the next one, and each message is handled once and in order.
#[tokio::test(flavor = "multi_thread")]
async fn t_rel_13_a_cut_connection_is_made_good_on_the_next() {
    for cut in [STATE / 2, STATE + NOTES * NOTE / 2] {
        let (a, b, wire) = wired(settings()).await;
        wire.stop_after(bytes(STATE / 4));
        let (mover, target) = (a.clone(), b.node_id().clone());
        let moved = tokio::spawn(async move { mover.relocate("c", &target).await });
        wire.stopped().await;
        send_notes(&a).await;
        wire.cut_after(bytes(cut - STATE / 4));
        wire.go_on();
        wire.was_cut(1).await;
        moved.await.unwrap().unwrap();
        let log = text(&b, "c", "log").await.unwrap();
        assert_eq!(
            numbers(&log),
            (0..NOTES).collect::<Vec<_>>(),
            "cut at {cut}"
        );
        assert_eq!(text(&b, "c", "place").await.unwrap(), "b");
    }
}

/// T-REL-19, TGT-24, RL-238: whatever the store does to the target's calls, the move ends with one owner and one state.
#[tokio::test(flavor = "multi_thread")]
async fn t_rel_19_a_store_that_errs_or_loses_answers_converges() {
    for fault in [Fault::FailBefore, Fault::LoseRequest, Fault::LoseAnswer] {
        for calls in 1..=6 {
            let (stores, faults) = (Stores::new(), FaultControl::new());
            let location = FaultStore::new(stores.location.clone(), faults.clone());
            let shared = Shared::default();
            let (a, b) = started(
                builder("a", &stores, &shared),
                builder("b", &stores, &shared).location_store(location),
            )
            .await;
            add(&a, "c", 7).await.unwrap();
            // The first calls of the move read; the commit is among those that follow.
            for n in 0..calls {
                let one = if n + 1 == calls { fault } else { Fault::None };
                faults.next(one).unwrap();
            }
            a.relocate("c", b.node_id()).await.unwrap();
            assert_eq!(
                add(&a, "c", 1).await.unwrap(),
                "8",
                "{fault:?} in call {calls}"
            );
            assert_eq!(text(&b, "c", "log").await.unwrap(), "7,1");
            assert_eq!(text(&b, "c", "place").await.unwrap(), "b");
            assert_eq!((a.status().actors, b.status().actors), (0, 1));
        }
    }
}

/// T-REL-33, RL-236, TGT-21, RL-320: what is not promised is told apart. The connection breaks behind the boundary for
/// longer than the cutover wait: the target opens with what it has, nothing is handled twice, what is lost is a suffix of
/// the relayed messages or comes late, and a request ends once, with an answer or with `Unavailable`.
#[tokio::test(flavor = "multi_thread")]
async fn t_rel_33_a_broken_connection_behind_the_boundary_is_a_named_loss() {
    let mut short = settings();
    short.relocation_cutover_wait_timeout = Duration::from_millis(200);
    let (a, b, wire) = wired(short).await;
    wire.stop_after(bytes(STATE / 4));
    let (mover, target) = (a.clone(), b.node_id().clone());
    let moved = tokio::spawn(async move { mover.relocate("c", &target).await });
    wire.stopped().await;
    send_notes(&a).await;
    let asked = a.actor("c").request("add", "1");
    let asked = asked.timeout(Duration::from_secs(2)).reply::<String>();
    let asked = tokio::spawn(asked);
    wire.break_after(bytes(STATE * 3 / 4 + NOTES * NOTE / 2));
    wire.go_on();
    wire.was_cut(1).await;
    crate::players::until(|| b.status().actors > 0).await;
    wire.mend();
    // The boundary was crossed, so the operation is not told that it failed before it.
    moved.await.unwrap().unwrap();
    match asked.await.unwrap() {
        Ok(total) => assert_eq!(total, "1"),
        Err(error) => assert!(
            matches!(
                error.kind(),
                ErrorKind::Unavailable | ErrorKind::DeadlineExceeded
            ),
            "{error:?}"
        ),
    }
    assert_eq!(text(&b, "c", "place").await.unwrap(), "b");
    let mut handled = numbers(&text(&b, "c", "log").await.unwrap());
    let all = handled.len();
    handled.sort_unstable();
    handled.dedup();
    assert_eq!(handled.len(), all);
}

/// T-REL-33, RL-236: a source that ends without a word takes what it had not yet handed over with it. Its Actor is
/// unavailable, and nobody else becomes its owner.
#[tokio::test(flavor = "multi_thread")]
async fn t_rel_33_a_source_that_is_gone_leaves_its_actor_unavailable() {
    let mut short = settings();
    short.relocation_restore_validity = Duration::from_millis(1500);
    // Not so short that a host which waits for its turn on a busy machine loses it.
    short.owner_lease_ttl = Duration::from_secs(4);
    short.owner_lease_fencing_margin = Duration::from_millis(100);
    short.owner_lease_renew_interval = Duration::from_millis(200);
    short.owner_lease_renew_timeout = Duration::from_millis(200);
    let ((a, at_a), (b, _at_b), wire) = wired_apart(short).await;
    add(&b, "c", 1).await.unwrap();
    wire.stop_after(bytes(STATE / 2));
    let (mover, target) = (a.clone(), b.node_id().clone());
    let moved = tokio::spawn(async move { mover.relocate("c", &target).await });
    wire.stopped().await;
    at_a.kill();
    assert!(moved.await.unwrap().is_err());
    loop {
        let call = b.actor("c").request("add", "1");
        let error = call.timeout(Duration::from_millis(300)).await.unwrap_err();
        if error.kind() == ErrorKind::Unavailable {
            break;
        }
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    }
    assert_eq!(b.status().actors, 0);
}
