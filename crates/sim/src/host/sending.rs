//! Senders and callers of a host: how messages get their address, and how requests end.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Result;
use spotlane_location::cache::Route;
use spotlane_location::{LiveRoute, LocationError};

use super::{Host, StoreAnswer};
use crate::agenda::Packet;
use crate::network::HostIndex;
use crate::observation::{
    ActorIndex, Answer, Kind, Loss, MessageId, Observation, Origin, SenderIndex,
};
use crate::shared::{Shared, Submit};
use crate::workload::Addressing;

/// A message that has no address yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    message: MessageId,
    kind: Kind,
    /// When it is given up.
    until: Duration,
}

/// What one sender has issued and not sent: in order, the first waits for its route.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Waiting>,
    /// Whether a look-up is under way.
    looking: bool,
    /// When the next look-up is tried.
    look_at: Option<Duration>,
    /// The first route that it ever saw.
    first: Option<Route>,
}

/// How long a sender waits before it looks for an object that is not ready again.
const LOOK_AGAIN: Duration = Duration::from_millis(15);

impl Host {
    /// A sender issues one message.
    pub(super) fn issue(&mut self, sender: SenderIndex, shared: &mut Shared) -> Result<()> {
        let Some(plan) = shared.plan.senders.get(sender.0).copied() else {
            return Ok(());
        };
        let message = shared.message_id();
        let kind = if shared.random.percent(plan.request_percent) {
            Kind::Request
        } else {
            Kind::Send
        };
        shared.see(Observation::Issued {
            message,
            kind,
            origin: Origin::Sender(sender),
            actor: plan.actor,
            at: self.index,
        });
        let until = shared.now() + shared.plan.request_timeout;
        if kind == Kind::Request {
            self.callers.insert(message, until);
        }
        let outbox = self.outboxes.entry(sender).or_default();
        outbox.waiting.push_back(Waiting {
            message,
            kind,
            until,
        });
        self.send_waiting(sender, shared)
    }

    /// Sends what has a route, and looks for one if need be.
    fn send_waiting(&mut self, sender: SenderIndex, shared: &mut Shared) -> Result<()> {
        let Some(plan) = shared.plan.senders.get(sender.0).copied() else {
            return Ok(());
        };
        let key = shared.cast.key(plan.actor)?;
        loop {
            let now = self.location_now();
            let Some(outbox) = self.outboxes.get_mut(&sender) else {
                return Ok(());
            };
            let Some(next) = outbox.waiting.front().copied() else {
                return Ok(());
            };
            let known = match plan.addressing {
                Addressing::Cache => self.cache.get(&key, now).cloned(),
                Addressing::OldAddress => outbox.first.clone(),
                Addressing::LookUp => None,
            };
            let Some(route) = known else {
                return self.look_up(sender, plan.actor, shared);
            };
            outbox.waiting.pop_front();
            self.submit(next, &route, shared)?;
        }
    }

    fn look_up(&mut self, sender: SenderIndex, actor: ActorIndex, shared: &Shared) -> Result<()> {
        let now = shared.now();
        let Some(outbox) = self.outboxes.get_mut(&sender) else {
            return Ok(());
        };
        if outbox.looking || outbox.look_at.is_some_and(|at| at > now) {
            return Ok(());
        }
        outbox.looking = true;
        outbox.look_at = None;
        let key = shared.cast.key(actor)?;
        let margin = shared.plan.lease.fencing_margin();
        let until = self.location_now().after(Duration::from_millis(200));
        let repository = std::sync::Arc::clone(&self.repository);
        self.ask(shared, async move {
            let found = repository.live_route(&key, margin, until).await;
            StoreAnswer::Route { sender, found }
        });
        Ok(())
    }

    /// The answer to a look-up.
    pub(super) fn looked_up(
        &mut self,
        sender: SenderIndex,
        found: Result<Option<LiveRoute>, LocationError>,
        shared: &mut Shared,
    ) -> Result<()> {
        let now = self.location_now();
        let Some(outbox) = self.outboxes.get_mut(&sender) else {
            return Ok(());
        };
        outbox.looking = false;
        if let Ok(Some(live)) = found {
            let route = live.route.clone();
            outbox.first.get_or_insert_with(|| route.clone());
            self.cache.insert(live.route, now, live.owner_deadline);
            // Whatever the addressing, this answer serves the message that asked.
            if let Some(next) = outbox.waiting.pop_front() {
                self.submit(next, &route, shared)?;
            }
            return self.send_waiting(sender, shared);
        }
        outbox.look_at = Some(shared.now() + LOOK_AGAIN);
        Ok(())
    }

