//! What a call promises, seen from outside: when it starts, who decodes and releases its payload, who may wait for whom.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use spotlane::FromPayload;
use spotlane::memory::MemoryStore;
use spotlane::prelude::*;
use spotlane_store_memory::{FaultControl, FaultStore};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::app::{Counter, Shared, Stores, add, builder, host, settings, text};
use crate::left_behind::until;
use crate::two_hosts::connect;

/// How often [`Seen`] was decoded. One test uses it.
static DECODED: AtomicUsize = AtomicUsize::new(0);

/// A message that counts its own decoding.
struct Seen(String);

impl FromPayload for Seen {
    fn from_payload(payload: Payload) -> Result<Self, Error> {
        DECODED.fetch_add(1, Ordering::SeqCst);
        String::from_payload(payload).map(Self)
    }
}

/// What a test shares with its probe.
#[derive(Clone, Default)]
struct Signals {
    began: Arc<Notify>,
    gate: Arc<Notify>,
    made: Arc<AtomicUsize>,
    /// What the Actor answered to a task of its own.
    answer: Arc<OnceLock<Result<String, Error>>>,
}

/// An Actor that does what a test tells it.
struct Probe {
    signals: Signals,
}

impl Probe {
    fn new(signals: &Signals) -> Self {
        signals.made.fetch_add(1, Ordering::SeqCst);
        Self {
            signals: signals.clone(),
        }
    }

    async fn wait(&mut self, _: &mut Context, _: Payload) {
        self.signals.began.notify_one();
        self.signals.gate.notified().await;
    }

    async fn take(&mut self, _: &mut Context, _: Payload) {}

    async fn fail(&mut self, _: &mut Context, _: Payload) -> Result<(), Error> {
        Err(Error::rejected("no"))
    }

    async fn explode(&mut self, _: &mut Context, _: Payload) {
        panic!("as asked");
    }

    async fn seen(&mut self, _: &mut Context, seen: Seen) -> String {
        seen.0
    }

    async fn hello(&mut self, _: &mut Context, (): ()) -> String {
        "hello".to_owned()
    }

    /// Starts a task that asks this very Actor once the gate is open.
    async fn start(&mut self, context: &mut Context, (): ()) {
        let itself = context.actor(context.id().as_str());
        let signals = self.signals.clone();
        tokio::spawn(async move {
            signals.gate.notified().await;
            let answer = itself.request("hello", ()).reply::<String>().await;
            signals.answer.set(answer).expect("it asks once");
        });
    }

    /// Computes off the workers of the handlers.
    async fn compute(&mut self, context: &mut Context, (): ()) -> Result<String, Error> {
        let host = context.host();
        let sum = host.compute(Duration::from_secs(10), || (1..=10).sum::<u32>());
        Ok(sum.await?.to_string())
    }
}

impl Actor for Probe {
    const TYPE: &'static str = "probe";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers
            .request("wait", Self::wait)
            .request("take", Self::take)
            .request("fail", Self::fail)
            .request("explode", Self::explode)
            .request("seen", Self::seen)
            .request("hello", Self::hello)
            .request("start", Self::start)
            .request("compute", Self::compute)
            .send("seen", Self::seen);
    }

    async fn on_create(
        &mut self,
        _: &mut Context,
        request: Option<Payload>,
    ) -> Result<Decision, Error> {
        if request.is_some() {
            self.signals.began.notify_one();
            self.signals.gate.notified().await;
        }
        Ok(Decision::accept())
    }
}

async fn probing(node: &str, stores: &Stores, signals: &Signals) -> Host {
    let signals = signals.clone();
    Host::builder()
        .mesh("test")
        .node_id(node)
        .location_store(stores.location.clone())
        .relocation_store(stores.relocation.clone())
        .actor(Policy::disable(), move || Probe::new(&signals))
        .settings(settings())
        .start()
        .await
        .unwrap()
}

