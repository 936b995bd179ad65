//! What arrives at a host: messages to their place (RL-170), and the turns of its lanes.

use anyhow::{Context as _, Result};
use spotlane_relocation::identity::ConnectionId;
use spotlane_relocation::source::{SourceEvent, SourceStage};
use spotlane_relocation::target::TargetEvent;
use spotlane_session::actor::ActorEvent;
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::Record;
use spotlane_wire::frozen::FrozenRecord;

use super::lane::{Gate, Item, Running};
use super::{Host, Job};
use crate::agenda::Packet;
use crate::cast::{address_of, kind_of, message_of, tail_of};
use crate::mutant::Mutant;
use crate::network::HostIndex;
use crate::observation::{ActorIndex, Answer, Kind, Loss, Observation, Place, Work};
use crate::shared::Shared;

/// How many of a hundred handlers of a client's message push to it.
const RELAY_PUSHES: u64 = 40;
/// How many of a hundred other handlers push to the client.
const TICK_PUSHES: u64 = 10;

/// A message that arrived directly.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Arrival {
    /// The message.
    pub record: Box<FrozenRecord>,
    /// How often it was forwarded.
    pub hops: u8,
}

impl Host {
    /// Takes a packet.
    pub(super) fn receive(
        &mut self,
        connection: ConnectionId,
        from: HostIndex,
        packet: Packet,
        shared: &mut Shared,
    ) -> Result<()> {
        match packet {
            Packet::Message { record, hops } => self.arrive(record, hops, shared),
            Packet::Terminal { message, answer } => {
                self.settle(message, answer, shared);
                Ok(())
            }
            Packet::Notice { frames } => self.notice(&frames),
            Packet::Binding { frames } => {
                let record = Record::decode(&frames, MeshOperationKind::None);
                let record = record.context("a record about a binding cannot be decoded")?;
                self.binding_record(from, record, shared)
            }
            Packet::Bind {
                frames,
                owner,
                hops,
            } => {
                let record = Record::decode(&frames, MeshOperationKind::None);
                let record = record.context("command 38 cannot be decoded")?;
                let Record::BoundSessionBind(bind) = record else {
                    anyhow::bail!("command 38");
                };
                self.bind_wanted(bind, (owner, hops), shared)
            }
            Packet::BindAnswer(reply) => self.bind_answered(&reply, shared),
            Packet::Command { frames, .. } => {
                // The real codec, so that what a machine sends is what the other one gets.
                let record = Record::decode(&frames, MeshOperationKind::None)
                    .context("a command of a move cannot be decoded")?;
                self.command(connection, from, record, shared)
            }
        }
    }

    /// RL-170: temporary queue, then instance, then hold, then the way to the next owner.
    pub(super) fn arrive(
        &mut self,
        record: Box<FrozenRecord>,
        hops: u8,
        shared: &mut Shared,
    ) -> Result<()> {
        let actor = actor_of(&record, shared)?;
        let target = self.targets.get(&actor);
        let queued = target.is_some_and(|unit| unit.queue_registered);
        if queued {
            self.accept(&record, Place::Temporary, shared);
            let event = TargetEvent::Arrived(Arrival { record, hops });
            self.jobs.push_back(Job::Target(actor, event));
            return Ok(());
        }
        self.judge_and_dispatch(actor, record, hops, shared);
        Ok(())
    }

    /// What came directly is judged by the owner first (SB-33).
    pub(super) fn judge_and_dispatch(
        &mut self,
        actor: ActorIndex,
        record: Box<FrozenRecord>,
        hops: u8,
        shared: &mut Shared,
    ) {
        if self.admit(actor, &record, shared) {
            self.dispatch(actor, record, hops, shared);
        }
    }

    /// Ordinary dispatch, where there is no temporary queue.
    pub(super) fn dispatch(
        &mut self,
        actor: ActorIndex,
        record: Box<FrozenRecord>,
        hops: u8,
        shared: &mut Shared,
    ) {
        if let Some(lane) = self.lanes.get(&actor) {
            match lane.gate {
                Gate::Open | Gate::SealWanted(_) | Gate::Merged => {
                    self.accept(&record, Place::Queue, shared);
                    self.enqueue(actor, record, shared);
                    self.jobs.push_back(Job::Turn(actor));
                }
                Gate::Sealed(relocation) => {
                    self.accept(&record, Place::Hold, shared);
                    self.hold(actor, relocation, record);
                }
            }
            return;
        }
        if let Some(relocation) = self.latest.get(&actor).copied()
            && self.sources.contains_key(&relocation)
        {
            self.past(relocation, record, hops, shared);
            return;
        }
        self.refuse(&record, Loss::Refused, shared);
    }

