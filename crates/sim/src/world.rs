//! A world: hosts, store and network under one clock, run from its seed to its end.

mod clients;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use spotlane_location::authority::{ActiveObject, Authority, Reservation};
use spotlane_location::lease::{HeldLease, LeaseKeeper};
use spotlane_location::record::{
    ActivationConcurrency, ChannelWeights, DescriptorName, MeshNodeDescriptor, NodeCapacity,
    WeightSetting,
};
use spotlane_location::{Monotonic, Repository};
use spotlane_store_memory::MemoryStore;
use spotlane_types::generation::DescriptorRevision;
use spotlane_types::id::{Endpoint, OwnerId, SecurityIdentity};
use spotlane_types::kind::{ActorAuthorityState, ObjectRole, RuntimeState};
use spotlane_types::time::UnixMillis;

use crate::agenda::Event;
use crate::cast::Cast;
use crate::executor::{Executor, Owner};
use crate::faults::{Fault, Lost, Outage};
use crate::host::lane::{ActorState, Lane, Timer};
use crate::host::{Host, HostEvent, Life, route_of, steady, unbound};
use crate::invariants::{self, Invariant, Lease, OwnerRow, View, Violation};
use crate::mutant::Mutant;
use crate::network::HostIndex;
use crate::observation::{ActorIndex, Loss, Observation};
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::random::Random;
use crate::ready::now_or_never;
use crate::shared::Shared;
use crate::store::{HostTime, memory};
use crate::trace::{Keep, Trace};
use crate::workload::MovePlan;

/// The repository of the truth does not give up.
const NEVER: Monotonic = Monotonic::from_origin(Duration::MAX);

/// More events than any world needs: beyond it something goes round in circles.
const EVENTS_MAX: u64 = 400_000;

/// How a world is run.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "callers fill it in")]
pub struct Options {
    /// The defect that is switched on.
    pub mutant: Option<Mutant>,
    /// Whether the lines of the trace are kept.
    pub keep: Keep,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mutant: None,
            keep: Keep::Fingerprint,
        }
    }
}

/// What a run came to.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// What was broken, in the order in which it was found.
    pub violations: Vec<Violation>,
    /// What was promised, and what became of it.
    pub oracle: Oracle,
    /// What happened.
    pub trace: Trace,
    /// Everything that was seen, if lines were kept.
    pub seen: Vec<(Duration, Observation)>,
    /// How many events there were.
    pub events: u64,
    /// How many steps the driver of each host made.
    pub steps: Vec<u64>,
    /// Who serves each Actor at the end.
    pub servers: Vec<Option<HostIndex>>,
    /// The row of each Actor at the beginning and at the end.
    pub rows: Vec<(Option<OwnerRow>, Option<OwnerRow>)>,
}

/// A world on its way.
#[derive(Debug)]
pub struct World {
    shared: Shared,
    executor: Executor,
    hosts: Vec<Host>,
    truth: Truth,
    oracle: Oracle,
    trace: Trace,
    seen: Vec<(Duration, Observation)>,
    keep: Keep,
    invariants: Vec<Box<dyn Invariant>>,
    violations: Vec<Violation>,
    events: u64,
}

impl World {
    /// Builds a world: every host has its lease and its node, every Actor is served at its home.
    ///
    /// # Errors
    /// The plan cannot be built: a defect of the simulator.
    pub fn new(plan: Plan, options: Options) -> Result<Self> {
        let plan = Arc::new(plan);
        let cast = Cast::of(&plan)?;
        let executor = Executor::new();
        let handle = executor.handle();
        let store = memory(&handle);
        let shared = Shared::new(
            Arc::clone(&plan),
            cast,
            options.mutant,
            handle,
            store.clone(),
        );
        let mut world = Self {
            truth: Truth::new(&shared, store)?,
            shared,
            executor,
            hosts: Vec::new(),
            oracle: Oracle::default(),
            trace: Trace::new(options.keep),
            seen: Vec::new(),
            keep: options.keep,
            invariants: invariants::all(),
            violations: Vec::new(),
            events: 0,
        };
        world.found_hosts()?;
        world.found_actors()?;
        world.plan_events();
        Ok(world)
    }

