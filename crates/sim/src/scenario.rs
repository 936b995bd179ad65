//! Small worlds built by hand: one Actor, a few senders, one or two moves, and only the faults that are asked for.

use std::time::Duration;

use anyhow::Result;
use spotlane_relocation::settings::RelocationSettings;

use crate::faults::{Climate, Fault};
use crate::network::HostIndex;
use crate::observation::ActorIndex;
use crate::plan::Plan;
use crate::workload::{ActorPlan, Addressing, MovePlan, Policy, SenderPlan};

/// The host at which the Actor begins.
pub const SOURCE: HostIndex = HostIndex(0);
/// The host to which it moves.
pub const TARGET: HostIndex = HostIndex(1);
/// A host that only sends.
pub const SENDER: HostIndex = HostIndex(2);
/// The Actor.
pub const ACTOR: ActorIndex = ActorIndex(0);

/// A small world in the making.
#[derive(Clone, Debug)]
#[must_use]
pub struct Scenario {
    plan: Plan,
}

impl Scenario {
    /// One Actor that moves once, while three senders never stop.
    ///
    /// # Errors
    /// The settings contradict each other: a defect of the simulator.
    pub fn new(seed: u64) -> Result<Self> {
        let mut plan = Plan::with_climate(seed, Climate::Calm)?;
        plan.hosts = 3;
        plan.actors = vec![ActorPlan {
            home: SOURCE,
            policy: Policy::Preserve,
            period: Some(Duration::from_millis(17)),
            ballast: 900,
            handler: Duration::from_micros(700),
        }];
        let sender = |host, addressing| SenderPlan {
            host,
            actor: ACTOR,
            addressing,
            begins: Duration::from_millis(40),
            messages: 60,
            gap: Duration::from_micros(900),
            request_percent: 50,
        };
        plan.senders = vec![
            sender(SENDER, Addressing::Cache),
            sender(SENDER, Addressing::OldAddress),
            sender(SOURCE, Addressing::OldAddress),
        ];
        plan.clients.clear();
        plan.faults.clear();
        plan.moves = vec![(Duration::from_millis(50), move_to(TARGET))];
        plan.settings = settings(256, 1_000)?;
        Ok(Self { plan })
    }

    /// It moves back later.
    pub fn and_back(mut self) -> Self {
        let back = (Duration::from_millis(75), move_to(SOURCE));
        self.plan.moves.push(back);
        self
    }

    /// What a move does with its state.
    pub fn policy(mut self, policy: Policy) -> Self {
        for actor in &mut self.plan.actors {
            actor.policy = policy;
        }
        self
    }

    /// Something goes wrong.
    pub fn fault(mut self, at: Duration, fault: Fault) -> Self {
        self.plan.faults.push((at, fault));
        self.plan.faults.sort_by_key(|(at, _)| *at);
        self
    }

    /// What the invariants may excuse.
    pub fn climate(mut self, climate: Climate) -> Self {
        self.plan.climate = climate;
        if !climate.is_gentle() {
            self.plan.request_timeout = Duration::from_millis(1_500);
        }
        self
    }

    /// The chunk limit and the budget.
    ///
    /// # Errors
    /// They contradict each other.
    pub fn sizes(mut self, chunk: u32, budget: u64) -> Result<Self> {
        self.plan.settings = settings(chunk, budget)?;
        Ok(self)
    }

    /// The world.
    pub fn plan(self) -> Plan {
        self.plan
    }
}

const fn move_to(to: HostIndex) -> MovePlan {
    MovePlan {
        actor: ACTOR,
        to,
        aborted_after: None,
    }
}

fn settings(chunk: u32, budget: u64) -> Result<RelocationSettings> {
    Ok(RelocationSettings::builder()
        .cutover_wait(Duration::from_millis(100))
        .restore_validity(Duration::from_millis(1_500))
        .follow_duration(Duration::from_secs(6))
        .polling_interval(Duration::from_millis(400))
        .chunk_limit(chunk)
        .in_flight_budget(budget)
        .build()?)
}