    /// Behind the seal: held here until the machine asks for it, and by the machine afterwards.
    pub(super) fn hold(
        &mut self,
        actor: ActorIndex,
        relocation: spotlane_types::id::RelocationId,
        record: Box<FrozenRecord>,
    ) {
        let held_here = self
            .sources
            .get(&relocation)
            .is_some_and(|unit| !unit.drained && !unit.machine_holds);
        if held_here {
            if let Some(lane) = self.lanes.get_mut(&actor) {
                lane.hold.push_back(*record);
            }
            return;
        }
        let event = SourceEvent::Arrived(record);
        self.jobs.push_back(Job::Source(relocation, event));
    }

    /// The instance is gone; the machine of the move says where the record goes.
    fn past(
        &mut self,
        relocation: spotlane_types::id::RelocationId,
        record: Box<FrozenRecord>,
        hops: u8,
        shared: &mut Shared,
    ) {
        if shared.has(Mutant::DropAtOldAddress) {
            return;
        }
        self.accept(&record, Place::Hold, shared);
        if let Some(message) = message_of(&record) {
            self.following.remember_hops(message, hops);
        }
        let event = SourceEvent::Arrived(record);
        self.jobs.push_back(Job::Source(relocation, event));
    }

    pub(super) fn accept(&self, record: &FrozenRecord, place: Place, shared: &mut Shared) {
        if let Some(message) = message_of(record) {
            shared.see(Observation::Accepted {
                message,
                at: self.index,
                place,
            });
        }
    }

    /// Ends a message that has no place here: a request once with `Unavailable`, a one-way message as a recorded drop.
    pub(super) fn refuse(&mut self, record: &FrozenRecord, loss: Loss, shared: &mut Shared) {
        self.refuse_with(record, loss, Answer::Unavailable, shared);
    }

    pub(super) fn refuse_with(
        &mut self,
        record: &FrozenRecord,
        loss: Loss,
        answer: Answer,
        shared: &mut Shared,
    ) {
        let Some(message) = message_of(record) else {
            return;
        };
        shared.lose(message, loss);
        let caller = shared.cast.sender_of(&record.source);
        if let (Kind::Request, Some(caller)) = (kind_of(record), caller) {
            self.answer(caller, message, answer, shared);
        }
    }

    /// Ends the turns that are over and takes due ticks.
    pub(super) fn wake_lanes(&mut self, shared: &mut Shared) -> Result<()> {
        let now = shared.now();
        if self.blocked_until.is_some_and(|at| at <= now) {
            self.blocked_until = None;
        }
        let actors: Vec<ActorIndex> = self.lanes.keys().copied().collect();
        for actor in actors {
            self.end_turn(actor, shared)?;
            self.take_tick(actor, shared);
            self.jobs.push_back(Job::Turn(actor));
        }
        Ok(())
    }

    fn take_tick(&mut self, actor: ActorIndex, shared: &Shared) {
        if !shared.timers_run {
            return;
        }
        let now = shared.now_millis();
        let Some(lane) = self.lanes.get_mut(&actor).filter(|lane| lane.serves()) else {
            return;
        };
        if let Some(tick) = lane.timer.as_mut().and_then(|timer| timer.due(now)) {
            lane.queue.push_back(Item::Tick(tick));
        }
    }

