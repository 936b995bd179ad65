//! Which chunk goes next: the in-flight budget of a node (R§5.3, RL-131).
//!
//! Counted is what the transport charges, from the submit of a chunk to its release. A full budget makes
//! a new unit wait before its seal and a running unit before its next chunk; it fails nothing, and it
//! limits neither how many units move nor how large they are (RL-194).

use core::num::NonZeroU64;
use std::collections::{BTreeMap, VecDeque};

use crate::identity::ConnectionId;
use crate::settings::RelocationSettings;

/// Names a unit to the budget of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(u64);

impl UnitId {
    /// The unit with this number, which the driver uses once.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Something that has become possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two waits of RL-131")]
pub enum Grant {
    /// The unit may start.
    Start(UnitId),
    /// The unit may submit its next chunk, which is charged from now on.
    Chunk(UnitId),
}

/// The chunks in flight, and who waits, of one node.
///
/// Waits of one connection are served in the order in which they came. A unit waits for one thing at a
/// time, so units take turns.
#[derive(Debug)]
pub struct Budget {
    of_connection: Option<u64>,
    of_node: Option<u64>,
    in_flight: u64,
    connections: BTreeMap<NonZeroU64, Connection>,
    /// The connection that a unit waits for: one at a time.
    waiting: BTreeMap<UnitId, NonZeroU64>,
    next_ticket: u64,
}

#[derive(Debug, Default)]
struct Connection {
    in_flight: u64,
    waits: VecDeque<Wait>,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    ticket: u64,
    unit: UnitId,
    want: Want,
}

#[derive(Clone, Copy, Debug)]
enum Want {
    Start,
    Chunk { charge: u64 },
}

impl Want {
    /// A start takes nothing yet, but needs room for something.
    const fn least(self) -> u64 {
        match self {
            Self::Start => 1,
            Self::Chunk { charge } => charge,
        }
    }
}

/// A chunk that is larger than the whole budget goes when nothing else is in flight (RL-131).
fn fits(limit: Option<u64>, in_flight: u64, charge: u64) -> bool {
    limit.is_none_or(|limit| in_flight == 0 || in_flight.saturating_add(charge) <= limit)
}

impl Budget {
    /// The budget of a node with these settings.
    pub const fn new(settings: &RelocationSettings) -> Self {
        Self {
            of_connection: settings.in_flight_budget(),
            of_node: settings.node_in_flight_budget(),
            in_flight: 0,
            connections: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_ticket: 0,
        }
    }

    /// A unit wants to start to the peer at this connection.
    pub fn want_start(&mut self, unit: UnitId, to: ConnectionId, grants: &mut Vec<Grant>) {
        self.want(unit, to, Want::Start, grants);
    }

    /// A unit wants to submit a chunk with this charge.
    pub fn want_chunk(
        &mut self,
        unit: UnitId,
        to: ConnectionId,
        charge: u64,
        grants: &mut Vec<Grant>,
    ) {
        self.want(unit, to, Want::Chunk { charge }, grants);
    }

    /// The transport has released a chunk with this charge.
    pub fn released(&mut self, from: ConnectionId, charge: u64, grants: &mut Vec<Grant>) {
        if let Some(connection) = self.connections.get_mut(&from.get()) {
            let charge = charge.min(connection.in_flight);
            connection.in_flight = connection.in_flight.saturating_sub(charge);
            self.in_flight = self.in_flight.saturating_sub(charge);
        }
        self.pump(from, grants);
    }

    /// A connection ended: nothing is in flight there, and nobody waits for it any more.
    ///
    /// Whoever wanted to send a chunk asks again on its next connection. Units that wanted to start are
    /// granted, because a connection that is gone is not full.
    pub fn connection_lost(&mut self, lost: ConnectionId, grants: &mut Vec<Grant>) {
        let Some(connection) = self.connections.remove(&lost.get()) else {
            return;
        };
        self.in_flight = self.in_flight.saturating_sub(connection.in_flight);
        for wait in &connection.waits {
            self.waiting.remove(&wait.unit);
        }
        let starts = connection.waits.iter().filter_map(|wait| match wait.want {
            Want::Start => Some(Grant::Start(wait.unit)),
            Want::Chunk { .. } => None,
        });
        grants.extend(starts);
        self.pump_all(grants);
    }