    fn found_hosts(&mut self) -> Result<()> {
        let plan = Arc::clone(&self.shared.plan);
        for index in plan.host_indices() {
            let root = Random::new(plan.seed).fork(&format!("host {}", index.0));
            let offset = Duration::from_secs(root.clone().between(0, 9_000));
            let time = HostTime::new(self.shared.handle.clone(), offset, root.fork("pauses"));
            let held = self.found_host(index, &time)?;
            self.shared.leases.push(held.lease().generation());
            let host = Host::new(index, &self.shared, time, held)?;
            self.hosts.push(host);
        }
        for a in plan.host_indices() {
            for b in plan.host_indices().filter(|b| *b > a) {
                self.connect(a, b)?;
            }
        }
        Ok(())
    }

    /// Lease and descriptor, without faults.
    fn found_host(&self, index: HostIndex, time: &HostTime) -> Result<HeldLease> {
        let cast = &self.shared.cast;
        let store = self.shared.memory.clone();
        let owner = cast.owner(index)?.clone();
        let keeper = LeaseKeeper::new(store.clone(), time.clone(), owner, self.shared.plan.lease);
        let held = now_or_never(keeper.claim())??;
        let repository = Repository::new(store, time.clone());
        let node = descriptor(cast, index, &held)?;
        now_or_never(repository.publish(&held, node, NEVER))??;
        Ok(held)
    }

    fn found_actors(&mut self) -> Result<()> {
        let plan = Arc::clone(&self.shared.plan);
        for actor in plan.actor_indices() {
            let actor_plan = plan.actors.get(actor.0).context("an Actor of this plan")?;
            let home = actor_plan.home;
            let row = self.create(actor, home)?;
            let route = route_of(&row, &self.shared);
            let state = ActorState {
                handled: Vec::new(),
                ballast: actor_plan.ballast,
            };
            let timer = actor_plan.period.map(|period| {
                let period_millis = u64::try_from(period.as_millis()).unwrap_or(1).max(1);
                Timer {
                    period_millis,
                    scheduled: 0,
                    next_millis: period_millis,
                }
            });
            let binding = unbound(&route)?;
            let host = self.hosts.get_mut(home.0).context("a host of this plan")?;
            host.adopt(actor, Lane::new(route, state, timer, binding));
        }
        Ok(())
    }

    /// Reserve and commit, as a creation does.
    fn create(&self, actor: ActorIndex, home: HostIndex) -> Result<ActiveObject> {
        let cast = &self.shared.cast;
        let host = self.hosts.get(home.0).context("a host of this plan")?;
        let held = host.held();
        let lease = held.lease();
        let name = DescriptorName {
            mesh_name: cast.mesh.clone(),
            routing_id: cast.node(home)?.clone(),
        };
        let until = NEVER;
        let repository = Repository::new(self.shared.memory.clone(), host.time().clone());
        let candidate = now_or_never(repository.candidate(&name, until))??;
        let candidate = candidate.context("a node that was just published")?;
        let creating = steady(cast, home, lease, actor, ActorAuthorityState::Creating)?;
        let reservation = Reservation::new(creating, None);
        let reserved = now_or_never(repository.reserve(held, &candidate, reservation, until))??;
        let ready = steady(cast, home, lease, actor, ActorAuthorityState::Ready)?;
        let commit = repository.commit(held, &candidate, &reserved, &ready, None, until);
        Ok(now_or_never(commit)??)
    }

