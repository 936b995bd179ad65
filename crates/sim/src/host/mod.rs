//! A host of a world: a thin synchronous driver of the real machines, shaped like the real one.
//!
//! It takes one event at a time, gives it to the machine that it is for, carries the effects out in their order,
//! and arms one timer. Lanes are plain queues; handlers take virtual time.

mod binding;
mod budget;
mod follow;
mod inbound;
pub mod lane;
mod lease;
mod merge;
mod prepare;
mod progress;
mod rows;
mod sending;
mod session;
mod source;
mod target;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use spotlane_location::authority::{ActiveObject, Authority};
use spotlane_location::cache::{RouteCache, RouteCacheSettings};
use spotlane_location::directory::Candidate;
use spotlane_location::lease::{HeldLease, LeaseKeeper};
use spotlane_location::{LiveRoute, LocationError, Repository};
use spotlane_relocation::identity::ConnectionId;
use spotlane_relocation::source::{SourceEvent, SourceStage};
use spotlane_relocation::target::TargetEvent;
use spotlane_session::SessionEvent;
use spotlane_types::count::Correlation;
use spotlane_types::id::RelocationId;
use spotlane_wire::Record;
use spotlane_wire::command::session::BoundSessionBind;

use crate::agenda::{BindReply, Event, Packet};
use crate::client::ClientAct;
use crate::executor::Owner;
use crate::faults::Spark;
use crate::network::HostIndex;
use crate::observation::{ActorIndex, BindingNumber, MessageId, SenderIndex, SessionIndex};
use crate::random::Random;
use crate::shared::Shared;
use crate::store::{HostTime, RemoteStore};
use crate::workload::MovePlan;

use binding::Asker;
use budget::InFlight;
use follow::Following;
use inbound::Arrival;
use lane::Lane;
use sending::Outbox;
use session::Sessions;
use source::SourceUnit;
use target::TargetUnit;

pub(crate) use binding::unbound;
pub(crate) use rows::{application_version, steady};
pub(crate) use target::route_of;

pub(crate) type HostRepository = Repository<RemoteStore, HostTime>;
pub(crate) type HostKeeper = LeaseKeeper<RemoteStore, HostTime>;

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the three ways of a process")]
pub enum Life {
    /// It runs.
    Running,
    /// It stands still.
    Paused,
    /// It has died, and does not come back.
    Dead,
}

/// An answer of the store to a host.
#[derive(Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "one at a time, moved once")]
pub enum StoreAnswer {
    /// To a renewal of the host's lease.
    Lease(Result<HeldLease, LocationError>),
    /// To a look-up of a sender.
    Route {
        /// The sender.
        sender: SenderIndex,
        /// What was found.
        found: Result<Option<LiveRoute>, LocationError>,
    },
    /// To a look-up of a session that binds.
    BindRoute {
        /// The session.
        session: SessionIndex,
        /// The Actor.
        actor: ActorIndex,
        /// What was found.
        found: Result<Option<LiveRoute>, LocationError>,
    },
    /// To the first look at an object that is to move, and at its target.
    Prepared {
        /// What was asked for.
        plan: MovePlan,
        /// The row as it was first read, and the target.
        found: Result<(Authority, Option<Candidate>), LocationError>,
    },
    /// To a read of the row for a source.
    SourceRow {
        /// The move.
        relocation: RelocationId,
        /// The row.
        found: Result<Authority, LocationError>,
    },
    /// To a read of the row for a target.
    TargetRow {
        /// The object.
        actor: ActorIndex,
        /// The row.
        found: Result<Authority, LocationError>,
    },
    /// To the owner change.
    Committed {
        /// The object.
        actor: ActorIndex,
        /// The row as it is now.
        done: Result<Box<ActiveObject>, LocationError>,
    },
    /// To a progress write of the owner.
    Progress {
        /// The object.
        actor: ActorIndex,
        /// The row as it is now.
        done: Result<Box<ActiveObject>, LocationError>,
    },
}

/// What can happen to a host.
#[derive(Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "one at a time, moved once")]
pub enum HostEvent {
    /// A packet came in.
    Packet {
        /// On which connection.
        connection: ConnectionId,
        /// From whom.
        from: HostIndex,
        /// The packet.
        packet: Packet,
    },
    /// A connection is gone.
    LinkDown {
        /// To whom it was.
        peer: HostIndex,
        /// Which.
        connection: ConnectionId,
    },
    /// There is a new connection.
    LinkUp {
        /// To whom.
        peer: HostIndex,
        /// Which.
        connection: ConnectionId,
    },
    /// The timer is due.
    Wake,
    /// The store has answered.
    Answer(StoreAnswer),
    /// A sender issues a message.
    Issue(SenderIndex),
    /// A client does something.
    Client(ClientAct),
    /// Somebody wants an Actor of this host to move.
    Move(MovePlan),
    /// The operation of a move is aborted.
    AbortMove(ActorIndex),
    /// The host shuts down.
    Shutdown,
}

