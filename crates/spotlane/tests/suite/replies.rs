//! What becomes of requests that moved with their Actor, and of the answers to them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spotlane::prelude::*;
use spotlane::{ForceReason, Shutdown};
use spotlane_location::authority::{ActiveObject, Authority};
use spotlane_mesh::PeerLink;
use spotlane_store::{
    BlobOutcome, BlobReference, DeleteOutcome, PutOutcome, RelocationProvider, RenewOutcome,
    StoreError, StoreValue, Ttl,
};
use spotlane_types::kind::{MeshOperationKind, RelocationPhase, ReplyRelayAckStatus};
use spotlane_wire::command::membership::ActorLookup;
use spotlane_wire::command::reply::{ReplyRelay, ReplyRelayAck, ReplyRelayContext};
use spotlane_wire::reference::RequestSourceFence;
use spotlane_wire::relocation::{RelocationDataChunk, RelocationManifest};
use spotlane_wire::{Record, durable};
use tokio::task::JoinHandle;

use crate::app::{Counter, Shared, Stores, add, builder, settings};
use crate::hostile::{fence_of, hostile_peer, repository, until};
use crate::players::PATIENCE;
use crate::transfer::Process;
use crate::two_hosts::{acquainted, move_behind_a_handler};

/// A Relocation Store that remembers everything that was ever put.
#[derive(Clone)]
struct Recording {
    inner: spotlane::memory::MemoryRelocation,
    puts: Arc<Mutex<Vec<(BlobReference, Bytes)>>>,
    renewed: Arc<Mutex<Vec<BlobReference>>>,
    /// So many renewals fail first.
    silent: Arc<AtomicU64>,
}

impl Recording {
    fn of(stores: &Stores) -> Self {
        Self {
            inner: stores.relocation.clone(),
            puts: Arc::default(),
            renewed: Arc::default(),
            silent: Arc::default(),
        }
    }

    fn last(&self, name: &str) -> Option<Bytes> {
        let puts = self.puts.lock().unwrap();
        let found = puts.iter().rev().find(|(put, _)| put.as_str() == name);
        found.map(|(_, bytes)| bytes.clone())
    }

    /// The answers under the root of this name, with the counts in front of them.
    fn answers(&self, root: &str) -> Option<((u64, u64), Vec<ReplyRelay>)> {
        let manifest: RelocationManifest = durable::decode(&self.last(root)?).unwrap();
        let mut stream = Vec::new();
        for chunk in manifest.chunks.as_slice() {
            let stored = self.last(chunk.reference.as_str()).unwrap();
            let chunk: RelocationDataChunk = durable::decode(&stored).unwrap();
            stream.extend_from_slice(chunk.data.as_bytes());
        }
        let mut rest = &stream[..];
        let counts = (number(&mut rest, 8), number(&mut rest, 8));
        let mut answers = Vec::new();
        while !rest.is_empty() {
            let frames: Vec<Bytes> = (0..number(&mut rest, 1))
                .map(|_| {
                    let length = usize::try_from(number(&mut rest, 4)).unwrap();
                    let (frame, behind) = rest.split_at(length);
                    rest = behind;
                    Bytes::copy_from_slice(frame)
                })
                .collect();
            match Record::decode(&frames, MeshOperationKind::None).unwrap() {
                Record::ReplyRelay(relay) => answers.push(*relay),
                other => panic!("{other:?}"),
            }
        }
        Some((counts, answers))
    }
}

fn number(from: &mut &[u8], bytes: usize) -> u64 {
    let (number, rest) = from.split_at(bytes);
    *from = rest;
    number
        .iter()
        .fold(0, |all, byte| all << 8 | u64::from(*byte))
}

impl RelocationProvider for Recording {
    async fn put(
        &self,
        reference: &BlobReference,
        value: StoreValue,
        ttl: Ttl,
    ) -> Result<PutOutcome, StoreError> {
        let put = (reference.clone(), value.as_bytes().clone());
        self.puts.lock().unwrap().push(put);
        self.inner.put(reference, value, ttl).await
    }