    fn plan_events(&mut self) {
        let plan = Arc::clone(&self.shared.plan);
        for sender in plan.sender_indices() {
            if let Some(sender_plan) = plan.senders.get(sender.0) {
                let event = Event::Issue {
                    sender,
                    left: sender_plan.messages,
                };
                self.shared.agenda.add(sender_plan.begins, event);
            }
        }
        self.plan_clients();
        for (at, move_plan) in &plan.moves {
            self.shared.agenda.add(*at, Event::Move(*move_plan));
        }
        for (at, fault) in &plan.faults {
            self.shared.agenda.add(*at, Event::Fault(fault.clone()));
        }
        self.shared.agenda.add(plan.heal_at, Event::Heal);
        self.shared.agenda.add(plan.renew_at, Event::Renew);
        for host in &mut self.hosts {
            host.arm_first(&mut self.shared);
        }
    }

    /// Runs it to its end, or to the first broken promise.
    ///
    /// # Errors
    /// Something that cannot be: a defect of a machine, of a driver or of the simulator.
    pub fn run(mut self) -> Result<Outcome> {
        self.look();
        let before = self.rows();
        while self.violations.is_empty() {
            let next = [self.shared.agenda.next_at(), self.executor.next_wake()];
            let Some(next) = next.into_iter().flatten().min() else {
                break;
            };
            if next > self.shared.plan.end_at {
                break;
            }
            self.executor.advance_to(next);
            if let Some(event) = self.shared.agenda.pop(next) {
                self.carry_out(event)?;
            }
            self.executor.run();
            for (host, answer) in self.shared.mailbox.take() {
                self.tell(host, HostEvent::Answer(answer))?;
                self.executor.run();
            }
            self.look();
            self.events = self.events.saturating_add(1);
            anyhow::ensure!(self.events < EVENTS_MAX, "the world goes round in circles");
        }
        if self.violations.is_empty() {
            self.judge_end();
        }
        let servers = self.servers();
        let after = self.rows();
        Ok(Outcome {
            violations: self.violations,
            oracle: self.oracle,
            trace: self.trace,
            seen: self.seen,
            servers,
            rows: before.into_iter().zip(after).collect(),
            steps: self.hosts.iter().map(Host::steps).collect(),
            events: self.events,
        })
    }

    fn rows(&self) -> Vec<Option<OwnerRow>> {
        let actors = self.shared.plan.actor_indices();
        actors
            .map(|actor| self.truth.row(&self.shared, actor))
            .collect()
    }

    fn servers(&self) -> Vec<Option<HostIndex>> {
        let actors = self.shared.plan.actor_indices();
        actors
            .map(|actor| {
                self.hosts
                    .iter()
                    .find(|host| host.serves(actor))
                    .map(Host::index)
            })
            .collect()
    }

    fn tell(&mut self, host: HostIndex, event: HostEvent) -> Result<()> {
        let Some(one) = self.hosts.get_mut(host.0) else {
            return Ok(());
        };
        let lived = one.life() != Life::Dead;
        one.take(event, &mut self.shared)?;
        let pause = one.take_pause();
        if lived && one.life() == Life::Dead {
            self.bury(host);
        } else if let Some(during) = pause {
            self.pause(host, during);
        }
        Ok(())
    }