impl HostEvent {
    /// The message that it brings.
    fn message(&self) -> Option<MessageId> {
        let Self::Packet { packet, .. } = self else {
            return None;
        };
        packet.carries().map(|(message, _)| message)
    }
}

/// Work that came up while an event was handled.
#[derive(Debug)]
enum Job {
    Source(RelocationId, SourceEvent),
    Target(ActorIndex, TargetEvent<Arrival>),
    /// Start the next turn of a lane, if it can.
    Turn(ActorIndex),
    Session(SessionIndex, Box<SessionEvent>),
    /// A record about a binding that this host sent to itself.
    Binding(HostIndex, Box<Record>),
    /// A request about a binding, who asks, and how often it was forwarded.
    Bind(Box<BoundSessionBind>, HostIndex, u8),
    BindAnswered(BindReply),
}

/// What goes wrong with an Actor here.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    capture_fails: u64,
    restore_fails: u64,
    slow: Duration,
}

/// A host.
#[derive(Debug)]
pub struct Host {
    index: HostIndex,
    life: Life,
    /// What happens after how many more steps.
    fuses: Vec<(u64, Spark)>,
    /// How long it is to stand still when the event is done.
    pause_wanted: Option<Duration>,
    steps: u64,
    /// What came while it was paused.
    backlog: VecDeque<HostEvent>,
    /// The message that came with the event in hand: if the process dies over it, the message dies too.
    in_hand: Option<MessageId>,
    time: HostTime,
    store: RemoteStore,
    repository: Arc<HostRepository>,
    keeper: Arc<HostKeeper>,
    held: HeldLease,
    renew_at: Option<Duration>,
    links: BTreeMap<HostIndex, ConnectionId>,
    lanes: BTreeMap<ActorIndex, Lane>,
    sources: BTreeMap<RelocationId, SourceUnit>,
    /// The latest move away of an Actor: what arrives for it here goes there.
    latest: BTreeMap<ActorIndex, RelocationId>,
    targets: BTreeMap<ActorIndex, TargetUnit>,
    following: Following,
    in_flight: InFlight,
    outboxes: BTreeMap<SenderIndex, Outbox>,
    callers: BTreeMap<MessageId, Duration>,
    sessions: Sessions,
    /// Who waits for the answers of the Actors' bindings.
    askers: BTreeMap<Correlation, Asker>,
    cache: RouteCache,
    moves_waiting: Vec<(Duration, MovePlan)>,
    troubles: BTreeMap<ActorIndex, Trouble>,
    damaged_chunks: u64,
    shutting_down: bool,
    /// Turns that could not start because the lease did not admit them are tried again then.
    blocked_until: Option<Duration>,
    jobs: VecDeque<Job>,
    wake_at: Option<Duration>,
}

/// How old a cached route may be: 5 s less than messages are followed (RL-166).
const ROUTE_AGE: Duration = Duration::from_millis(900);

impl Host {
    /// A host that holds its lease and serves nothing yet.
    ///
    /// # Errors
    /// The settings of the world contradict each other.
    pub fn new(index: HostIndex, shared: &Shared, time: HostTime, held: HeldLease) -> Result<Self> {
        let root = Random::new(shared.plan.seed).fork(&format!("store {}", index.0));
        let store = RemoteStore::new(shared.memory.clone(), shared.handle.clone(), root);
        let owner = shared.cast.owner(index)?.clone();
        let repository = Repository::new(store.clone(), time.clone());
        let keeper = LeaseKeeper::new(store.clone(), time.clone(), owner, shared.plan.lease);
        let follow = shared.plan.settings.follow_duration();
        let cache = RouteCacheSettings::new(ROUTE_AGE, follow)?;
        Ok(Self {
            index,
            life: Life::Running,
            fuses: Vec::new(),
            pause_wanted: None,
            steps: 0,
            backlog: VecDeque::new(),
            in_hand: None,
            time,
            store,
            repository: Arc::new(repository),
            keeper: Arc::new(keeper),
            held,
            renew_at: Some(shared.plan.lease.renew_interval()),
            links: BTreeMap::new(),
            lanes: BTreeMap::new(),
            sources: BTreeMap::new(),
            latest: BTreeMap::new(),
            targets: BTreeMap::new(),
            following: Following::default(),
            in_flight: InFlight::new(&shared.plan.settings),
            outboxes: BTreeMap::new(),
            callers: BTreeMap::new(),
            sessions: Sessions::default(),
            askers: BTreeMap::new(),
            cache: RouteCache::new(cache, 64),
            moves_waiting: Vec::new(),
            troubles: BTreeMap::new(),
            damaged_chunks: 0,
            shutting_down: false,
            blocked_until: None,
            jobs: VecDeque::new(),
            wake_at: None,
        })
    }