/// One host with a probe on it.
async fn probe() -> (Host, Signals) {
    let signals = Signals::default();
    let host = probing("a", &Stores::new(), &signals).await;
    host.actors().create::<Probe>("p").await.unwrap();
    (host, signals)
}

/// EX-303, EX-282: a call that nobody awaits is checked and starts nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_not_awaited_starts_nothing() {
    let (host, _) = host("a", &Stores::new()).await;
    host.actors().create::<Counter>("c").await.unwrap();
    drop(host.actor("c").request("add", "1"));
    drop(host.actor("c").send("note", "n"));
    drop(host.actors().create::<Counter>("d"));
    assert_eq!(text(&host, "c", "log").await.unwrap(), "");
    assert_eq!(host.status().actors, 1);
}

/// EX-323, EX-324, EX-327, EX-388: a queued payload is decoded when its turn has come and once; what is malformed reaches no
/// handler and harms nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_is_decoded_in_its_turn_and_once() {
    let (host, signals) = probe().await;
    let blocker = host.actor("p");
    let blocked = tokio::spawn(async move { blocker.request("wait", ()).await });
    signals.began.notified().await;
    let asker = host.actor("p");
    let asked = tokio::spawn(async move { asker.request("seen", "x").reply::<String>().await });
    host.actor("p").send("seen", "y").await.unwrap();
    // Not a text.
    host.actor("p").send("seen", Bytes::new()).await.unwrap();
    // The running handler has given its permit back.
    until("all three wait", || host.status().jobs.queued == 3).await;
    assert_eq!(DECODED.load(Ordering::SeqCst), 0);
    signals.gate.notify_one();
    blocked.await.unwrap().unwrap();
    assert_eq!(asked.await.unwrap().unwrap(), "x");
    let malformed = host.actor("p").request("seen", Bytes::new()).await;
    assert_eq!(malformed.unwrap_err().kind(), ErrorKind::ProtocolError);
    assert_eq!(DECODED.load(Ordering::SeqCst), 4);
}

/// Bytes that say when they are released.
struct Lent(Arc<AtomicUsize>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        b"lent"
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// EX-320, EX-322: a payload is released once, after the handler's terminal, however that came about.
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_is_released_once_on_every_path() {
    let (host, signals) = probe().await;
    let released = Arc::new(AtomicUsize::new(0));
    let lent = || Bytes::from_owner(Lent(Arc::clone(&released)));
    let paths = [("take", true), ("fail", false), ("explode", false)];
    for (times, (name, succeeds)) in paths.into_iter().enumerate() {
        let ended = host.actor("p").request(name, lent()).await;
        assert_eq!(ended.is_ok(), succeeds, "{name}");
        assert_eq!(released.load(Ordering::SeqCst), times + 1, "{name}");
    }
    // Held while the handler runs; given up in the queue by its deadline.
    let (blocker, held) = (host.actor("p"), lent());
    let blocked = tokio::spawn(async move { blocker.request("wait", held).await });
    signals.began.notified().await;
    let short = host.actor("p").request("take", lent());
    let late = short.timeout(Duration::from_millis(5)).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::DeadlineExceeded);
    assert!(released.load(Ordering::SeqCst) <= 4);
    signals.gate.notify_one();
    blocked.await.unwrap().unwrap();
    until("both are released", || released.load(Ordering::SeqCst) == 5).await;
    // A shutdown that cannot wait for the handler.
    let (blocker, held) = (host.actor("p"), lent());
    let blocked = tokio::spawn(async move { blocker.request("wait", held).await });
    signals.began.notified().await;
    host.shutdown(Some(Duration::from_millis(5))).await;
    let stopped = blocked.await.unwrap().unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::ShuttingDown);
    drop(host);
    until("all are released", || released.load(Ordering::SeqCst) == 6).await;
}