    fn carry_out(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Deliver {
                connection,
                from,
                to,
                packet,
            } => {
                if self.shared.network.connection(from, to) == Some(connection) {
                    let event = HostEvent::Packet {
                        connection,
                        from,
                        packet,
                    };
                    return self.tell(to, event);
                }
                if let Some((message, loss)) = packet.carries() {
                    self.shared.lose(message, loss);
                }
                Ok(())
            }
            Event::LinkDown {
                at,
                peer,
                connection,
            } => self.tell(at, HostEvent::LinkDown { peer, connection }),
            Event::Reconnect { a, b } => self.connect(a, b),
            Event::Wake { at } => self.tell(at, HostEvent::Wake),
            Event::Issue { sender, left } => self.issue(sender, left),
            Event::Client { client, left } => self.client_step(client, left),
            Event::Move(plan) => self.move_actor(plan),
            Event::AbortMove(plan) => {
                for host in self.shared.plan.host_indices() {
                    self.tell(host, HostEvent::AbortMove(plan.actor))?;
                }
                Ok(())
            }
            Event::Fault(fault) => self.fail(fault),
            Event::StoreBack { at } => {
                if let Some(host) = self.hosts.get(at.0) {
                    host.store().control().heal();
                    host.store().late(0, Duration::ZERO);
                }
                Ok(())
            }
            Event::Resume { at } => self.resume(at),
            Event::Heal => self.heal(),
            Event::Renew => {
                self.renew();
                Ok(())
            }
        }
    }

    fn issue(&mut self, sender: crate::observation::SenderIndex, left: u32) -> Result<()> {
        let plan = self.shared.plan.senders.get(sender.0).copied();
        let plan = plan.context("a sender of this plan")?;
        if left == 0 {
            return Ok(());
        }
        let most = u64::try_from(plan.gap.as_micros()).unwrap_or(u64::MAX);
        let gap = self.shared.random.micros(50, most.max(50));
        let event = Event::Issue {
            sender,
            left: left - 1,
        };
        self.shared.after(gap, event);
        self.tell(plan.host, HostEvent::Issue(sender))
    }

    /// Asks the host that serves the Actor; while nobody does, later.
    fn move_actor(&mut self, plan: MovePlan) -> Result<()> {
        let serving = self.hosts.iter().find(|host| host.serves(plan.actor));
        let Some(host) = serving.map(Host::index) else {
            let later = Duration::from_millis(30);
            if self.shared.now() + later < self.shared.plan.heal_at {
                self.shared.after(later, Event::Move(plan));
            }
            return Ok(());
        };
        if let Some(after) = plan.aborted_after {
            self.shared.after(after, Event::AbortMove(plan));
        }
        self.tell(host, HostEvent::Move(plan))
    }

    fn connect(&mut self, a: HostIndex, b: HostIndex) -> Result<()> {
        let alive = |host: HostIndex| {
            let host = self.hosts.get(host.0);
            host.is_some_and(|host| host.life() != Life::Dead)
        };
        if !alive(a) || !alive(b) || self.shared.network.connection(a, b).is_some() {
            return Ok(());
        }
        let connection = self.shared.network.connect(a, b);
        self.shared.see(Observation::Connected { a, b });
        let event = HostEvent::LinkUp {
            peer: b,
            connection,
        };
        self.tell(a, event)?;
        let event = HostEvent::LinkUp {
            peer: a,
            connection,
        };
        self.tell(b, event)
    }

    /// A process has died: its tasks and its connections with it.
    fn bury(&mut self, host: HostIndex) {
        self.executor.kill(Owner::Process(host.0));
        self.shared.see(Observation::Crashed { at: host });
        self.cut_clients_off(host);
        let unread = self.hosts.get_mut(host.0).map(Host::take_unread);
        for message in unread.unwrap_or_default() {
            self.shared.lose(message, Loss::Crash);
        }
        for peer in self.shared.plan.host_indices() {
            if peer != host {
                let outage = Outage {
                    noticed_here: Duration::ZERO,
                    noticed_there: self.shared.random.micros(100, 30_000),
                    back_after: self.shared.plan.end_at,
                };
                self.shared.cut(host, peer, outage);
            }
        }
    }

    fn fail(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Cut { a, b, outage } => self.shared.cut(a, b, outage),
            Fault::Slow { a, b, by } => self.shared.network.slow(a, b, by),
            Fault::Pause { at, during } => self.pause(at, during),
            Fault::Crash { at } => {
                if let Some(host) = self.hosts.get_mut(at.0)
                    && host.life() != Life::Dead
                {
                    host.kill();
                    self.bury(at);
                }
            }
            Fault::Shutdown { at } => self.tell(at, HostEvent::Shutdown)?,
            other => self.trouble(other),
        }
        Ok(())
    }

    /// Faults that only change how a host or its store behaves from now on.
    fn trouble(&mut self, fault: Fault) {
        let all = self.hosts.iter_mut();
        match fault {
            Fault::CaptureFails { actor } => all.for_each(|host| host.fail_captures(actor, 1)),
            Fault::RestoreFails { actor, times } => {
                all.for_each(|host| host.fail_restores(actor, times));
            }
            Fault::SlowHandlers { actor, by } => all.for_each(|host| host.slow_handlers(actor, by)),
            Fault::DamagedChunk { at } => {
                if let Some(host) = self.hosts.get_mut(at.0) {
                    host.damage_chunk();
                }
            }
            Fault::AfterSteps { at, steps, spark } => {
                if let Some(host) = self.hosts.get_mut(at.0) {
                    host.light_fuse(steps, spark);
                }
            }
            Fault::StoreLoses { at, what, next } => {
                let fault = match what {
                    Lost::Refused => spotlane_store_memory::Fault::FailBefore,
                    Lost::Request => spotlane_store_memory::Fault::LoseRequest,
                    Lost::Answer => spotlane_store_memory::Fault::LoseAnswer,
                };
                if let Some(host) = self.hosts.get(at.0) {
                    for _ in 0..next {
                        host.store().control().next(fault).ok();
                    }
                }
            }
            Fault::StoreAway { at, during } => {
                if let Some(host) = self.hosts.get(at.0) {
                    host.store().control().cut_off();
                    self.shared.after(during, Event::StoreBack { at });
                }
            }
            Fault::StoreLate {
                at,
                percent,
                by,
                during,
            } => {
                if let Some(host) = self.hosts.get(at.0) {
                    host.store().late(percent, by);
                    self.shared.after(during, Event::StoreBack { at });
                }
            }
            Fault::Cut { .. }
            | Fault::Slow { .. }
            | Fault::Pause { .. }
            | Fault::Crash { .. }
            | Fault::Shutdown { .. } => {}
        }
    }

    fn pause(&mut self, at: HostIndex, during: Duration) {
        if let Some(host) = self.hosts.get_mut(at.0)
            && host.life() == Life::Running
        {
            host.pause();
            self.executor.pause(Owner::Process(at.0));
            self.shared.see(Observation::Paused { at });
            self.shared.after(during, Event::Resume { at });
        }
    }

    fn resume(&mut self, at: HostIndex) -> Result<()> {
        let Some(host) = self.hosts.get_mut(at.0) else {
            return Ok(());
        };
        if host.life() != Life::Paused {
            return Ok(());
        }
        self.shared.see(Observation::Resumed { at });
        self.executor.resume(Owner::Process(at.0));
        host.resume(&mut self.shared)?;
        if host.life() == Life::Dead {
            self.bury(at);
        }
        Ok(())
    }

    /// Everything heals that can; only what died stays dead.
    fn heal(&mut self) -> Result<()> {
        self.shared.see(Observation::Healed);
        self.shared.timers_run = false;
        let plan = Arc::clone(&self.shared.plan);
        for host in &mut self.hosts {
            host.heal();
            host.store().control().heal();
            host.store().late(0, Duration::ZERO);
        }
        for at in plan.host_indices() {
            self.resume(at)?;
        }
        for a in plan.host_indices() {
            for b in plan.host_indices().filter(|b| *b > a) {
                self.connect(a, b)?;
            }
        }
        Ok(())
    }

    fn renew(&mut self) {
        let plan = Arc::clone(&self.shared.plan);
        for a in plan.host_indices() {
            for b in plan.host_indices().filter(|b| *b > a) {
                let outage = Outage {
                    noticed_here: Duration::ZERO,
                    noticed_there: Duration::ZERO,
                    back_after: Duration::ZERO,
                };
                self.shared.cut(a, b, outage);
            }
        }
    }

    /// Shows everything that was seen to oracle, trace and invariants.
    fn look(&mut self) {
        let now = self.shared.now();
        for seen in self.shared.take_seen() {
            self.oracle.observe(&seen);
            self.trace.line(now, format_args!("{seen:?}"));
            let view = view(&self.shared, &self.hosts, &self.oracle, &self.truth);
            for invariant in &mut self.invariants {
                if let Err(what) = invariant.observe(&seen, &view) {
                    let violation = Violation::new(&**invariant, now, what);
                    self.violations.push(violation);
                }
            }
            if self.keep == Keep::Lines {
                self.seen.push((now, seen));
            }
        }
        let view = view(&self.shared, &self.hosts, &self.oracle, &self.truth);
        for invariant in &mut self.invariants {
            if let Err(what) = invariant.after_step(&view) {
                let violation = Violation::new(&**invariant, now, what);
                self.violations.push(violation);
            }
        }
    }

    fn judge_end(&mut self) {
        let now = self.shared.now();
        let view = view(&self.shared, &self.hosts, &self.oracle, &self.truth);
        for invariant in &mut self.invariants {
            if let Err(what) = invariant.at_end(&view) {
                let violation = Violation::new(&**invariant, now, what);
                self.violations.push(violation);
            }
        }
    }
}

