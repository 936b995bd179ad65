//! What the links of a node share: who is connected, who is told, who runs.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use foldhash::fast::RandomState;
use spotlane_mesh_proto::admission::{Expected, Side, Terms};
use spotlane_mesh_proto::link::{AcceptedLane, HeldBudget, Link, LinkEvent, LinkSettings};
use spotlane_mesh_proto::peers::{ConnectionId, Join, Joins, LinkId, Peers, PeersFull, Verdict};
use spotlane_mesh_proto::zmp::{Generation, PairId, PairKey};
use spotlane_types::count::ProbeId;
use spotlane_types::id::{NodeRid, ProtocolCapability, SecurityIdentity};
use spotlane_wire::descriptor::RouteMeshAdmission;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::clock::MeshClock;
use crate::config::{Address, MeshConfig, Scheme};
use crate::error::LostReason;
use crate::inbound::{Inbound, PeerEvent, PeerLink};
use crate::link::{LinkCore, Start};
use crate::mesh::PeerInfo;
use crate::random::Random;
use crate::stream::Stream;

/// What a node has of its own.
pub(crate) struct Node {
    pub(crate) config: MeshConfig,
    pub(crate) inbound: Arc<dyn Inbound>,
    /// What waits for the admission of its peer, on all links (TR-80).
    held: HeldBudget,
    pub(crate) required: ProtocolCapability,
    /// Outermost lock.
    table: Mutex<Table>,
    /// Where submits look a peer up; changed under the lock of the table.
    current: RwLock<HashMap<NodeRid, Arc<LinkCore>, RandomState>>,
    pub(crate) peers: watch::Sender<Arc<[PeerInfo]>>,
    own: Mutex<RouteMeshAdmission>,
    /// The runs that the directory shows. A leaf lock.
    shown: Mutex<BTreeMap<NodeRid, Expected>>,
    random: Mutex<Random>,
    /// `None` when the node is over: nothing is started any more.
    tasks: Mutex<Option<JoinSet<()>>>,
    events: Events,
    pub(crate) stopping: watch::Sender<bool>,
    /// The same, for those who ask with each record.
    stopped: AtomicBool,
    /// Links that have not ended, for those who ask with each turn.
    pub(crate) link_count: AtomicUsize,
}

#[derive(Debug)]
struct Table {
    peers: Peers,
    joins: Joins,
    /// The link of each accepted connection.
    connections: BTreeMap<ConnectionId, Arc<LinkCore>>,
    links: BTreeMap<LinkId, Arc<LinkCore>>,
    /// Peers that the host was told of.
    told: BTreeMap<NodeRid, PeerInfo>,
    next_link: u64,
    next_connection: u64,
}

/// What the host is to be told, in order. One task tells it, so that no lock is held meanwhile.
#[derive(Debug, Default)]
struct Events {
    queue: Mutex<Queue>,
    put: Notify,
    /// How many were put, and how many the host has seen.
    counts: watch::Sender<Counts>,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<(PeerLink, PeerEvent)>,
    closed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    put: u64,
    seen: u64,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("rid", &self.config.identity.rid)
            .finish_non_exhaustive()
    }
}