/// EX-366, EX-365: a task that a handler starts is not in the turn, so it may ask the Actor that started it.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_does_not_inherit_the_turn() {
    let (host, signals) = probe().await;
    host.actor("p").request("start", ()).await.unwrap();
    signals.gate.notify_one();
    until("it is answered", || signals.answer.get().is_some()).await;
    let answer = signals.answer.get().unwrap().as_ref();
    assert_eq!(answer.unwrap(), "hello");
}

/// EX-156, RL-84: sixteen creations on two hosts at once run one factory.
#[tokio::test(flavor = "multi_thread")]
async fn a_race_of_creations_runs_one_factory() {
    let (stores, signals) = (Stores::new(), Signals::default());
    let a = probing("a", &stores, &signals).await;
    let b = probing("b", &stores, &signals).await;
    connect(&[&a, &b]).await;
    let mut calls = JoinSet::new();
    for n in 0..16 {
        let actors = if n % 2 == 0 { a.actors() } else { b.actors() };
        calls.spawn(async move { actors.get_or_create::<Probe>("p").await });
    }
    let made = calls.join_all().await;
    let created = made
        .iter()
        .filter(|made| made.as_ref().unwrap().is_created());
    assert_eq!(created.count(), 1);
    assert_eq!(signals.made.load(Ordering::SeqCst), 1);
}

/// EX-110, RL-91: an Actor in creation takes nothing, and a second creation waits for the first.
#[tokio::test(flavor = "multi_thread")]
async fn an_actor_in_creation_takes_nothing() {
    let signals = Signals::default();
    let host = probing("a", &Stores::new(), &signals).await;
    let (first, second) = (host.actors(), host.actors());
    let first = tokio::spawn(async move { first.create::<Probe>("p").request("wait").await });
    signals.began.notified().await;
    let early = host.actor("p").request("hello", ()).await.unwrap_err();
    assert_eq!(early.kind(), ErrorKind::NotFound);
    let second = tokio::spawn(async move { second.get_or_create::<Probe>("p").await });
    signals.gate.notify_one();
    assert!(first.await.unwrap().unwrap().is_created());
    assert!(!second.await.unwrap().unwrap().is_created());
    let hello = host.actor("p").request("hello", ()).reply::<String>();
    assert_eq!(hello.await.unwrap(), "hello");
    assert_eq!(signals.made.load(Ordering::SeqCst), 1);
}

/// EX-107, EX-314, RL-284: while the store keeps the lease from being renewed, nothing starts past its deadline; with the
/// store the host is back.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_past_the_admission_deadline() {
    let (stores, faults) = (Stores::new(), FaultControl::new());
    let location: FaultStore<MemoryStore> =
        FaultStore::new(stores.location.clone(), faults.clone());
    let mut short = settings();
    // The host stops three seconds after the last renewal, and has the lease for much longer.
    short.owner_lease_ttl = Duration::from_secs(20);
    short.owner_lease_renew_interval = Duration::from_millis(50);
    short.owner_lease_renew_timeout = Duration::from_millis(100);
    short.owner_lease_fencing_margin = Duration::from_secs(17);
    short.route_cache_max_age = Duration::from_millis(100);
    let host = builder("a", &stores, &Shared::default())
        .location_store(location)
        .settings(short)
        .start()
        .await
        .unwrap();
    host.actors().create::<Counter>("c").await.unwrap();
    faults.delay_every(Duration::from_secs(6));
    until("the deadline has passed", || !host.status().admits_work).await;
    let refused = add(&host, "c", 1).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    faults.delay_every(Duration::ZERO);
    until("the lease is renewed", || host.status().admits_work).await;
    assert_eq!(add(&host, "c", 2).await.unwrap(), "2");
}

/// EX-279: a handler computes for long without occupying a worker of the handlers.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_computes_elsewhere() {
    let (host, _) = probe().await;
    let sum = host.actor("p").request("compute", ()).reply::<String>();
    assert_eq!(sum.await.unwrap(), "55");
}
