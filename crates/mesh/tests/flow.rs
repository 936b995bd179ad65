//! Back-pressure of the host, chunks between other records, budgets, graceful and sudden ends.
#![expect(
    clippy::disallowed_methods,
    clippy::result_large_err,
    clippy::unwrap_used,
    reason = "tasks of a test end with it, and a host may give a record back"
)]

mod common;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use common::raw::{RawPeer, frames_of, message};
use common::{
    Node, PATIENCE, body, echoing, identity, node_request, node_send, payload, rid, start, watch,
};
use spotlane_mesh::{
    ActorMessage, Burst, Diagnostic, Flow, Inbound, LostReason, Mesh, MeshConfig, PeerEvent,
    PeerIntent, PeerLink, Received, ReplyHandle, Tracked, Written,
};
use spotlane_types::count::HopCount;
use spotlane_types::generation::{
    AuthorityOwnerGeneration, DescriptorRevision, NodeGeneration, ObjectGeneration,
    OwnerLeaseGeneration,
};
use spotlane_types::id::OperationId;
use spotlane_types::kind::RuntimeState;
use spotlane_wire::Record;
use spotlane_wire::command::message::ActorSend;
use spotlane_wire::reference::{ActorRef, ActorRouteFence};
use tokio::sync::Notify;

const SECOND: Duration = Duration::from_secs(1);

/// EX-120, TR-52: a host without a permit leaves the record with the mesh, which reads no further; on
/// resume it is offered first, and nothing is lost or out of order. Replies go on meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_without_room_holds_the_peer_back() {
    // Permits, and who waits for one.
    let permits = Arc::new(Mutex::new((3_u64, None)));
    let left = Arc::clone(&permits);
    let host: common::Answer = Box::new(move |received| {
        let mut left = left.lock().unwrap();
        if let Some(rest) = left.0.checked_sub(1) {
            left.0 = rest;
            return Err(received);
        }
        left.1 = Some(received.from.clone());
        Ok(Flow::Later(Box::new(received)))
    });
    let mut a = Node::alone("a", host).await;
    let b = Node::dialling("b", &a, echoing()).await;
    b.admitted("a").await;
    let sender = b.mesh.clone();
    let sending = tokio::spawn(async move {
        for number in 0..2000_u32 {
            let mut bytes = number.to_be_bytes().to_vec();
            bytes.resize(20_000, 0);
            let sent = sender.send(&rid("a"), node_send(bytes), None).await;
            assert!(sent.is_ok(), "{}", sent.unwrap_err());
        }
    });
    for number in 0..2000_u32 {
        let received = a.record().await;
        assert_eq!(body(&received.record)[..4], number.to_be_bytes());
        if number % 100 == 2 {
            // The Completion lane is read while the Application lane is not.
            let peer = rid("b");
            let reply = a.mesh.request(&peer, node_request(1, "x"), 10 * SECOND);
            reply.await.unwrap();
        }
        let waiting = {
            let mut permits = permits.lock().unwrap();
            permits.0 += 1;
            permits.1.take()
        };
        if let Some(link) = waiting {
            link.resume();
        }
    }
    sending.await.unwrap();
}

/// A host that takes what comes together in bursts, and leaves each tenth record with the mesh when it comes first.
struct Bursting {
    seen: Mutex<Vec<u32>>,
    bursts: AtomicUsize,
    in_bursts: AtomicUsize,
    /// Messages to Actors that were taken where they lay.
    in_place: AtomicUsize,
    left: Mutex<Option<u32>>,
    done: Notify,
}

/// So many records come in all.
const BURST_RECORDS: usize = 5000;

impl Bursting {
    fn take(&self, record: &Record) -> bool {
        let number = u32::from_be_bytes(body(record)[..4].try_into().unwrap());
        let mut left = self.left.lock().unwrap();
        if number % 10 == 0 && left.replace(number) != Some(number) {
            return false;
        }
        self.note(number);
        true
    }

    fn note(&self, number: u32) {
        let mut seen = self.seen.lock().unwrap();
        seen.push(number);
        if seen.len() == BURST_RECORDS {
            self.done.notify_one();
        }
    }

