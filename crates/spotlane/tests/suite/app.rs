//! The application of the tests: a counter that remembers what it did, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spotlane::HostBuilder;
use spotlane::memory::{MemoryRelocation, MemoryStore};
use spotlane::prelude::*;
use tokio::sync::Notify;

/// What a test shares with the counters of its hosts.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    /// Lets `wait` go on.
    pub(crate) gate: Arc<Notify>,
    /// Says that `wait` has begun.
    pub(crate) began: Arc<Notify>,
    /// Says that a timer has fired.
    pub(crate) ticked: Arc<Notify>,
    /// Makes the adapter fail.
    pub(crate) refuse_capture: Arc<AtomicBool>,
    /// Makes the adapter fail.
    pub(crate) refuse_restore: Arc<AtomicBool>,
    /// Makes the adapter say `began` and wait for `gate`.
    pub(crate) hold_restore: Arc<AtomicBool>,
    /// Says that an Actor has decided about its creation.
    pub(crate) decided: Arc<Notify>,
}

#[derive(Default)]
pub(crate) struct Counter {
    total: i64,
    log: Vec<String>,
    ticks: u64,
    shared: Shared,
}

impl Counter {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            shared: shared.clone(),
            ..Self::default()
        }
    }

    async fn add(&mut self, _: &mut Context, by: String) -> Result<String, Error> {
        let by: i64 = by
            .parse()
            .map_err(|_| Error::rejected("a number, please"))?;
        self.total += by;
        self.log.push(by.to_string());
        Ok(self.total.to_string())
    }

    async fn note(&mut self, _: &mut Context, tag: String) {
        self.log.push(tag);
    }

    async fn note2(&mut self, _: &mut Context, tag: String) {
        self.log.push(tag);
    }

    async fn log(&mut self, _: &mut Context, (): ()) -> String {
        self.log.join(",")
    }

    async fn place(&mut self, context: &mut Context, (): ()) -> String {
        String::from_utf8_lossy(context.node().as_bytes()).into_owned()
    }

    async fn way(&mut self, context: &mut Context, (): ()) -> String {
        format!("{:?}", context.arrival())
    }

    async fn fail(&mut self, _: &mut Context, (): ()) -> Result<(), Error> {
        Err(Error::rejected("no"))
    }

    async fn explode(&mut self, _: &mut Context, (): ()) {
        panic!("as asked");
    }

    async fn wait(&mut self, _: &mut Context, (): ()) {
        self.shared.began.notify_one();
        self.shared.gate.notified().await;
    }

    /// Asks another Actor to add one, or itself.
    async fn ask(&mut self, context: &mut Context, other: String) -> Result<String, Error> {
        context
            .actor(other)
            .request("add", "1".to_owned())
            .reply()
            .await
    }

    /// Waits for itself, by way of the host, whose handles know no turn.
    async fn outside(&mut self, context: &mut Context, what: String) -> Result<String, Error> {
        let (host, id) = (context.host(), context.id().to_string());
        match &what[..] {
            "ask" => host.actor(id).request("log", ()).reply().await,
            "destroy" => {
                let destroyed = host.actors().destroy(context.actor_ref()).await;
                destroyed.map(|done| done.to_string())
            }
            node => {
                let mut nodes = host.nodes().into_iter().map(|known| known.node);
                let target = nodes.find(|known| known.as_bytes() == node.as_bytes());
                let target = target.ok_or_else(|| Error::rejected("no such node"))?;
                host.relocate(id, &target).await.map(|()| String::new())
            }
        }
    }

    async fn start(&mut self, context: &mut Context, (): ()) -> Result<(), Error> {
        context.start_timer("tick", Every::new(Duration::from_millis(5)))
    }

    async fn stop(&mut self, context: &mut Context, (): ()) -> String {
        context.cancel_timer("tick").to_string()
    }

    async fn tick(&mut self, _: &mut Context, tick: Tick) {
        self.ticks += 1;
        assert_eq!(tick.delivery_index, self.ticks);
        self.shared.ticked.notify_one();
    }
}

