//! What is in flight: the transport's side of the payload budget (RL-131).

use std::collections::VecDeque;
use std::time::Duration;

use spotlane_relocation::identity::ConnectionId;
use spotlane_relocation::settings::RelocationSettings;
use spotlane_types::id::RelocationId;

/// What waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// A unit that has not begun.
    Unit,
    /// The next chunk, with its charge.
    Chunk(u64),
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    connection: ConnectionId,
    charge: u64,
    until: Duration,
}

/// The chunks in flight of one host.
#[derive(Debug)]
pub(super) struct Budget {
    limit: Option<u64>,
    flights: Vec<Flight>,
    waiting: VecDeque<(RelocationId, ConnectionId, Want)>,
}

impl Budget {
    pub(super) const fn new(settings: &RelocationSettings) -> Self {
        Self {
            limit: settings.in_flight_budget(),
            flights: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Bytes in flight on a connection.
    pub(super) fn in_flight(&self, connection: ConnectionId) -> u64 {
        let on = |flight: &&Flight| flight.connection == connection;
        self.flights.iter().filter(on).map(|flight| flight.charge).sum()
    }

    fn fits(&self, connection: ConnectionId, want: Want) -> bool {
        let Some(limit) = self.limit else {
            return true;
        };
        let used = self.in_flight(connection);
        match want {
            Want::Unit => used < limit,
            // RL-131: a chunk above the budget goes when nothing else is in flight.
            Want::Chunk(charge) => used == 0 || used.saturating_add(charge) <= limit,
        }
    }

    /// Asks for room; `false` means that the answer comes later.
    pub(super) fn ask(
        &mut self,
        relocation: RelocationId,
        connection: ConnectionId,
        want: Want,
    ) -> bool {
        if self.fits(connection, want) {
            return true;
        }
        self.waiting.push_back((relocation, connection, want));
        false
    }

    /// A chunk is in flight until then.
    pub(super) fn charge(&mut self, connection: ConnectionId, charge: u64, until: Duration) {
        self.flights.push(Flight {
            connection,
            charge,
            until,
        });
    }

    /// The transport has let go of what is over; says who may go on now.
    pub(super) fn release(&mut self, now: Duration) -> Vec<(RelocationId, Want)> {
        self.flights.retain(|flight| flight.until > now);
        let mut open = Vec::new();
        let waiting = std::mem::take(&mut self.waiting);
        for (relocation, connection, want) in waiting {
            // One at a time: each of them fills the budget before the next is judged.
            if open.is_empty() && self.fits(connection, want) {
                open.push((relocation, want));
            } else {
                self.waiting.push_back((relocation, connection, want));
            }
        }
        open
    }

    /// A connection took its chunks with it.
    pub(super) fn connection_lost(&mut self, connection: ConnectionId) {
        self.flights.retain(|flight| flight.connection != connection);
        self.waiting.retain(|(_, on, want)| *on != connection || *want == Want::Unit);
    }

    /// A move has ended and waits for nothing.
    pub(super) fn forget(&mut self, relocation: RelocationId) {
        self.waiting.retain(|(one, _, _)| *one != relocation);
    }

    /// When room may come next.
    pub(super) fn next_at(&self) -> Option<Duration> {
        self.flights.iter().map(|flight| flight.until).min()
    }

    /// Whether somebody waits although nothing is in flight.
    pub(super) fn is_stuck(&self) -> bool {
        self.flights.is_empty() && !self.waiting.is_empty()
    }

    /// What is left.
    pub(super) fn residents(&self) -> Vec<String> {
        let mut left = Vec::new();
        if !self.flights.is_empty() {
            left.push(format!("{} chunks in flight", self.flights.len()));
        }
        if !self.waiting.is_empty() {
            left.push(format!("{} moves that wait for the budget", self.waiting.len()));
        }
        left
    }
}