    /// Each third message to an Actor is wanted as a record.
    fn take_in_place(
        &self,
        message: &ActorMessage<'_>,
        reply: Option<ReplyHandle>,
    ) -> Option<Flow> {
        let (payload, asks) = match message {
            ActorMessage::Send(view) => (view.payload.payload, false),
            ActorMessage::Request(view) => (view.payload.payload, true),
        };
        assert_eq!(reply.is_some(), asks);
        let number = u32::from_be_bytes(payload.as_bytes()[..4].try_into().unwrap());
        if number.is_multiple_of(3) {
            return None;
        }
        self.in_place.fetch_add(1, Ordering::SeqCst);
        self.note(number);
        Some(Flow::Continue)
    }
}

struct BurstingHost(Arc<Bursting>);

impl Inbound for BurstingHost {
    fn on_record(&self, received: Received) -> Flow {
        if self.0.take(&received.record) {
            return Flow::Continue;
        }
        received.from.resume();
        Flow::Later(Box::new(received))
    }

    fn on_message(
        &self,
        _: &PeerLink,
        message: &ActorMessage<'_>,
        reply: Option<ReplyHandle>,
    ) -> Option<Flow> {
        self.0.take_in_place(message, reply)
    }

    fn on_burst<'a>(&'a self, from: &'a PeerLink, records: usize) -> Option<Box<dyn Burst + 'a>> {
        assert!((1..=64).contains(&records), "{records} records of a burst");
        let number = self.0.bursts.fetch_add(1, Ordering::SeqCst);
        // Some records come by themselves.
        (number % 3 < 2).then(|| -> Box<dyn Burst + 'a> { Box::new(OneBurst { host: self, from }) })
    }

    fn on_peer(&self, _: &PeerLink, _: PeerEvent) {}
}

struct OneBurst<'a> {
    host: &'a BurstingHost,
    from: &'a PeerLink,
}

impl Burst for OneBurst<'_> {
    fn on_record(&mut self, record: Record, reply: Option<ReplyHandle>) -> Flow {
        if self.host.0.take(&record) {
            self.host.0.in_bursts.fetch_add(1, Ordering::SeqCst);
            return Flow::Continue;
        }
        let received = Received {
            from: self.from.clone(),
            record,
            reply,
        };
        self.from.resume();
        Flow::Later(Box::new(received))
    }

    fn on_message(
        &mut self,
        message: &ActorMessage<'_>,
        reply: Option<ReplyHandle>,
    ) -> Option<Flow> {
        self.host.0.take_in_place(message, reply)
    }
}

/// Every second is for an Actor.
fn numbered(number: u32) -> Record {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(100, 0);
    if number.is_multiple_of(2) {
        return node_send(bytes);
    }
    Record::from(ActorSend {
        operation: OperationId::new(1, u64::from(number)).unwrap(),
        message_follow_hop_count: HopCount::MIN,
        source_actor: None,
        target_actor: ActorRouteFence {
            actor: ActorRef {
                actor_id: "e".parse().unwrap(),
                object_generation: ObjectGeneration::MIN,
            },
            target_node_rid: rid("a"),
            target_node_generation: NodeGeneration::MIN,
            expected_authority_owner_generation: AuthorityOwnerGeneration::MIN,
            expected_owner_lease_generation: OwnerLeaseGeneration::MIN,
        },
        bound_session_tail: None,
        metadata: None,
        payload: payload(bytes),
    })
}