    /// A unit waits for nothing any more.
    pub fn unit_ended(&mut self, unit: UnitId, grants: &mut Vec<Grant>) {
        self.withdraw(unit);
        self.pump_all(grants);
    }

    /// What a unit waited for is not wanted any more.
    fn withdraw(&mut self, unit: UnitId) {
        let Some(key) = self.waiting.remove(&unit) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.waits.retain(|wait| wait.unit != unit);
        }
        self.forget(key);
    }

    /// Bytes that are charged now, over all connections.
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    fn want(&mut self, unit: UnitId, to: ConnectionId, want: Want, grants: &mut Vec<Grant>) {
        // It may have asked on a connection that had just been lost: that one has no end any more at which its wait would go.
        self.withdraw(unit);
        self.waiting.insert(unit, to.get());
        let ticket = self.next_ticket;
        self.next_ticket = self.next_ticket.saturating_add(1);
        let connection = self.connections.entry(to.get()).or_default();
        connection.waits.push_back(Wait { ticket, unit, want });
        self.pump(to, grants);
    }

    fn pump(&mut self, connection: ConnectionId, grants: &mut Vec<Grant>) {
        if self.of_node.is_some() {
            return self.pump_all(grants);
        }
        while let Some(grant) = self.take(connection.get()) {
            grants.push(grant);
        }
        self.forget(connection.get());
    }

    /// With a budget of the node, room at one connection may serve any other: the oldest wait first.
    fn pump_all(&mut self, grants: &mut Vec<Grant>) {
        while let Some(key) = self.oldest_that_fits() {
            match self.take(key) {
                Some(grant) => grants.push(grant),
                None => break,
            }
        }
        self.connections
            .retain(|_, connection| connection.in_flight > 0 || !connection.waits.is_empty());
    }

    fn oldest_that_fits(&self) -> Option<NonZeroU64> {
        let heads = self.connections.iter().filter_map(|(key, connection)| {
            let wait = connection.waits.front()?;
            self.has_room(connection, wait.want)
                .then_some((wait.ticket, *key))
        });
        heads.min().map(|(_, key)| key)
    }

    fn has_room(&self, connection: &Connection, want: Want) -> bool {
        fits(self.of_connection, connection.in_flight, want.least())
            && fits(self.of_node, self.in_flight, want.least())
    }

    fn take(&mut self, key: NonZeroU64) -> Option<Grant> {
        let connection = self.connections.get(&key)?;
        let wait = *connection.waits.front()?;
        if !self.has_room(connection, wait.want) {
            return None;
        }
        let connection = self.connections.get_mut(&key)?;
        connection.waits.pop_front();
        self.waiting.remove(&wait.unit);
        Some(match wait.want {
            Want::Start => Grant::Start(wait.unit),
            Want::Chunk { charge } => {
                connection.in_flight = connection.in_flight.saturating_add(charge);
                self.in_flight = self.in_flight.saturating_add(charge);
                Grant::Chunk(wait.unit)
            }
        })
    }