    async fn get(&self, reference: &BlobReference) -> Result<BlobOutcome, StoreError> {
        self.inner.get(reference).await
    }

    async fn renew(&self, reference: &BlobReference, ttl: Ttl) -> Result<RenewOutcome, StoreError> {
        let one_less = |left: u64| left.checked_sub(1);
        let silent = self.silent.fetch_update(SeqCst, SeqCst, one_less);
        if silent.is_ok() {
            let silent = spotlane_store::Failure::new("as asked");
            return Err(StoreError::Transient(silent));
        }
        let renewed = self.inner.renew(reference, ttl).await;
        self.renewed.lock().unwrap().push(reference.clone());
        renewed
    }

    async fn delete(&self, reference: &BlobReference) -> Result<DeleteOutcome, StoreError> {
        self.inner.delete(reference).await
    }
}

/// The row of `c`.
async fn row(stores: &Stores) -> ActiveObject {
    let key = spotlane_types::authority_key::AuthorityKey::Actor(
        spotlane::id::ActorId::new("c").unwrap(),
    );
    match repository(stores).read(&key, until()).await.unwrap() {
        Authority::Active(row) => row,
        other => panic!("{other:?}"),
    }
}

/// Waits until the row of `c` says that it is open at `b`, and then gives what it says of the move; `None` when it is completed.
async fn activated(stores: &Stores) -> Option<(String, u32)> {
    loop {
        let row = row(stores).await;
        let there = row.row().allocation.descriptor.routing_id.as_bytes() == b"b";
        let Some(state) = &row.payload().relocation_state else {
            if there {
                return None;
            }
            // The commit is still to come.
            tokio::task::yield_now().await;
            continue;
        };
        if state.phase == RelocationPhase::Activated {
            let reference = state.relocation_reference.as_str().to_owned();
            return Some((reference, state.relocation_checksum_crc32c));
        }
        tokio::task::yield_now().await;
    }
}

/// Hosts `a` and `b` with `c` on the first, and a caller `x` that takes no Actors, on a runtime of its own.
struct World {
    stores: Stores,
    a: Host,
    at_a: Shared,
    b: Host,
    at_b: Shared,
    written: Recording,
}

impl World {
    /// With `x` and its runtime.
    async fn start() -> (Self, Host, Process) {
        let stores = Stores::new();
        let (at_a, at_b) = (Shared::default(), Shared::default());
        let a = builder("a", &stores, &at_a).start().await.unwrap();
        a.actors().create::<Counter>("c").await.unwrap();
        let written = Recording::of(&stores);
        let b = builder("b", &stores, &at_b).relocation_store(written.clone());
        let b = b.start().await.unwrap();
        let mut none = settings();
        none.placement_weight = 0;
        // Whatever happens to `x`, its lease outlives the test.
        none.owner_lease_ttl = Duration::from_mins(10);
        let of_x = Process::new();
        let x = builder("x", &stores, &Shared::default()).settings(none);
        let x = of_x.start(x).await;
        acquainted(&[&a, &b, &x]).await;
        let world = Self {
            stores,
            a,
            at_a,
            b,
            at_b,
            written,
        };
        (world, x, of_x)
    }