/// EX-384, EX-120: what comes together is handed up in bursts, each record once and in order, also when the host leaves some
/// of them with the mesh, and takes messages to Actors where they lie or as records.
#[tokio::test]
async fn records_that_come_together_are_handed_up_in_bursts() {
    let host = Arc::new(Bursting {
        seen: Mutex::default(),
        bursts: AtomicUsize::new(0),
        in_bursts: AtomicUsize::new(0),
        in_place: AtomicUsize::new(0),
        left: Mutex::default(),
        done: Notify::new(),
    });
    let config = MeshConfig::new(identity("a", 41));
    let a = Mesh::start(config, BurstingHost(Arc::clone(&host)))
        .await
        .unwrap();
    let to = PeerIntent::manual(a.advertised_endpoint().as_str(), None).unwrap();
    let b = start(MeshConfig::new(identity("b", 42)).peer(to), watch()).await;
    b.admitted("a").await;
    for number in 0..u32::try_from(BURST_RECORDS).unwrap() {
        let sent = b.mesh.send(&rid("a"), numbered(number), None).await;
        assert!(sent.is_ok(), "{}", sent.unwrap_err());
    }
    let all = host.done.notified();
    tokio::time::timeout(PATIENCE, all).await.unwrap();
    let seen = host.seen.lock().unwrap();
    assert!(
        seen.iter()
            .copied()
            .eq(0..u32::try_from(BURST_RECORDS).unwrap())
    );
    let in_bursts = host.in_bursts.load(Ordering::SeqCst);
    assert!(
        in_bursts > BURST_RECORDS / 4,
        "only {in_bursts} came in bursts"
    );
    // Each third message to an Actor was wanted as a record; of the others some waited in the queue behind one that was left.
    let in_place = host.in_place.load(Ordering::SeqCst);
    assert!(
        in_place > BURST_RECORDS / 10,
        "only {in_place} were taken where they lay"
    );
}

/// How much a transfer moves: `SPOTLANE_MESH_TRANSFER_MIB`, 64 without it; the long form is 1024.
fn transfer_bytes() -> usize {
    let mib = std::env::var("SPOTLANE_MESH_TRANSFER_MIB").ok();
    mib.and_then(|mib| mib.parse().ok()).unwrap_or(64) * 1024 * 1024
}

const CHUNK: usize = 256 * 1024;
/// A chunk with what belongs to its frames.
const CHARGE_MAX: u64 = 257 * 1024;

/// What may be in flight of a transfer; the default of RL-293.
const BUDGET: u64 = 16 * 1024 * 1024;
/// The chunks of the budget: behind so many a request would wait if there were one queue for all.
const CHUNKS_IN_FLIGHT: usize = 64;
/// So many requests have to get through beside a transfer...
const REQUESTS_MIN: usize = 21;
/// ...of this length at most, in which one queue for all would let one less through.
const CHUNKS_MAX: usize = (REQUESTS_MIN - 1) * CHUNKS_IN_FLIGHT;
/// How many of the chunks that are queued when a request is made may go before it, for half of the requests: the
/// one that is being written and little more.
///
/// Counted and not timed, since a system that lets somebody else run stops the chunks as well.
const QUEUED_BEFORE_MAX: usize = 6;
/// How many chunks may arrive while a request is on its way, for nine of ten: also those in the buffers of the
/// sockets.
const ARRIVING_BEFORE_MAX: usize = CHUNKS_IN_FLIGHT;

/// A sender of chunks that keeps within a budget by what the mesh tells it (TR-94): a charge counts from the submit until the
/// socket took the bytes.
#[derive(Clone)]
struct Paced {
    link: PeerLink,
    open: Arc<Mutex<VecDeque<Tracked>>>,
}

impl Paced {
    fn new(link: PeerLink) -> Self {
        let open = Arc::default();
        Self { link, open }
    }

    /// Waits until so much may be in flight besides what is, then submits.
    async fn send(&self, chunk: Record) {
        self.at_most(BUDGET - CHARGE_MAX).await;
        let tracked = self.link.submit_bulk(chunk).unwrap();
        self.open.lock().unwrap().push_back(tracked);
    }

