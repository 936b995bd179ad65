//! The payload budget of a host: the real one decides, and the transport of this model says what has left (RL-131).

use std::collections::BTreeMap;
use std::time::Duration;

use spotlane_relocation::budget::{Budget, Grant, UnitId};
use spotlane_relocation::identity::ConnectionId;
use spotlane_relocation::settings::RelocationSettings;
use spotlane_relocation::source::SourceEvent;
use spotlane_types::id::RelocationId;

use super::{Host, Job};
use crate::mutant::Mutant;
use crate::network::HostIndex;
use crate::observation::Observation;
use crate::shared::Shared;

/// A chunk on its way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    connection: ConnectionId,
    charge: u64,
    until: Duration,
}

/// The chunks in flight of one host.
#[derive(Debug)]
pub(super) struct InFlight {
    budget: Budget,
    flights: Vec<Flight>,
    /// Granted and not submitted yet.
    granted: BTreeMap<RelocationId, (ConnectionId, u64)>,
    /// What a unit asked for last.
    asked: BTreeMap<RelocationId, (ConnectionId, u64)>,
}

impl InFlight {
    pub(super) const fn new(settings: &RelocationSettings) -> Self {
        Self {
            budget: Budget::new(settings),
            flights: Vec::new(),
            granted: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }

    /// Bytes in flight on a connection.
    fn on(&self, connection: ConnectionId) -> u64 {
        let here = |flight: &&Flight| flight.connection == connection;
        self.flights
            .iter()
            .filter(here)
            .map(|flight| flight.charge)
            .sum()
    }

    /// When the transport lets go of the next chunk.
    pub(super) fn next_at(&self) -> Option<Duration> {
        self.flights.iter().map(|flight| flight.until).min()
    }

    /// What is left.
    pub(super) fn residents(&self) -> Vec<String> {
        let charged = self.budget.in_flight();
        let left = (charged > 0).then(|| format!("{charged} bytes charged to the budget"));
        left.into_iter().collect()
    }
}

/// The number of a move, for the budget.
const fn unit_id(relocation: RelocationId) -> UnitId {
    UnitId::new(relocation.low())
}

impl Host {
    /// A unit wants to start.
    pub(super) fn await_start(&mut self, relocation: RelocationId, peer: HostIndex) {
        let Some(connection) = self.links.get(&peer).copied() else {
            // A connection that is not there is not full.
            self.jobs
                .push_back(Job::Source(relocation, SourceEvent::BudgetOpen));
            return;
        };
        let mut grants = Vec::new();
        let budget = &mut self.in_flight.budget;
        budget.want_start(unit_id(relocation), connection, &mut grants);
        self.grant(grants);
    }

    /// A unit wants to submit its next chunk.
    pub(super) fn await_chunk(
        &mut self,
        relocation: RelocationId,
        peer: HostIndex,
        charge: u64,
        shared: &Shared,
    ) {
        // Without a connection there is nothing to wait for: the machine asks again on the next one.
        let Some(connection) = self.links.get(&peer).copied() else {
            return;
        };
        self.in_flight
            .asked
            .insert(relocation, (connection, charge));
        if shared.has(Mutant::IgnoreBudget) {
            self.jobs
                .push_back(Job::Source(relocation, SourceEvent::ChunkOpen));
            return;
        }
        let mut grants = Vec::new();
        let budget = &mut self.in_flight.budget;
        budget.want_chunk(unit_id(relocation), connection, charge, &mut grants);
        self.grant(grants);
    }

    fn grant(&mut self, grants: Vec<Grant>) {
        for grant in grants {
            let (unit, event) = match grant {
                Grant::Start(unit) => (unit, SourceEvent::BudgetOpen),
                Grant::Chunk(unit) => (unit, SourceEvent::ChunkOpen),
            };
            let known = self.sources.keys().find(|one| unit_id(**one) == unit);
            let Some(relocation) = known.copied() else {
                continue;
            };
            if let (Grant::Chunk(_), Some(asked)) =
                (grant, self.in_flight.asked.remove(&relocation))
            {
                self.in_flight.granted.insert(relocation, asked);
            }
            self.jobs.push_back(Job::Source(relocation, event));
        }
    }

    /// A chunk left and is in flight until then.
    pub(super) fn chunk_left(
        &mut self,
        relocation: RelocationId,
        to: HostIndex,
        until: Duration,
        shared: &mut Shared,
    ) {
        let granted = self.in_flight.granted.remove(&relocation);
        let asked = granted.or_else(|| self.in_flight.asked.remove(&relocation));
        let Some((connection, charge)) = asked else {
            return;
        };
        self.in_flight.flights.push(Flight {
            connection,
            charge,
            until,
        });
        shared.see(Observation::InFlight {
            at: self.index,
            to,
            bytes: self.in_flight.on(connection),
            chunk: charge,
            budget: shared.plan.settings.in_flight_budget().unwrap_or(u64::MAX),
        });
    }

    /// A grant that led to no chunk is given back: its unit has gone on or has ended meanwhile.
    pub(super) fn chunk_not_sent(&mut self, relocation: RelocationId) {
        if let Some((connection, charge)) = self.in_flight.granted.remove(&relocation) {
            let mut grants = Vec::new();
            self.in_flight
                .budget
                .released(connection, charge, &mut grants);
            self.grant(grants);
        }
    }

    /// The transport lets go of what has arrived.
    pub(super) fn wake_budget(&mut self, shared: &Shared) {
        let now = shared.now();
        let flights = std::mem::take(&mut self.in_flight.flights);
        let (over, still) = flights.into_iter().partition(|flight| flight.until <= now);
        self.in_flight.flights = still;
        let over: Vec<Flight> = over;
        let mut grants = Vec::new();
        for flight in over {
            let budget = &mut self.in_flight.budget;
            budget.released(flight.connection, flight.charge, &mut grants);
        }
        self.grant(grants);
    }

    /// A connection took its chunks with it.
    pub(super) fn budget_lost(&mut self, connection: ConnectionId) {
        let in_flight = &mut self.in_flight;
        in_flight
            .flights
            .retain(|flight| flight.connection != connection);
        in_flight.granted.retain(|_, (on, _)| *on != connection);
        in_flight.asked.retain(|_, (on, _)| *on != connection);
        let mut grants = Vec::new();
        in_flight.budget.connection_lost(connection, &mut grants);
        self.grant(grants);
    }

    /// A move waits for nothing any more.
    pub(super) fn budget_ended(&mut self, relocation: RelocationId) {
        self.chunk_not_sent(relocation);
        self.in_flight.asked.remove(&relocation);
        let mut grants = Vec::new();
        self.in_flight
            .budget
            .unit_ended(unit_id(relocation), &mut grants);
        self.grant(grants);
    }
}