    /// Takes one event and does everything that it asks for.
    ///
    /// # Errors
    /// Something that cannot be: a defect of a machine or of this driver.
    pub fn take(&mut self, event: HostEvent, shared: &mut Shared) -> Result<()> {
        match self.life {
            Life::Dead => return Ok(()),
            Life::Paused => {
                self.backlog.push_back(event);
                return Ok(());
            }
            Life::Running => {}
        }
        self.in_hand = event.message();
        self.handle(event, shared)?;
        self.run_jobs(shared)?;
        if self.life != Life::Dead {
            self.in_hand = None;
        }
        self.arm(shared);
        Ok(())
    }

    fn handle(&mut self, event: HostEvent, shared: &mut Shared) -> Result<()> {
        match event {
            HostEvent::Packet {
                connection,
                from,
                packet,
            } => self.receive(connection, from, packet, shared),
            HostEvent::LinkDown { peer, connection } => {
                if self.links.get(&peer) == Some(&connection) {
                    self.links.remove(&peer);
                }
                self.link_down(peer, connection);
                Ok(())
            }
            HostEvent::LinkUp { peer, connection } => {
                if let Some(old) = self.links.insert(peer, connection)
                    && old != connection
                {
                    self.link_down(peer, old);
                }
                self.link_up(peer, connection);
                Ok(())
            }
            HostEvent::Wake => self.wake(shared),
            HostEvent::Answer(answer) => self.answered(answer, shared),
            HostEvent::Issue(sender) => self.issue(sender, shared),
            HostEvent::Client(act) => self.client_acts(act, shared),
            HostEvent::Move(plan) => self.move_wanted(plan, shared),
            HostEvent::AbortMove(actor) => {
                if let Some(relocation) = self.latest.get(&actor) {
                    let job = Job::Source(*relocation, SourceEvent::OperationAborted);
                    self.jobs.push_back(job);
                }
                Ok(())
            }
            HostEvent::Shutdown => {
                self.shut_down();
                Ok(())
            }
        }
    }

    fn answered(&mut self, answer: StoreAnswer, shared: &mut Shared) -> Result<()> {
        match answer {
            StoreAnswer::Lease(result) => {
                self.lease_answered(result, shared);
                Ok(())
            }
            StoreAnswer::Route { sender, found } => self.looked_up(sender, found, shared),
            StoreAnswer::BindRoute {
                session,
                actor,
                found,
            } => self.bind_route_found(session, actor, found, shared),
            StoreAnswer::Prepared { plan, found } => self.move_prepared(plan, found, shared),
            StoreAnswer::SourceRow { relocation, found } => {
                let read = rows::row_read(found);
                self.jobs
                    .push_back(Job::Source(relocation, SourceEvent::AuthorityRead(read)));
                Ok(())
            }
            StoreAnswer::TargetRow { actor, found } => {
                self.target_row(actor, found);
                Ok(())
            }
            StoreAnswer::Committed { actor, done } => {
                self.commit_answered(actor, done, shared);
                Ok(())
            }
            StoreAnswer::Progress { actor, done } => {
                self.progress_answered(actor, done, shared);
                Ok(())
            }
        }
    }

    fn run_jobs(&mut self, shared: &mut Shared) -> Result<()> {
        while let Some(job) = self.jobs.pop_front() {
            if self.life == Life::Dead {
                return Ok(());
            }
            match job {
                Job::Source(relocation, event) => self.drive_source(relocation, event, shared)?,
                Job::Target(actor, event) => self.drive_target(actor, event, shared)?,
                Job::Turn(actor) => self.start_turn(actor, shared)?,
                Job::Session(session, event) => self.drive_session(session, *event, shared)?,
                Job::Binding(from, record) => self.binding_record(from, *record, shared)?,
                Job::Bind(bind, owner, hops) => self.bind_wanted(*bind, (owner, hops), shared)?,
                Job::BindAnswered(reply) => self.bind_answered(&reply, shared)?,
            }
        }
        Ok(())
    }