    /// Waits until no more than this is in flight.
    async fn at_most(&self, most: u64) {
        let less = poll_fn(|cx| {
            let mut open = self.open.lock().unwrap();
            while let Some(first) = open.front_mut()
                && let Poll::Ready(written) = Pin::new(first).poll(cx)
            {
                assert_eq!(written, Written::Taken);
                open.pop_front();
            }
            let in_flight: u64 = open.iter().map(Tracked::charge).sum();
            if in_flight <= most {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        tokio::time::timeout(PATIENCE, less).await.unwrap();
    }

    fn in_flight(&self) -> u64 {
        let mut open = self.open.lock().unwrap();
        let flying = open
            .iter_mut()
            .filter_map(|it| it.now().is_none().then(|| it.charge()));
        flying.sum()
    }
}

/// Waits until a host has counted so many.
async fn reaches(seen: &AtomicU64, count: u64) {
    let reached = async {
        while seen.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap();
}

/// RL-131, RL-132, TR-38: small requests pass between the chunks of a transfer on the same connection and
/// wait for a few chunks at most; the chunks arrive whole and in order, and the charge of each returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_pass_between_the_chunks_of_a_transfer() {
    let chunks_min = transfer_bytes() / CHUNK;
    let seen = Arc::new(AtomicU64::new(0));
    // The chunks that were there before the last request.
    let before = Arc::new(AtomicU64::new(0));
    let (count, at_request) = (Arc::clone(&seen), Arc::clone(&before));
    let host: common::Answer = Box::new(move |mut received| {
        if let Some(reply) = received.reply.take() {
            at_request.store(count.load(Ordering::SeqCst), Ordering::SeqCst);
            reply.answer(common::echo(&received.record)).ok();
        } else {
            let number = count.fetch_add(1, Ordering::SeqCst);
            assert_eq!(body(&received.record)[..8], number.to_be_bytes());
        }
        Ok(Flow::Continue)
    });
    let a = Node::alone("a", host).await;
    let b = Node::dialling("b", &a, watch()).await;
    let link = b.admitted("a").await;
    let paced = Paced::new(link.clone());
    let bulk = paced.clone();
    let requests = Arc::new(AtomicUsize::new(0));
    let submitted = Arc::new(AtomicUsize::new(0));
    let (answered, submits) = (Arc::clone(&requests), Arc::clone(&submitted));
    let transfer = tokio::spawn(async move {
        let mut chunks = 0;
        // A loaded machine may need a longer transfer to have as many requests beside it.
        while chunks < chunks_min
            || (chunks < CHUNKS_MAX && answered.load(Ordering::SeqCst) < REQUESTS_MIN)
        {
            let mut bytes = u64::try_from(chunks).unwrap().to_be_bytes().to_vec();
            bytes.resize(CHUNK, 7);
            bulk.send(node_send(bytes)).await;
            assert!(bulk.in_flight() <= BUDGET);
            chunks += 1;
            submits.store(chunks, Ordering::SeqCst);
        }
        bulk.at_most(0).await;
        chunks
    });
    let (mut queued, mut arriving) = (Vec::new(), Vec::new());
    while !transfer.is_finished() {
        let arrived = seen.load(Ordering::SeqCst);
        let in_queue = usize::try_from(paced.in_flight()).unwrap() / CHUNK;
        let written = submitted.load(Ordering::SeqCst).saturating_sub(in_queue);
        let request = node_request(1, vec![1; 64]);
        let reply = link.request(request, 30 * SECOND).await.unwrap();
        assert!(reply.payload.is_some());
        let before = before.load(Ordering::SeqCst);
        arriving.push(usize::try_from(before - arrived).unwrap());
        queued.push(usize::try_from(before).unwrap().saturating_sub(written));
        requests.fetch_add(1, Ordering::SeqCst);
    }
    let chunks = transfer.await.unwrap();
    // With everything in one queue it would be one for each 64 chunks.
    let count = queued.len();
    assert!(count >= REQUESTS_MIN, "{count} beside {chunks}");
    queued.sort_unstable();
    arriving.sort_unstable();
    let (half, most) = (queued[count / 2], arriving[count * 9 / 10]);
    println!(
        "{count} requests, {chunks} chunks: half behind {half} of the queue, nine of ten behind {most}"
    );
    assert!(half <= QUEUED_BEFORE_MAX, "{queued:?}");
    assert!(most <= ARRIVING_BEFORE_MAX, "{arriving:?}");
    link.request(node_request(2, "behind"), 10 * SECOND)
        .await
        .unwrap();
    reaches(&seen, u64::try_from(chunks).unwrap()).await;
    assert_eq!(paced.in_flight(), 0);
}

/// A flooding peer: writes many records at once, all of which lie at the node before anybody else runs. More would wait
/// at the peer for a window, and then the node could not take turns.
fn flood(peer: &RawPeer, number: u8) -> usize {
    const RECORDS: usize = 600;
    let record = message(&frames_of(&node_send(vec![number; 20])));
    let flood = record.repeat(RECORDS);
    let written = peer.application.stream.try_write(&flood).unwrap();
    assert_eq!(written, flood.len(), "the socket takes them all");
    RECORDS
}

/// TR-53, EX-384: no more than 64 records of one peer in a row while another one has some, and a quiet
/// peer waits for one turn of each flooding one.
#[tokio::test]
async fn a_flooding_peer_gets_its_turns_and_no_more() {
    let mut node = Node::alone("node", watch()).await;
    let first = RawPeer::admitted(&node, "first").await;
    let second = RawPeer::admitted(&node, "second").await;
    let mut quiet = RawPeer::admitted(&node, "calm").await;
    let counts = [flood(&first, 1), flood(&second, 2)];
    let record = message(&frames_of(&node_send(vec![3])));
    quiet.application.write(&record).await;
    let mut seen = [0; 2];
    let (mut run, mut longest) = ((0, 0), 0);
    let mut waited = 0;
    while seen != counts {
        let received = node.record().await;
        let from = body(&received.record)[0];
        match from {
            3 => {
                assert!(waited <= 128, "a quiet peer waited for {waited} records");
                waited = 0;
                // The next one, as long as the others flood.
                quiet.application.write(&record).await;
                continue;
            }
            _ => waited += 1,
        }
        let place = usize::from(from) - 1;
        seen[place] += 1;
        run = if run.0 == from {
            (from, run.1 + 1)
        } else {
            (from, 1)
        };
        let other = 1 - place;
        assert!(
            run.1 <= 64 || seen[other] == counts[other],
            "{run:?} in a row"
        );
        if seen[other] < counts[other] {
            longest = longest.max(run.1);
        }
    }
    assert_eq!(longest, 64, "a turn is used up when there is enough");
}

/// TR-67: a chunk does not pass what was submitted before it; later records may pass the chunk.
#[tokio::test]
async fn a_chunk_stays_behind_what_was_before_it() {
    let mut a = Node::alone("a", watch()).await;
    let b = Node::dialling("b", &a, watch()).await;
    let link = b.admitted("a").await;
    for round in 0..50_u8 {
        link.submit(node_send(vec![round, 0])).unwrap();
        drop(link.submit_bulk(node_send(vec![round; 100_000])).unwrap());
        link.submit(node_send(vec![round, 2])).unwrap();
    }
    let mut before = [None; 50];
    let mut chunk = 0_u8;
    for _ in 0..150 {
        let received = a.record().await;
        let body = body(&received.record);
        let round = usize::from(body[0]);
        if body.len() > 2 {
            assert_eq!(body[0], chunk, "chunks are in order");
            assert!(before[round].is_some(), "a chunk passed what was before it");
            chunk += 1;
        } else {
            assert!(body[1] == 2 || before[round].is_none());
            before[round].get_or_insert(());
        }
    }
}

/// RL-131, TR-94: the charge of a chunk is known when it is submitted, frames included. It is held while the peer takes
/// nothing, returns when the socket took the bytes, and with the connection if it is lost before; each once.
#[tokio::test]
async fn the_charge_of_a_chunk_returns_when_it_is_written_or_lost() {
    const CHUNKS: usize = 32;
    let node = Node::alone("node", watch()).await;
    let mut peer = RawPeer::admitted(&node, "raw").await;
    let link = node.admitted("raw").await;
    let chunk = node_send(vec![0; 1_000_000]);
    let mut taken: Vec<_> = (0..CHUNKS)
        .map(|_| link.submit_bulk(chunk.clone()).unwrap())
        .collect();
    // More than the sockets hold, so the last one has to wait for the peer.
    assert!(taken.iter().all(|it| it.charge() >= 1_000_000 + 2 * 64));
    assert_eq!(taken[0].now(), None);
    peer.application.message().await.unwrap();
    let first = tokio::time::timeout(PATIENCE, &mut taken[0]).await.unwrap();
    assert_eq!(first, Written::Taken);
    assert_eq!(taken[CHUNKS - 1].now(), None);
    drop(peer);
    let (mut written, mut lost) = (0, 0);
    for tracked in taken.drain(1..) {
        match tokio::time::timeout(PATIENCE, tracked).await.unwrap() {
            Written::Taken => written += 1,
            Written::Lost => lost += 1,
        }
    }
    assert!(lost > 0, "{written} written");
    let refused = link.submit_bulk(chunk.clone()).unwrap_err();
    assert_eq!(*refused.record, chunk);
}

/// TR-77, TR-89: a change of the descriptor reaches every admitted peer; a draining peer is not ready.
#[tokio::test]
async fn an_update_reaches_the_peers() {
    let a = Node::alone("a", watch()).await;
    let mut b = Node::dialling("b", &a, watch()).await;
    let link = b.admitted("a").await;
    a.admitted("b").await;
    assert!(b.mesh.peers()[0].is_ready());
    let mut descriptor = common::descriptor(41);
    descriptor.descriptor_revision = DescriptorRevision::new(2).unwrap();
    descriptor.extension.runtime_state = RuntimeState::Draining;
    a.mesh.describe(descriptor);
    let updated = loop {
        if let (from, PeerEvent::Updated { descriptor }) = b.event().await {
            assert_eq!(from, link);
            break descriptor;
        }
    };
    assert_eq!(updated.extension.runtime_state, RuntimeState::Draining);
    assert!(!b.mesh.peers()[0].is_ready());
    // What was accepted goes on.
    link.submit(node_send("x")).unwrap();
}

/// TR-76: a node that starts anew is a new run; the old link is lost before the new one is admitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_run_of_a_peer_is_another_peer() {
    let mut a = Node::alone("a", watch()).await;
    let intent = a.intent();
    let config = |run| MeshConfig::new(identity("b", run)).peer(intent.clone());
    let b = start(config(7), watch()).await;
    let first = a.admitted("b").await;
    drop(b);
    let b = start(config(8), watch()).await;
    b.admitted("a").await;
    let mut events = Vec::new();
    while events.len() < 3 {
        events.push(a.event().await);
    }
    assert!(matches!(events[0].1, PeerEvent::Admitted { .. }));
    assert!(matches!(events[1].1, PeerEvent::Lost { .. }));
    assert_eq!(events[1].0, first);
    assert!(matches!(events[2].1, PeerEvent::Admitted { .. }));
    assert_eq!(events[2].0.node_generation().get(), 8);
    assert_ne!(events[2].0, first);
}

/// A withdrawn intent ends its link; a shutdown ends all tasks and tells the host.
#[tokio::test]
async fn a_withdrawn_intent_and_a_shutdown_end_links() {
    let a = Node::alone("a", watch()).await;
    let mut b = Node::alone("b", watch()).await;
    b.mesh.set_peers(vec![a.intent()]);
    b.admitted("a").await;
    b.mesh.set_peers(Vec::new());
    assert_eq!(b.lost().await, LostReason::Withdrawn);
    b.mesh.set_peers(vec![a.intent()]);
    b.admitted("a").await;
    b.mesh.shutdown(5 * SECOND).await;
    assert_eq!(b.lost().await, LostReason::Shutdown);
    assert!(b.mesh.peers().is_empty());
    a.gone("b").await;
}

/// TR-37, TR-56: an endpoint that nobody listens on is dialled again and again, and delays no shutdown.
#[tokio::test]
async fn an_unreachable_endpoint_is_tried_again_and_holds_nothing_up() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", free.local_addr().unwrap());
    drop(free);
    let intent = PeerIntent::manual(&endpoint, None).unwrap();
    let config = MeshConfig::new(identity("a", 1)).clock(common::fast());
    let mut a = start(config.peer(intent), watch()).await;
    let mut tries = 0;
    while tries < 5 {
        if let Diagnostic::NotDialled {
            endpoint: tried,
            error,
        } = a.diagnostic().await
        {
            assert_eq!(tried.as_str(), endpoint);
            assert_eq!(error, std::io::ErrorKind::ConnectionRefused);
            tries += 1;
        }
    }
    let shutdown = a.mesh.shutdown(3600 * SECOND);
    tokio::time::timeout(PATIENCE, shutdown).await.unwrap();
}