/// A lock whose holder cannot leave it half changed: nothing under it panics.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    pub(crate) fn new(
        config: MeshConfig,
        required: ProtocolCapability,
        inbound: Arc<dyn Inbound>,
    ) -> Arc<Self> {
        let rid = config.identity.rid.clone();
        let run = config.identity.descriptor.lifecycle_generation.get();
        Arc::new(Self {
            inbound,
            required,
            held: HeldBudget::default(),
            table: Mutex::new(Table {
                peers: Peers::new(rid),
                joins: Joins::new(config.bounds.connections_max),
                connections: BTreeMap::new(),
                links: BTreeMap::new(),
                told: BTreeMap::new(),
                next_link: 1,
                next_connection: 0,
            }),
            current: RwLock::default(),
            peers: watch::Sender::new(Arc::from(Vec::new())),
            own: Mutex::new(config.identity.descriptor.clone()),
            shown: Mutex::default(),
            random: Mutex::new(Random::new(config.seed ^ run)),
            tasks: Mutex::new(Some(JoinSet::new())),
            events: Events::default(),
            stopping: watch::Sender::new(false),
            stopped: AtomicBool::new(false),
            link_count: AtomicUsize::new(0),
            config,
        })
    }

    pub(crate) fn clock(&self) -> &MeshClock {
        &self.config.clock
    }

    pub(crate) fn own(&self) -> RouteMeshAdmission {
        locked(&self.own).clone()
    }

    pub(crate) fn random(&self) -> u64 {
        locked(&self.random).next()
    }

    /// A fresh pair, in its first generation (TR-22).
    pub(crate) fn pair(&self) -> PairId {
        PairId::new(NonZeroU64::new(self.random()).unwrap_or(NonZeroU64::MIN))
    }

    /// A task of the node: it ends with the node at the latest. `None` when that is over.
    pub(crate) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Option<AbortHandle> {
        let mut tasks = locked(&self.tasks);
        let tasks = tasks.as_mut()?;
        // Those that are done make room.
        while tasks.try_join_next().is_some() {}
        Some(tasks.spawn(task))
    }

    /// Ends all tasks at once.
    pub(crate) fn abort(&self) {
        let tasks = locked(&self.tasks).take();
        drop(tasks);
        // Links and node hold each other.
        let (links, connections, told) = {
            let mut table = locked(&self.table);
            (
                std::mem::take(&mut table.links),
                std::mem::take(&mut table.connections),
                std::mem::take(&mut table.told),
            )
        };
        for link in links.values() {
            link.close();
        }
        drop((links, connections, told));
        self.write_current().clear();
        self.peers.send_replace(Arc::from(Vec::new()));
    }

    /// Starts nothing any more, and waits for what runs.
    pub(crate) async fn join(&self) {
        let tasks = locked(&self.tasks).take();
        if let Some(tasks) = tasks {
            // Each of them ends by itself once its link or the node has ended. A panic of one of them
            // is that of the host's code, and was reported by its hook.
            let mut tasks = tasks;
            while tasks.join_next().await.is_some() {}
        }
    }

    /// What the links of this node are started with.
    pub(crate) fn settings(&self, expected: Expected, scheme: Scheme) -> LinkSettings {
        let own = self.own();
        let authenticated = match scheme {
            Scheme::Tcp => plaintext(&own.security_identity),
            Scheme::Tls => own.security_identity.clone(),
        };
        let terms = Terms {
            own_id: self.config.identity.rid.clone(),
            own,
            required: self.required.clone(),
            expected,
            authenticated,
        };
        let probe = ProbeId::new(self.random() >> 1).unwrap_or(ProbeId::MIN);
        let mut settings = LinkSettings::new(terms, probe);
        settings.opening = self.config.opening;
        settings.receive_limit = self.config.bounds.receive_limit;
        settings.pending_max = self.config.bounds.pending_max;
        settings.held = self.held.clone();
        settings
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Takes no new records and no new connections.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.stopping.send_replace(true);
    }

    /// The link that submits to a peer go to (TR-31); `None` is "not connected" at once (TR-37).
    pub(crate) fn current(&self, peer: &NodeRid) -> Option<Arc<LinkCore>> {
        let current = self.current.read();
        let current = current.unwrap_or_else(PoisonError::into_inner);
        current.get(peer).map(Arc::clone)
    }

    /// Starts a link that we dial. Until its peer is known it has its number for a name, which stays
    /// here (TR-32).
    pub(crate) fn dial(
        self: &Arc<Self>,
        key: PairKey,
        expected: Expected,
        address: &Address,
    ) -> Arc<LinkCore> {
        let settings = self.settings(expected, address.scheme);
        let mut effects = Vec::new();
        let link = Link::dial(settings, key, &mut effects);
        let mut table = locked(&self.table);
        let start = Start {
            id: table.next_link(),
            side: Side::Dialler,
            intent: key.pair,
            node: Arc::clone(self),
            address: Some(address.clone()),
        };
        let core = LinkCore::start(start, link, effects);
        table.links.insert(core.id, Arc::clone(&core));
        core
    }

    /// The directory was read.
    pub(crate) fn show(&self, runs: BTreeMap<NodeRid, Expected>) {
        *locked(&self.shown) = runs;
    }

    /// What a peer that dials has to be (TR-76, TR-78): the run that the directory shows, as long as that one is admitted. A run
    /// that comes back after its node was started anew would push it out otherwise, and be pushed out again. Without such a
    /// link anyone may come: a run may be here before the directory has been read again.
    fn expected(&self, table: &Table, peer: &NodeRid) -> Expected {
        let admitted = table.told.get(peer);
        let admitted = admitted.map(|told| told.descriptor.lifecycle_generation);
        match locked(&self.shown).get(peer) {
            Some(expected @ Expected::Discovered { generation, .. })
                if admitted == Some(*generation) =>
            {
                expected.clone()
            }
            _ => Expected::Anyone,
        }
    }

    /// Joins an accepted connection whose handshake is done to its link, which starts with the first
    /// of two (TR-24). `None` when it cannot be joined; what it spoils is closed.
    pub(crate) fn join_lane(
        self: &Arc<Self>,
        accepted: AcceptedLane,
        scheme: Scheme,
        stream: &Arc<Stream>,
    ) -> Option<Arc<LinkCore>> {
        let mut table = locked(&self.table);
        table.next_connection = table.next_connection.saturating_add(1);
        let id = ConnectionId::new(table.next_connection);
        let lane = accepted.ready.lane;
        match table.joins.on_ready(id, &accepted.ready) {
            Join::First => {
                let expected = self.expected(&table, &accepted.ready.id);
                let settings = self.settings(expected, scheme);
                // E2 names no pairs; the name is ours alone then.
                let key = accepted.ready.key.unwrap_or_else(|| PairKey {
                    pair: self.pair(),
                    generation: Generation::FIRST,
                });
                let start = Start {
                    id: table.next_link(),
                    side: Side::Acceptor,
                    intent: key.pair,
                    node: Arc::clone(self),
                    address: None,
                };
                let mut effects = Vec::new();
                let link = Link::accept(settings, key, accepted, self.clock().now(), &mut effects);
                let core = LinkCore::start(start, link, effects);
                core.lane(lane).open(Arc::clone(stream));
                table.links.insert(core.id, Arc::clone(&core));
                table.connections.insert(id, Arc::clone(&core));
                Some(core)
            }
            Join::Sister(first) => {
                let core = table.connections.get(&first).map(Arc::clone)?;
                table.connections.insert(id, Arc::clone(&core));
                drop(table);
                core.lane(lane).open(Arc::clone(stream));
                core.apply(LinkEvent::Joined(Box::new(accepted)));
                Some(core)
            }
            Join::Refused { why, close } => {
                let spoilt: Vec<_> = close
                    .iter()
                    .filter_map(|id| table.connections.get(id).map(Arc::clone))
                    .collect();
                drop(table);
                for core in spoilt {
                    core.end_by(LostReason::NotJoined(why));
                }
                None
            }
        }
    }

    /// The pair of a link is ready.
    pub(crate) fn on_ready(&self, core: &LinkCore) -> Result<(), PeersFull> {
        let Some(token) = core.token() else {
            return Ok(());
        };
        let mut table = locked(&self.table);
        let gives_way = table.peers.make_room(token.peer());
        let gives_way = gives_way.and_then(|id| table.links.get(&id).map(Arc::clone));
        let ready = table
            .peers
            .on_ready(token.peer(), core.id, core.side, core.intent);
        drop(table);
        if let Some(link) = gives_way {
            link.end_by(LostReason::TooManyLinks);
        }
        ready.map(|_| ())
    }

    /// A peer passed admission on a link; returns when the host knows what comes of it.
    pub(crate) async fn on_admitted(
        &self,
        core: &Arc<LinkCore>,
        descriptor: Arc<RouteMeshAdmission>,
    ) {
        let Some(link) = core.peer_link() else {
            return;
        };
        let peer = link.peer().clone();
        let mut told = Vec::new();
        {
            let mut table = locked(&self.table);
            let run = descriptor.lifecycle_generation;
            match table.peers.on_admitted(&peer, core.id, run) {
                Verdict::Lose { .. } => {
                    drop(table);
                    // TR-74: its dialler closes it, its acceptor lets it stand by.
                    return core.apply(LinkEvent::Supersede);
                }
                Verdict::Keep { standby, outlived } => {
                    let links = |ids: Vec<LinkId>, event: fn() -> LinkEvent| {
                        let found = ids.into_iter().filter_map(|id| table.links.get(&id));
                        found
                            .map(|link| (Arc::clone(link), event()))
                            .collect::<Vec<_>>()
                    };
                    told.extend(links(standby, || LinkEvent::Supersede));
                    told.extend(links(outlived, || LinkEvent::Outlived));
                    let info = PeerInfo { link, descriptor };
                    self.tell_admitted(&mut table, info, LostReason::Superseded);
                }
            }
        }
        for (link, event) in told {
            link.apply(event);
        }
        self.events.seen().await;
    }

    /// The descriptor of an admitted peer has changed.
    pub(crate) async fn on_updated(
        &self,
        core: &Arc<LinkCore>,
        descriptor: Arc<RouteMeshAdmission>,
    ) {
        {
            let mut table = locked(&self.table);
            let Some(token) = core.token() else { return };
            let told = table.told.get_mut(token.peer());
            let Some(told) = told.filter(|told| Arc::ptr_eq(told.link.core(), core)) else {
                return;
            };
            told.descriptor = Arc::clone(&descriptor);
            let link = told.link.clone();
            self.events.put(link, PeerEvent::Updated { descriptor });
            self.publish(&table);
        }
        self.events.seen().await;
    }

    /// The run of a peer is over, its link is not (TR-76).
    pub(crate) async fn on_lost(&self, core: &Arc<LinkCore>, reason: LostReason) {
        {
            let mut table = locked(&self.table);
            self.tell_lost(&mut table, core, reason);
        }
        self.events.seen().await;
    }

    /// A link is over. The newest standby of its run takes over (TR-33).
    pub(crate) async fn on_ended(&self, core: &Arc<LinkCore>, reason: &LostReason) {
        let mut resumed = None;
        {
            let mut table = locked(&self.table);
            table.links.remove(&core.id);
            let Table {
                joins, connections, ..
            } = &mut *table;
            connections.retain(|id, of| {
                let other = !Arc::ptr_eq(of, core);
                if !other {
                    joins.on_closed(*id);
                }
                other
            });
            self.tell_lost(&mut table, core, reason.clone());
            if let Some(token) = core.token() {
                let election = table.peers.on_ended(token.peer(), core.id);
                resumed = election
                    .resumed
                    .and_then(|id| table.links.get(&id).map(Arc::clone));
            }
            let info = resumed.as_ref().and_then(|link| {
                Some(PeerInfo {
                    link: link.peer_link()?,
                    descriptor: link.descriptor()?,
                })
            });
            if let Some(info) = info {
                self.tell_admitted(&mut table, info, LostReason::Superseded);
            }
        }
        if let Some(link) = resumed {
            link.apply(LinkEvent::Resume);
        }
        self.events.seen().await;
    }

    /// TR-74: a hello on a link that is not used is answered on the one that is.
    pub(crate) fn answer_on_keeper(&self, core: &LinkCore) {
        let keeper = core.token().and_then(|token| self.current(token.peer()));
        if let Some(keeper) = keeper {
            keeper.apply(LinkEvent::AnswerHello);
        }
    }

    fn tell_admitted(&self, table: &mut Table, info: PeerInfo, replaced: LostReason) {
        let peer = info.link.peer().clone();
        let admitted = PeerEvent::Admitted {
            descriptor: Arc::clone(&info.descriptor),
        };
        let link = info.link.clone();
        self.write_current()
            .insert(peer.clone(), Arc::clone(link.core()));
        if let Some(before) = table.told.insert(peer, info) {
            let lost = PeerEvent::Lost { reason: replaced };
            self.events.put(before.link, lost);
        }
        self.events.put(link, admitted);
        self.publish(table);
    }

    fn tell_lost(&self, table: &mut Table, core: &Arc<LinkCore>, reason: LostReason) {
        let Some(token) = core.token() else { return };
        let told = table.told.get(token.peer());
        if told.is_none_or(|told| !Arc::ptr_eq(told.link.core(), core)) {
            return;
        }
        self.write_current().remove(token.peer());
        if let Some(info) = table.told.remove(token.peer()) {
            self.events.put(info.link, PeerEvent::Lost { reason });
        }
        self.publish(table);
    }

    fn publish(&self, table: &Table) {
        self.peers
            .send_replace(table.told.values().cloned().collect());
    }

    fn write_current(&self) -> RwLockWriteGuard<'_, HashMap<NodeRid, Arc<LinkCore>, RandomState>> {
        self.current.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is more than one link, which may have to take turns.
    pub(crate) fn has_several_links(&self) -> bool {
        // Relaxed: the value stands alone and orders nothing else.
        self.link_count.load(Ordering::Relaxed) > 1
    }

    /// All links, of whatever state.
    pub(crate) fn links(&self) -> Vec<Arc<LinkCore>> {
        locked(&self.table).links.values().map(Arc::clone).collect()
    }

    /// TR-77: tells every peer what this node says of itself now.
    pub(crate) fn describe(&self, mut descriptor: RouteMeshAdmission) {
        {
            let mut own = locked(&self.own);
            descriptor.advertised_endpoint = own.advertised_endpoint.clone();
            *own = descriptor.clone();
        }
        for link in self.links() {
            link.apply(LinkEvent::Describe(Box::new(descriptor.clone())));
        }
    }

    /// The task that tells the host.
    pub(crate) async fn tell(self: Arc<Self>) {
        loop {
            let put = self.events.put.notified();
            while let Some((link, event)) = self.events.next() {
                self.inbound.on_peer(&link, event);
                self.events.counts.send_modify(|counts| {
                    counts.seen = counts.seen.saturating_add(1);
                });
            }
            if locked(&self.events.queue).closed {
                return;
            }
            put.await;
        }
    }

    /// Nothing more is to be told.
    pub(crate) fn close_events(&self) {
        locked(&self.events.queue).closed = true;
        self.events.put.notify_one();
    }
}

impl Table {
    const fn next_link(&mut self) -> LinkId {
        let id = self.next_link;
        self.next_link = id.saturating_add(1);
        LinkId::new(id)
    }
}

impl Events {
    /// Called under the lock of the table, so that the order is that of what happened.
    fn put(&self, link: PeerLink, event: PeerEvent) {
        locked(&self.queue).events.push_back((link, event));
        self.counts
            .send_modify(|counts| counts.put = counts.put.saturating_add(1));
        self.put.notify_one();
    }

    fn next(&self) -> Option<(PeerLink, PeerEvent)> {
        locked(&self.queue).events.pop_front()
    }

    /// Waits until the host has seen what was put so far.
    async fn seen(&self) {
        let put = self.counts.borrow().put;
        let mut counts = self.counts.subscribe();
        // The sender lives as long as `self`.
        counts.wait_for(|counts| counts.seen >= put).await.ok();
    }
}

/// What a link without TLS is to the security layer (TR-72).
fn plaintext(own: &SecurityIdentity) -> SecurityIdentity {
    SecurityIdentity::new("plaintext").unwrap_or_else(|_| own.clone())
}