impl Actor for Counter {
    const TYPE: &'static str = "counter";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers
            .request("add", Self::add)
            .request("log", Self::log)
            .request("note2", Self::note2)
            .request("place", Self::place)
            .request("way", Self::way)
            .request("fail", Self::fail)
            .request("explode", Self::explode)
            .request("wait", Self::wait)
            .request("ask", Self::ask)
            .request("outside", Self::outside)
            .request("start", Self::start)
            .request("stop", Self::stop)
            .send("note", Self::note)
            .on_tick("tick", Self::tick);
    }

    async fn on_create(
        &mut self,
        context: &mut Context,
        request: Option<Payload>,
    ) -> Result<Decision, Error> {
        let Some(request) = request else {
            return Ok(Decision::accept());
        };
        let text = String::from_utf8_lossy(request.as_bytes()).into_owned();
        self.shared.decided.notify_one();
        match &text[..] {
            "wait at a" if context.node().as_bytes() == b"a" => {
                self.shared.began.notify_one();
                self.shared.gate.notified().await;
                Ok(Decision::accept())
            }
            "reject" => Decision::reject().with_reply("not you".to_owned()),
            "fail" => Err(Error::internal("as asked")),
            "panic" => panic!("as asked"),
            _ => {
                self.log.push(text);
                Decision::accept().with_reply("welcome".to_owned())
            }
        }
    }
}

/// Moves everything that a counter is.
pub(crate) struct Everything;

impl Adapter<Counter> for Everything {
    async fn capture(&self, counter: &mut Counter) -> Result<Bytes, Error> {
        if counter.shared.refuse_capture.load(Ordering::SeqCst) {
            return Err(Error::internal("as asked"));
        }
        let state = format!(
            "{};{};{}",
            counter.total,
            counter.ticks,
            counter.log.join(",")
        );
        Ok(Bytes::from(state))
    }

    async fn restore(&self, counter: &mut Counter, state: Bytes) -> Result<(), Error> {
        if counter.shared.refuse_restore.load(Ordering::SeqCst) {
            return Err(Error::internal("as asked"));
        }
        if counter.shared.hold_restore.load(Ordering::SeqCst) {
            counter.shared.began.notify_one();
            counter.shared.gate.notified().await;
        }
        let text = String::from_utf8(state.to_vec()).map_err(|_| Error::internal("no text"))?;
        let mut parts = text.splitn(3, ';');
        counter.total = parts.next().and_then(|t| t.parse().ok()).unwrap();
        counter.ticks = parts.next().and_then(|t| t.parse().ok()).unwrap();
        let log = parts.next().unwrap();
        counter.log = log
            .split(',')
            .filter(|t| !t.is_empty())
            .map(str::to_owned)
            .collect();
        Ok(())
    }
}

/// The stores of one cluster.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) location: MemoryStore,
    pub(crate) relocation: MemoryRelocation,
}

impl Stores {
    pub(crate) fn new() -> Self {
        Self {
            location: MemoryStore::new(spotlane::store_time),
            relocation: MemoryRelocation::new(spotlane::store_time),
        }
    }
}

/// Settings with short times where a test waits for them.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.polling_interval = Duration::from_millis(50);
    settings.default_request_timeout = Duration::from_secs(10);
    settings.workers = Some(2);
    settings
}

pub(crate) fn builder(node: &str, stores: &Stores, shared: &Shared) -> HostBuilder {
    let shared = shared.clone();
    Host::builder()
        .mesh("test")
        .node_id(node)
        .location_store(stores.location.clone())
        .relocation_store(stores.relocation.clone())
        .actor(Policy::preserve(Everything), move || Counter::new(&shared))
        .settings(settings())
}

pub(crate) async fn host(node: &str, stores: &Stores) -> (Host, Shared) {
    let shared = Shared::default();
    let host = builder(node, stores, &shared).start().await.unwrap();
    assert_eq!(host.state(), HostState::Serving);
    (host, shared)
}

pub(crate) async fn text(host: &Host, id: &str, name: &str) -> Result<String, Error> {
    host.actor(id).request(name, ()).reply().await
}

pub(crate) async fn add(host: &Host, id: &str, by: i64) -> Result<String, Error> {
    host.actor(id).request("add", by.to_string()).reply().await
}

/// Creations that the Actor refuses, that fail and that panic: each is told apart, and none leaves an Actor behind.
pub(crate) async fn refuses_and_fails(host: &Host) {
    let create = |request: &'static str| host.actors().create::<Counter>("c").request(request);
    let refused = create("reject").await.unwrap();
    let Creation::Rejected { reply: Some(reply) } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(reply.as_bytes(), "not you");
    for request in ["fail", "panic"] {
        let error = create(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InternalFailure);
    }
    assert_eq!(host.actors().find("c").await.unwrap(), None);
}