    fn wake(&mut self, shared: &mut Shared) -> Result<()> {
        self.wake_at = None;
        self.wake_lease(shared);
        self.wake_lanes(shared)?;
        self.wake_budget(shared);
        self.wake_sources(shared)?;
        self.wake_targets(shared)?;
        self.wake_follow(shared);
        self.wake_senders(shared)?;
        self.wake_sessions(shared)?;
        self.wake_moves(shared)
    }

    /// One timer for everything (style 7).
    fn arm(&mut self, shared: &mut Shared) {
        if self.life != Life::Running {
            return;
        }
        let next = [
            self.renew_at,
            self.blocked_until,
            self.lanes
                .values()
                .filter_map(|lane| lane.next_at(shared.timers_run))
                .min(),
            self.sources_next(),
            self.in_flight.next_at(),
            self.targets_next(),
            self.following.next_at(),
            self.senders_next(),
            self.sessions.next_at(),
            self.moves_waiting.iter().map(|(at, _)| *at).min(),
        ];
        let Some(next) = next.into_iter().flatten().min() else {
            return;
        };
        if self.wake_at.is_none_or(|at| next < at) {
            let next = next.max(shared.now());
            self.wake_at = Some(next);
            shared.agenda.add(next, Event::Wake { at: self.index });
        }
    }

    /// Asks the store something; the answer comes back as an event.
    fn ask(&self, shared: &Shared, question: impl Future<Output = StoreAnswer> + Send + 'static) {
        let mailbox = shared.mailbox.clone();
        let index = self.index;
        shared.handle.spawn(Owner::Process(index.0), async move {
            let answer = question.await;
            mailbox.put(index, answer);
        });
    }

    /// One step of the driver for a move with `peer`; `false` when the process dies here.
    fn step(&mut self, peer: Option<HostIndex>, shared: &mut Shared) -> bool {
        self.steps = self.steps.saturating_add(1);
        let mut due = Vec::new();
        self.fuses.retain_mut(|(steps, spark)| {
            *steps = steps.saturating_sub(1);
            if *steps == 0 {
                due.push(*spark);
            }
            *steps > 0
        });
        for spark in due {
            match (spark, peer) {
                (Spark::Die, _) => self.life = Life::Dead,
                (Spark::Pause(during), _) => self.pause_wanted = Some(during),
                (Spark::Cut(outage), Some(peer)) => shared.cut(self.index, peer, outage),
                (Spark::Cut(_), None) => {}
            }
        }
        self.life == Life::Running
    }

    fn link_down(&mut self, peer: HostIndex, connection: ConnectionId) {
        self.budget_lost(connection);
        self.asked_lost(connection);
        for (relocation, unit) in &self.sources {
            if unit.target == peer {
                let event = SourceEvent::ConnectionLost(connection);
                self.jobs.push_back(Job::Source(*relocation, event));
            }
        }
        for actor in self.targets.keys() {
            let event = TargetEvent::ConnectionLost(connection);
            self.jobs.push_back(Job::Target(*actor, event));
        }
    }

    fn link_up(&mut self, peer: HostIndex, connection: ConnectionId) {
        for (relocation, unit) in &self.sources {
            if unit.target == peer {
                let event = SourceEvent::ConnectionReady(connection);
                self.jobs.push_back(Job::Source(*relocation, event));
            }
        }
    }

    fn shut_down(&mut self) {
        self.shutting_down = true;
        // RL-229
        for session in self.sessions.all() {
            let event = Box::new(SessionEvent::RefuseBinds);
            self.jobs.push_back(Job::Session(session, event));
        }
        for relocation in self.sources.keys() {
            let job = Job::Source(*relocation, SourceEvent::Shutdown);
            self.jobs.push_back(job);
        }
        for actor in self.targets.keys() {
            self.jobs
                .push_back(Job::Target(*actor, TargetEvent::Shutdown));
        }
    }
}

/// What the world and its faults do to a host, and what can be seen of it.
impl Host {
    /// Its place.
    pub const fn index(&self) -> HostIndex {
        self.index
    }

    /// Whether its process runs.
    pub const fn life(&self) -> Life {
        self.life
    }

    /// Its way to the store.
    pub const fn store(&self) -> &RemoteStore {
        &self.store
    }

    /// Whether an Actor starts handlers here.
    pub fn serves(&self, actor: ActorIndex) -> bool {
        self.life != Life::Dead && self.lanes.get(&actor).is_some_and(Lane::serves)
    }

    /// Its lease, as it was at the last renewal.
    pub const fn held(&self) -> &HeldLease {
        &self.held
    }