    fn submit(&mut self, next: Waiting, route: &Route, shared: &mut Shared) -> Result<()> {
        let lease = self.held.lease().clone();
        let record = shared
            .cast
            .record(self.index, &lease, next.message, next.kind, route)?;
        let record = Box::new(record);
        let to = shared.cast.host_of(&route.tenure.node_rid);
        let to = to.unwrap_or(self.index);
        if to == self.index {
            return self.arrive(record, 0, shared);
        }
        let link = self.links.get(&to).copied();
        let packet = Packet::Message { record, hops: 0 };
        if shared.send(self.index, to, link, packet) == Submit::Failed {
            self.not_submitted(next.message, next.kind, shared);
        }
        Ok(())
    }

    pub(super) fn not_submitted(&mut self, message: MessageId, kind: Kind, shared: &mut Shared) {
        if let Some(answer) = shared.refuse(message, kind, Loss::NotSubmitted) {
            self.settle(message, answer, shared);
        }
    }

    /// Sends the terminal of a request to its caller.
    pub(super) fn answer(
        &mut self,
        to: HostIndex,
        message: MessageId,
        answer: Answer,
        shared: &mut Shared,
    ) {
        shared.see(Observation::Answered {
            message,
            at: self.index,
            answer,
        });
        if to == self.index {
            self.settle(message, answer, shared);
            return;
        }
        let link = self.links.get(&to).copied();
        let packet = Packet::Terminal { message, answer };
        // An answer that does not leave is a lost answer; the caller's own deadline ends its wait.
        let (Submit::Taken(_) | Submit::Failed) = shared.send(self.index, to, link, packet);
    }

    /// RL-268: the first terminal counts, a later one is a diagnostic.
    pub(super) fn settle(&mut self, message: MessageId, answer: Answer, shared: &mut Shared) {
        if self.callers.remove(&message).is_some() {
            shared.see(Observation::Settled { message, answer });
        } else {
            shared.see(Observation::LateTerminal { message, answer });
        }
    }

    /// What is due for senders and callers.
    pub(super) fn wake_senders(&mut self, shared: &mut Shared) -> Result<()> {
        let now = shared.now();
        let over: Vec<MessageId> = self
            .callers
            .iter()
            .filter(|(_, until)| **until <= now)
            .map(|(message, _)| *message)
            .collect();
        for message in over {
            self.settle(message, Answer::TimedOut, shared);
            self.withdraw(message, shared)?;
        }
        let senders: Vec<SenderIndex> = self.outboxes.keys().copied().collect();
        for sender in senders {
            self.give_up(sender, shared);
            let due = self.outboxes.get(&sender).is_some_and(|outbox| {
                !outbox.waiting.is_empty() && outbox.look_at.is_some_and(|at| at <= now)
            });
            if due {
                self.send_waiting(sender, shared)?;
            }
        }
        Ok(())
    }

    /// Messages that found no route in their time.
    fn give_up(&mut self, sender: SenderIndex, shared: &mut Shared) {
        let now = shared.now();
        while let Some(outbox) = self.outboxes.get_mut(&sender) {
            let over = outbox.waiting.front().copied();
            let Some(over) = over.filter(|waiting| waiting.until <= now) else {
                return;
            };
            outbox.waiting.pop_front();
            self.not_submitted_late(over, shared);
        }
    }

    fn not_submitted_late(&mut self, over: Waiting, shared: &mut Shared) {
        shared.lose(over.message, Loss::NotSubmitted);
        if self.callers.contains_key(&over.message) {
            self.settle(over.message, Answer::Unavailable, shared);
        }
    }

    /// When senders and callers are next due.
    pub(super) fn senders_next(&self) -> Option<Duration> {
        let callers = self.callers.values().min().copied();
        let outboxes = self.outboxes.values().filter_map(|outbox| {
            let first = outbox.waiting.front()?;
            Some(outbox.look_at.map_or(first.until, |at| at.min(first.until)))
        });
        [callers, outboxes.min()].into_iter().flatten().min()
    }

    /// Whether senders have nothing left to send and callers nothing to wait for.
    pub(super) fn senders_idle(&self) -> bool {
        self.callers.is_empty()
            && self
                .outboxes
                .values()
                .all(|outbox| outbox.waiting.is_empty())
    }

    /// The time of the host's own clock for the repository.
    pub(super) fn location_now(&self) -> spotlane_location::Monotonic {
        spotlane_location::Timing::now(&self.time)
    }
}