    fn forget(&mut self, key: NonZeroU64) {
        let idle = self
            .connections
            .get(&key)
            .is_some_and(|connection| connection.in_flight == 0 && connection.waits.is_empty());
        if idle {
            self.connections.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::sample::connection;

    fn budget(of_connection: u64, of_node: u64) -> Budget {
        let settings = RelocationSettings::builder()
            .in_flight_budget(of_connection)
            .node_in_flight_budget(of_node)
            .build()
            .unwrap();
        Budget::new(&settings)
    }

    fn unit(number: u64) -> UnitId {
        UnitId::new(number)
    }

    fn grants(act: impl FnOnce(&mut Vec<Grant>)) -> Vec<Grant> {
        let mut grants = Vec::new();
        act(&mut grants);
        grants
    }

    /// RL-131
    #[test]
    fn a_full_budget_delays_the_next_chunk_and_the_next_unit_in_order() {
        let mut budget = budget(100, 0);
        let a = connection(1);
        assert_eq!(
            grants(|out| budget.want_chunk(unit(1), a, 60, out)),
            [Grant::Chunk(unit(1))]
        );
        assert_eq!(grants(|out| budget.want_chunk(unit(1), a, 60, out)), []);
        assert_eq!(grants(|out| budget.want_start(unit(2), a, out)), []);
        assert_eq!(
            grants(|out| budget.released(a, 60, out)),
            [Grant::Chunk(unit(1)), Grant::Start(unit(2))]
        );
        assert_eq!(budget.in_flight(), 60);
    }

    /// RL-131
    #[test]
    fn a_chunk_above_the_budget_goes_when_nothing_else_is_in_flight() {
        let mut budget = budget(10, 0);
        let a = connection(1);
        assert_eq!(
            grants(|out| budget.want_chunk(unit(1), a, 50, out)),
            [Grant::Chunk(unit(1))]
        );
        assert_eq!(grants(|out| budget.want_chunk(unit(1), a, 50, out)), []);
        assert_eq!(
            grants(|out| budget.released(a, 50, out)),
            [Grant::Chunk(unit(1))]
        );
    }

    /// RL-131
    #[test]
    fn connections_have_budgets_of_their_own_below_that_of_the_node() {
        let mut budget = budget(100, 150);
        let (a, b, c) = (connection(1), connection(2), connection(3));
        let mut out = Vec::new();
        budget.want_chunk(unit(1), a, 100, &mut out);
        budget.want_chunk(unit(2), b, 50, &mut out);
        assert_eq!(out, [Grant::Chunk(unit(1)), Grant::Chunk(unit(2))]);
        assert_eq!(grants(|out| budget.want_chunk(unit(3), c, 10, out)), []);
        assert_eq!(
            grants(|out| budget.released(b, 50, out)),
            [Grant::Chunk(unit(3))]
        );
    }

    /// RL-131
    #[test]
    fn a_budget_of_zero_is_no_budget() {
        let mut budget = budget(0, 0);
        let a = connection(1);
        for _ in 0..100 {
            let got = grants(|out| budget.want_chunk(unit(1), a, 1 << 40, out));
            assert_eq!(got, [Grant::Chunk(unit(1))]);
        }
    }

    /// RL-131
    #[test]
    fn a_lost_connection_gives_everything_back_once() {
        let mut budget = budget(100, 100);
        let (a, b) = (connection(1), connection(2));
        let mut out = Vec::new();
        budget.want_chunk(unit(1), a, 100, &mut out);
        budget.want_chunk(unit(1), a, 100, &mut out);
        budget.want_start(unit(2), a, &mut out);
        budget.want_chunk(unit(3), b, 10, &mut out);
        assert_eq!(out, [Grant::Chunk(unit(1))]);
        assert_eq!(
            grants(|out| budget.connection_lost(a, out)),
            [Grant::Start(unit(2)), Grant::Chunk(unit(3))]
        );
        assert_eq!(grants(|out| budget.released(a, 100, out)), []);
        assert_eq!(budget.in_flight(), 10);
    }

    /// RL-131
    #[test]
    fn a_unit_that_ended_keeps_nobody_waiting() {
        let mut budget = budget(100, 0);
        let a = connection(1);
        let mut out = Vec::new();
        budget.want_chunk(unit(1), a, 90, &mut out);
        budget.want_chunk(unit(2), a, 90, &mut out);
        budget.want_chunk(unit(3), a, 10, &mut out);
        assert_eq!(out, [Grant::Chunk(unit(1))]);
        assert_eq!(
            grants(|out| budget.unit_ended(unit(2), out)),
            [Grant::Chunk(unit(3))]
        );
    }
}