    /// Its clock.
    pub const fn time(&self) -> &HostTime {
        &self.time
    }

    /// Arms its timer for the first time.
    pub fn arm_first(&mut self, shared: &mut Shared) {
        self.arm(shared);
    }

    /// An Actor here, if it is here.
    pub fn lane(&self, actor: ActorIndex) -> Option<&Lane> {
        self.lanes.get(&actor)
    }

    /// The sessions here that hold an Actor, each with its binding.
    pub fn holders(&self, actor: ActorIndex) -> Vec<(SessionIndex, BindingNumber)> {
        self.sessions.holders(actor).collect()
    }

    /// Gives it an Actor to serve.
    pub fn adopt(&mut self, actor: ActorIndex, lane: Lane) {
        self.lanes.insert(actor, lane);
    }

    /// Its process dies.
    pub fn kill(&mut self) {
        self.life = Life::Dead;
    }

    /// Messages that had come in and that died with it before anybody had taken them: that of the event over which it
    /// died, and those that came while it stood still.
    pub fn take_unread(&mut self) -> Vec<MessageId> {
        let unread = self.backlog.drain(..);
        let unread = unread.filter_map(|event| event.message());
        self.in_hand.take().into_iter().chain(unread).collect()
    }

    /// Something happens to it after so many steps of its driver.
    pub fn light_fuse(&mut self, steps: u64, spark: Spark) {
        self.fuses.push((steps, spark));
    }

    /// How long it is to stand still now, if a step said so.
    pub const fn take_pause(&mut self) -> Option<Duration> {
        self.pause_wanted.take()
    }

    /// How many steps its driver has made.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Its process stands still.
    pub fn pause(&mut self) {
        if self.life == Life::Running {
            self.life = Life::Paused;
        }
    }

    /// Its process goes on, with everything that came meanwhile.
    ///
    /// # Errors
    /// As [`Host::take`].
    pub fn resume(&mut self, shared: &mut Shared) -> Result<()> {
        if self.life != Life::Paused {
            return Ok(());
        }
        self.life = Life::Running;
        while self.life == Life::Running {
            let Some(event) = self.backlog.pop_front() else {
                break;
            };
            self.take(event, shared)?;
        }
        self.take(HostEvent::Wake, shared)
    }

    /// The next captures of an Actor fail.
    pub fn fail_captures(&mut self, actor: ActorIndex, times: u64) {
        self.troubles.entry(actor).or_default().capture_fails = times;
    }

    /// The next restores of an Actor fail.
    pub fn fail_restores(&mut self, actor: ActorIndex, times: u64) {
        self.troubles.entry(actor).or_default().restore_fails = times;
    }

    /// Handlers of an Actor take longer.
    pub fn slow_handlers(&mut self, actor: ActorIndex, by: Duration) {
        self.troubles.entry(actor).or_default().slow = by;
    }

    /// The next chunk that it sends is damaged.
    pub const fn damage_chunk(&mut self) {
        self.damaged_chunks = 1;
    }

    /// Ends what goes wrong with it.
    pub fn heal(&mut self) {
        self.troubles.clear();
        self.damaged_chunks = 0;
        self.fuses.clear();
    }

    /// Connections that it has.
    pub fn set_link(&mut self, peer: HostIndex, connection: ConnectionId) {
        self.links.insert(peer, connection);
    }

    /// Everything that should not be here when nothing happens any more.
    pub fn residents(&self) -> Vec<String> {
        let mut left = Vec::new();
        if self.life == Life::Dead {
            return left;
        }
        for (relocation, unit) in &self.sources {
            // SRC-24: what became unavailable is looked after until the host goes.
            if unit.machine.stage() == SourceStage::Unavailable {
                continue;
            }
            left.push(format!(
                "source of {relocation} in {:?}",
                unit.machine.stage()
            ));
        }
        for (actor, unit) in &self.targets {
            if !unit.is_quiet() {
                left.push(format!("target of {actor:?} in {:?}", unit.machine.stage()));
            }
        }
        left.extend(self.sessions.residents());
        left.extend(self.following.residents());
        left.extend(self.in_flight.residents());
        for (actor, lane) in &self.lanes {
            if lane.serves() && !lane.queue.is_empty() {
                left.push(format!(
                    "{} items in the queue of {actor:?}",
                    lane.queue.len()
                ));
            }
            if !lane.hold.is_empty() {
                left.push(format!(
                    "{} records in the hold of {actor:?}",
                    lane.hold.len()
                ));
            }
        }
        if !self.senders_idle() {
            left.push("callers or senders that wait".to_owned());
        }
        left
    }
}