fn view<'a>(
    shared: &'a Shared,
    hosts: &'a [Host],
    oracle: &'a Oracle,
    truth: &'a Truth,
) -> View<'a> {
    View {
        now: shared.now(),
        plan: &shared.plan,
        hosts,
        oracle,
        row: Box::new(move |actor| truth.row(shared, actor)),
    }
}

/// What the store really says, without any way in between.
#[derive(Debug)]
struct Truth {
    rows: Repository<MemoryStore, HostTime>,
    leases: LeaseKeeper<MemoryStore, HostTime>,
}

impl Truth {
    fn new(shared: &Shared, store: MemoryStore) -> Result<Self> {
        let time = HostTime::new(shared.handle.clone(), Duration::ZERO, Random::new(0));
        let nobody = OwnerId::new("nobody")?;
        Ok(Self {
            rows: Repository::new(store.clone(), time.clone()),
            leases: LeaseKeeper::new(store, time, nobody, shared.plan.lease),
        })
    }

    fn row(&self, shared: &Shared, actor: ActorIndex) -> Option<OwnerRow> {
        let key = shared.cast.key(actor).ok()?;
        let read = now_or_never(self.rows.read(&key, NEVER)).ok()?.ok()?;
        let Authority::Active(active) = read else {
            return None;
        };
        let row = active.row();
        let lease = now_or_never(self.leases.read(&row.owner_id)).ok()?.ok()?;
        let lives =
            lease.is_some_and(|lease| lease.is_of(&row.owner_id, row.owner_lease_generation));
        Some(OwnerRow {
            owner: shared.cast.host_of(&active.payload().owner_node_rid)?,
            phase: active
                .payload()
                .relocation_state
                .as_ref()
                .map(|state| state.phase),
            object_generation: row.object_generation,
            generation: row.authority_owner_generation,
            lease: if lives { Lease::Live } else { Lease::Ended },
        })
    }
}

fn descriptor(cast: &Cast, index: HostIndex, held: &HeldLease) -> Result<MeshNodeDescriptor> {
    Ok(MeshNodeDescriptor {
        mesh_name: cast.mesh.clone(),
        routing_id: cast.node(index)?.clone(),
        lifecycle_generation: cast.run,
        descriptor_revision: DescriptorRevision::new(1)?,
        endpoint: Endpoint::new("tcp://node:1")?,
        entry_spot_id: None,
        channel_weights: ChannelWeights::default(),
        application_version: crate::host::application_version()?,
        object_capabilities: Vec::new(),
        object_role: ObjectRole::Server,
        placement_weight: WeightSetting::new(100).context("a weight")?,
        capacity: NodeCapacity::default(),
        activation_concurrency: ActivationConcurrency::default(),
        maintenance_wave: None,
        state: RuntimeState::Serving,
        security_identity: SecurityIdentity::new("sim")?,
        owner_id: held.lease().owner().clone(),
        lease_generation: held.lease().generation(),
        updated_at_epoch_ms: UnixMillis::new(1)?,
    })
}