    fn end_turn(&mut self, actor: ActorIndex, shared: &mut Shared) -> Result<()> {
        let now = shared.now();
        let Some(lane) = self.lanes.get_mut(&actor) else {
            return Ok(());
        };
        let Some(running) = lane.running.take_if(|running| running.until <= now) else {
            return Ok(());
        };
        let work = running.item.work().context("work without a name")?;
        lane.state.handled.push(work);
        shared.see(Observation::Ended {
            actor,
            at: self.index,
            work,
        });
        let Item::Message(record) = running.item else {
            return self.push_sometimes(actor, TICK_PUSHES, shared);
        };
        if let Work::Disconnected(_) = work {
            return self.disconnected_ended(actor, &record, shared);
        }
        let relayed = tail_of(&record).is_some();
        let percent = if relayed { RELAY_PUSHES } else { TICK_PUSHES };
        self.push_sometimes(actor, percent, shared)?;
        if let (Work::Message(message), Kind::Request) = (work, kind_of(&record)) {
            let caller = shared.cast.sender_of(&record.source);
            let caller = caller.context("a request without a caller")?;
            self.answer(caller, message, Answer::Reply, shared);
            if shared.has(Mutant::AnswerTwice) {
                self.answer(caller, message, Answer::Reply, shared);
            }
        }
        Ok(())
    }

    /// Starts the next turn of a lane, or tells the machine that its safe point has come.
    pub(super) fn start_turn(&mut self, actor: ActorIndex, shared: &mut Shared) -> Result<()> {
        let admits = self.held.admits(self.location_now());
        let Some(lane) = self.lanes.get_mut(&actor) else {
            return Ok(());
        };
        if lane.running.is_some() {
            return Ok(());
        }
        if let Gate::SealWanted(relocation) = lane.gate {
            if shared.has(Mutant::NoSafePoint) {
                return Ok(());
            }
            lane.gate = Gate::Sealed(relocation);
            self.binding_event(actor, ActorEvent::MoveCaptured, shared)?;
            let event = SourceEvent::SafePoint;
            self.jobs.push_back(Job::Source(relocation, event));
            return Ok(());
        }
        let serves = lane.serves() || shared.has(Mutant::ServeWhileSealed);
        if !serves || lane.queue.is_empty() {
            return Ok(());
        }
        // RL-284: past its deadline a host starts nothing.
        if !admits && !shared.has(Mutant::IgnoreLease) {
            let later = shared.now() + std::time::Duration::from_millis(20);
            self.blocked_until = Some(self.blocked_until.map_or(later, |at| at.min(later)));
            return Ok(());
        }
        let Some(item) = lane.queue.pop_front() else {
            return Ok(());
        };
        let work = item.work().context("work without a name")?;
        let slow = self
            .troubles
            .get(&actor)
            .map(|trouble| trouble.slow)
            .unwrap_or_default();
        let handler = shared
            .plan
            .actors
            .get(actor.0)
            .map(|plan| plan.handler)
            .unwrap_or_default();
        let most = u64::try_from(handler.as_micros()).unwrap_or(u64::MAX);
        let until = shared.now() + shared.random.micros(20, most.max(20)) + slow;
        lane.running = Some(Running { item, until });
        shared.see(Observation::Started {
            actor,
            at: self.index,
            work,
        });
        Ok(())
    }

    /// Hands a command of a move to the machine that it is for.
    fn command(
        &mut self,
        connection: ConnectionId,
        from: HostIndex,
        record: Record,
        shared: &mut Shared,
    ) -> Result<()> {
        let job = match record {
            Record::RelocationReady(ready) => {
                let event = SourceEvent::Ready(ready);
                self.reply(from, event);
                return Ok(());
            }
            Record::RelocationFailed(failed) => {
                let event = SourceEvent::Failed(failed);
                self.reply(from, event);
                return Ok(());
            }
            other => self.target_command(connection, other, shared)?,
        };
        if let Some(job) = job {
            self.jobs.push_back(job);
        }
        Ok(())
    }

    /// RL-5: which move a reply belongs to is in the reply, and a machine judges that.
    fn reply(&mut self, from: HostIndex, event: SourceEvent) {
        for (relocation, unit) in &self.sources {
            if unit.target == from && unit.machine.stage() != SourceStage::SourceRunning {
                self.jobs.push_back(Job::Source(*relocation, event.clone()));
            }
        }
    }
}

/// The Actor that a record is for.
pub(super) fn actor_of(record: &FrozenRecord, shared: &Shared) -> Result<ActorIndex> {
    let address = address_of(record).context("a record that is for no Actor")?;
    let actor = shared.cast.actor_of(&address.actor.actor_id);
    actor.context("a record for an Actor of another world")
}
