//! Connections between hosts: two lanes each, first in first out inside one, no order between two, cut at any moment.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use spotlane_relocation::identity::ConnectionId;

use crate::random::Random;

/// A host of a world by its place, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a plain number")]
pub struct HostIndex(pub usize);

/// Two hosts, the smaller index first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair(HostIndex, HostIndex);

impl Pair {
    fn of(a: HostIndex, b: HostIndex) -> Self {
        if a < b { Self(a, b) } else { Self(b, a) }
    }
}

/// How fast a way is: the least and the greatest time of one packet, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Speed {
    low: u64,
    high: u64,
}

/// The two lanes of a connection (TR-40): an answer may overtake what was sent before it, and be overtaken by what was sent
/// behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a connection has two lanes")]
pub enum NetworkLane {
    /// Records and requests.
    Application,
    /// Their answers.
    Completion,
}

#[derive(Debug)]
struct Link {
    connection: Option<ConnectionId>,
    speed: Speed,
    last: Last,
}

/// When the last packet of a lane arrives, by direction; the next comes later.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    application: [Duration; 2],
    completion: [Duration; 2],
}

/// All connections of a world: at most one for each pair of hosts.
#[derive(Debug)]
pub struct Network {
    links: BTreeMap<Pair, Link>,
    random: Random,
    next: u64,
}

impl Network {
    /// A network without connections.
    pub fn new(random: Random) -> Self {
        Self {
            links: BTreeMap::new(),
            random,
            next: 1,
        }
    }

    /// Connects two hosts anew and says under which number. What was on the way before is lost.
    pub fn connect(&mut self, a: HostIndex, b: HostIndex) -> ConnectionId {
        let number = NonZeroU64::new(self.next).unwrap_or(NonZeroU64::MIN);
        self.next = self.next.saturating_add(1);
        let connection = ConnectionId::new(number);
        let low = self.random.between(30, 400);
        let link = self.links.entry(Pair::of(a, b)).or_insert_with(|| Link {
            connection: None,
            speed: Speed { low, high: low },
            last: Last::default(),
        });
        link.speed = Speed {
            low,
            high: low.saturating_mul(2),
        };
        link.connection = Some(connection);
        link.last = Last::default();
        connection
    }

    /// Cuts the connection of two hosts; what is on the way is lost.
    pub fn cut(&mut self, a: HostIndex, b: HostIndex) -> Option<ConnectionId> {
        self.links.get_mut(&Pair::of(a, b))?.connection.take()
    }

    /// The connection of two hosts, if there is one.
    pub fn connection(&self, a: HostIndex, b: HostIndex) -> Option<ConnectionId> {
        self.links.get(&Pair::of(a, b))?.connection
    }

    /// Makes the ways of a pair slower from now on, until they are connected anew.
    pub fn slow(&mut self, a: HostIndex, b: HostIndex, by: Duration) {
        if let Some(link) = self.links.get_mut(&Pair::of(a, b)) {
            let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
            link.speed.high = link.speed.low.saturating_add(by);
        }
    }

    /// When a packet of `bytes` bytes that leaves now arrives: behind all that left before it on its lane.
    pub fn arrival(
        &mut self,
        from: HostIndex,
        to: HostIndex,
        lane: NetworkLane,
        now: Duration,
        bytes: usize,
    ) -> Option<Duration> {
        let link = self.links.get_mut(&Pair::of(from, to))?;
        link.connection?;
        let direction = usize::from(from > to);
        let last = match lane {
            NetworkLane::Application => link.last.application.get_mut(direction)?,
            NetworkLane::Completion => link.last.completion.get_mut(direction)?,
        };
        let way = self.random.micros(link.speed.low, link.speed.high);
        // 1 GB/s on the wire.
        let wire = Duration::from_nanos(u64::try_from(bytes).unwrap_or(u64::MAX));
        let at = now.saturating_add(way).max(*last).saturating_add(wire);
        let at = at.max(last.saturating_add(Duration::from_micros(1)));
        *last = at;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: HostIndex = HostIndex(0);
    const B: HostIndex = HostIndex(1);
    const APPLICATION: NetworkLane = NetworkLane::Application;

    /// TR-40
    #[test]
    fn an_answer_overtakes_and_is_overtaken() {
        let mut network = Network::new(Random::new(3));
        network.connect(A, B);
        network.slow(A, B, Duration::from_millis(5));
        let mut seen = [0, 0];
        for millis in 0..200 {
            let now = Duration::from_millis(millis * 10);
            let mut at = |lane, now| network.arrival(A, B, lane, now, 100).unwrap();
            let answer = at(NetworkLane::Completion, now);
            let record = at(APPLICATION, now + Duration::from_micros(1));
            seen[usize::from(record < answer)] += 1;
        }
        assert!(seen.iter().all(|times| *times > 50), "{seen:?}");
    }

    #[test]
    fn packets_of_one_direction_never_overtake_each_other() {
        let mut network = Network::new(Random::new(3));
        network.connect(A, B);
        network.slow(A, B, Duration::from_millis(5));
        let mut last = Duration::ZERO;
        for millis in 0..200 {
            let now = Duration::from_micros(millis * 10);
            let at = network.arrival(A, B, APPLICATION, now, 100).unwrap();
            assert!(at > last && at > now);
            last = at;
        }
    }

    #[test]
    fn a_new_connection_has_a_new_number() {
        let mut network = Network::new(Random::new(3));
        let first = network.connect(A, B);
        assert_eq!(network.connection(B, A), Some(first));
        assert_eq!(network.cut(B, A), Some(first));
        assert_eq!(network.connection(A, B), None);
        assert_eq!(network.arrival(A, B, APPLICATION, Duration::ZERO, 1), None);
        assert_ne!(network.connect(B, A), first);
    }
}