    /// Asks from `x`, and waits until the request stands in line at `a`.
    async fn ask_in_line<T: Send + 'static>(
        &self,
        place: u32,
        ask: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let asked = tokio::spawn(ask);
        crate::players::until(|| self.a.status().jobs.queued >= place).await;
        asked
    }

    /// A handler of `c` that runs at `a` until [`Self::move_to_b`].
    async fn block(&self) {
        let blocker = self.a.actor("c");
        tokio::spawn(async move { blocker.request("wait", ()).await });
        self.at_a.began.notified().await;
    }

    /// `x` asks, is gone without a word, and its request is moved with `c`.
    async fn ask_and_vanish(&self, x: Host, of_x: Process) {
        self.block().await;
        let adder = x.clone();
        let asked = self.ask_in_line(1, async move { add(&adder, "c", 5).await });
        let asked = asked.await;
        asked.abort();
        drop(asked.await);
        drop(x);
        of_x.kill();
        crate::players::until(|| self.a.status().peers + self.b.status().peers <= 2).await;
        self.move_to_b().await;
    }

    /// The name under which the answers stand, once they do.
    async fn stored(&self) -> String {
        let stored = async {
            loop {
                match activated(&self.stores).await {
                    Some((root, checksum)) if checksum != 0 => break root,
                    Some(_) => tokio::task::yield_now().await,
                    None => panic!("it is completed without a confirmation"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, stored).await.unwrap()
    }

    async fn move_to_b(&self) {
        move_behind_a_handler(&self.a, &self.b, &self.at_a).await;
    }
}

/// RL-6, RL-26, RL-263, RL-264, RL-364: the answers stand in the Relocation Store under the numbers of their requests, and the row
/// points at them; the move is completed when each caller has its answer, and then nothing of it stays.
#[tokio::test(flavor = "multi_thread")]
async fn answers_to_moved_requests_are_stored_until_the_move_is_completed() {
    let (world, x, _of_x) = World::start().await;
    world.block().await;
    let adder = x.clone();
    let added = world.ask_in_line(1, async move { add(&adder, "c", 5).await });
    let added = added.await;
    let waiter = x.actor("c");
    let waited = world.ask_in_line(2, async move { waiter.request("wait", ()).await });
    let waited = waited.await;
    world.move_to_b().await;
    assert_eq!(added.await.unwrap().unwrap(), "5");
    world.at_b.began.notified().await;
    // WR-63: a name and no checksum as long as there is no root.
    let (root, checksum) = activated(&world.stores).await.expect("a request is open");
    assert!(root.starts_with("relocation/"), "{root}");
    assert_eq!((checksum, world.written.last(&root)), (0, None));
    // RL-26: an open request does not keep the Actor from being moved on; its running handler does, for as long as it runs.
    let back = world.a.node_id();
    let moved = world
        .b
        .relocate_within("c", back, Duration::from_millis(200));
    let error = moved.await.unwrap_err().to_string();
    assert!(!error.contains("settled"), "{error}");
    world.at_b.gate.notify_one();
    waited.await.unwrap().unwrap();
    let completed = async {
        while activated(&world.stores).await.is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, completed).await.unwrap();
    let (counts, answers) = world.written.answers(&root).expect("it was stored");
    assert_eq!((counts.0, answers.len()), (2, 2));
    assert!(counts.1 <= 2);
    let mut before = 0;
    for answer in &answers {
        let ReplyRelayContext::MaintenanceRelocation { sequence, .. } = &answer.context else {
            panic!("{answer:?}");
        };
        assert!(sequence.get() > before);
        before = sequence.get();
    }
    assert_ne!(answers[0].operation, answers[1].operation);
    let payload = answers[0].payload.as_ref().unwrap();
    assert_eq!(&payload.payload.as_bytes()[..], b"5");
    let gone = BlobReference::new(&root).unwrap();
    let removed = async {
        while matches!(
            world.stores.relocation.get(&gone).await.unwrap(),
            BlobOutcome::Found { .. }
        ) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, removed).await.unwrap();
}

/// Answers a while, so that the host has taken what was sent before on this connection.
async fn look_up(host: &Host, link: &PeerLink, times: u64) {
    for n in 1..=times {
        let lookup = ActorLookup {
            correlation: spotlane_types::count::Correlation::new(n).unwrap(),
            actor_id: spotlane::id::ActorId::new("c").unwrap(),
        };
        let answer = link.request(Record::from(lookup), Duration::from_secs(10));
        drop(answer.await.unwrap());
        assert_eq!(host.state(), HostState::Serving);
    }
}

/// RL-267: as long as an answer is not confirmed, what stands in the Relocation Store is renewed with half of its life left,
/// and again soon when the store was silent.
#[tokio::test]
async fn stored_answers_are_renewed_until_they_are_confirmed() {
    const HALF: Duration = Duration::from_hours(12);
    let (world, x, of_x) = World::start().await;
    world.ask_and_vanish(x, of_x).await;
    let root = BlobReference::new(&world.stored().await).unwrap();
    let renewals = || {
        let renewed = world.written.renewed.lock().unwrap();
        renewed.iter().filter(|name| **name == root).count()
    };
    // So much time may pass that nothing else has to be waited for: nobody knows when the host's task sleeps.
    let pass = async |step: Duration, times: u32, done: &dyn Fn() -> bool| {
        for _ in 0..times {
            if done() {
                return true;
            }
            tokio::time::pause();
            tokio::time::advance(step).await;
            tokio::time::resume();
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
        done()
    };
    assert_eq!(renewals(), 0);
    assert!(pass(HALF, 100, &|| renewals() > 0).await);
    // The store is silent for one round; the next comes long before another half of a life is over.
    let blobs = world.written.puts.lock().unwrap().len();
    let silent = || world.written.silent.load(SeqCst);
    world
        .written
        .silent
        .store(u64::try_from(blobs).unwrap(), SeqCst);
    assert!(pass(HALF, 100, &|| silent() == 0).await);
    let before = renewals();
    let soon = Duration::from_mins(6);
    assert!(pass(soon, 100, &|| renewals() > before).await);
}

/// RL-265, RL-266, RL-267: an answer whose caller is silent is kept as long as the caller's lease lives. Nobody else can
/// confirm it, and a shutdown that comes first is forced.
#[tokio::test(flavor = "multi_thread")]
async fn only_its_caller_confirms_an_answer() {
    let (world, x, of_x) = World::start().await;
    let fence = fence_of(&x, &world.stores).await;
    world.ask_and_vanish(x, of_x).await;
    let root = world.stored().await;
    let stored = world.written.answers(&root).unwrap();
    assert_eq!(stored.0, (1, 1));
    let answer = &stored.1[0];
    let ReplyRelayContext::MaintenanceRelocation {
        relocation,
        coordinator,
        ..
    } = &answer.context
    else {
        panic!("{answer:?}");
    };
    let forged = ReplyRelayAck {
        relocation: *relocation,
        coordinator: coordinator.clone(),
        operation: answer.operation,
        reply_route_id: answer.reply_route_id,
        request_source: RequestSourceFence {
            source_owner_id: fence.target_owner_id,
            source_owner_lease_generation: fence.target_owner_lease_generation,
            source_node_rid: fence.target_node_rid,
            source_node_generation: fence.target_node_generation,
        },
        status: ReplyRelayAckStatus::TerminalReceived,
    };
    let (mesh, link) = hostile_peer(&world.b).await;
    link.send(Record::from(forged), Some(Duration::from_secs(10)))
        .await
        .unwrap();
    look_up(&world.b, &link, 100).await;
    assert_eq!(
        activated(&world.stores).await.map(|(root, _)| root),
        Some(root)
    );
    mesh.shutdown(Duration::from_secs(1)).await;
    let stopped = world.b.shutdown(Some(Duration::from_millis(300))).await;
    assert_eq!(
        stopped,
        Shutdown::ForceStopped(ForceReason::DeadlineExceeded)
    );
}

/// EX-273: 4,096 requests wait for their answers; more wait for a place, one whose time is over is not sent, and none is
/// lost.
#[tokio::test(flavor = "multi_thread")]
async fn more_requests_than_the_table_holds_wait_for_a_place() {
    const TABLE: usize = 4096;
    const MORE: usize = 200;
    let (world, x, _of_x) = World::start().await;
    world.block().await;
    let mut asked = Vec::new();
    for _ in 0..TABLE + MORE {
        let adder = x.clone();
        asked.push(tokio::spawn(async move { add(&adder, "c", 1).await }));
    }
    crate::players::until(|| x.status().pending_requests >= TABLE).await;
    let late = x.actor("c").request("add", "1000000".to_owned());
    let late = late.timeout(Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(x.status().pending_requests, TABLE);
    world.at_a.gate.notify_one();
    let mut totals = Vec::new();
    for asked in asked {
        let total = asked.await.unwrap().unwrap();
        totals.push(total.parse::<usize>().unwrap());
    }
    totals.sort_unstable();
    assert_eq!(totals, (1..=TABLE + MORE).collect::<Vec<_>>());
    assert_eq!(x.status().pending_requests, 0);
}
