//! Probes and their acknowledgements (TR-82 to TR-85).

use spotlane_types::count::ProbeId;
use spotlane_types::time::Monotonic;

use crate::bound::{LIVENESS_TIMEOUT, PROBE_INTERVAL};

/// The liveness of one admitted peer on one link.
///
/// Made at admission and gone with it, so an acknowledgement that belongs to another link or another
/// run of the peer finds no outstanding id of its own here (TR-87).
#[derive(Debug)]
pub struct Liveness {
    /// The id that waits for its acknowledgement; there is one at most (TR-83).
    outstanding: Option<ProbeId>,
    next_id: ProbeId,
    next_probe: Monotonic,
    deadline: Monotonic,
}

/// What a deadline asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-82 and TR-84")]
pub enum Turn {
    /// Nothing is due yet.
    Early,
    /// Send a probe with this id.
    Probe(ProbeId),
    /// The peer has been silent for too long.
    Over,
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-84")]
pub enum Acknowledged {
    /// It was the first one of the outstanding id: the peer has 15 s again.
    Counts,
    /// It names no outstanding id and changed nothing.
    Foreign,
}

impl Liveness {
    /// Starts at admission; the first probe is due at once (TR-85). `first` is a fresh id.
    pub const fn start(now: Monotonic, first: ProbeId) -> Self {
        Self {
            outstanding: None,
            next_id: first,
            next_probe: now,
            deadline: now.after(LIVENESS_TIMEOUT),
        }
    }

    /// When to call [`Self::turn`].
    pub fn next_deadline(&self) -> Monotonic {
        self.next_probe.min(self.deadline)
    }

    /// Acts on what is due. The end comes before another probe.
    pub fn turn(&mut self, now: Monotonic) -> Turn {
        if self.deadline <= now {
            return Turn::Over;
        }
        if self.next_probe > now {
            return Turn::Early;
        }
        // Turns that a late call has missed are not caught up with.
        let due = self.next_probe.after(PROBE_INTERVAL);
        self.next_probe = if due > now {
            due
        } else {
            now.after(PROBE_INTERVAL)
        };
        let id = self.outstanding.unwrap_or_else(|| {
            let id = self.next_id;
            self.next_id = ProbeId::new(id.get().saturating_add(1)).unwrap_or(ProbeId::MIN);
            id
        });
        self.outstanding = Some(id);
        Turn::Probe(id)
    }

    /// Takes an acknowledgement.
    pub fn acknowledge(&mut self, now: Monotonic, id: ProbeId) -> Acknowledged {
        if self.outstanding != Some(id) {
            return Acknowledged::Foreign;
        }
        self.outstanding = None;
        self.deadline = now.after(LIVENESS_TIMEOUT);
        Acknowledged::Counts
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::ORIGIN.after(Duration::from_secs(seconds))
    }

    fn id(number: u64) -> ProbeId {
        ProbeId::new(number).unwrap()
    }

    fn started() -> Liveness {
        Liveness::start(at(100), id(7))
    }

    /// TR-82, TR-85
    #[test]
    fn the_first_probe_is_due_at_once_and_then_every_five_seconds() {
        let mut liveness = started();
        assert_eq!(liveness.next_deadline(), at(100));
        assert_eq!(liveness.turn(at(100)), Turn::Probe(id(7)));
        assert_eq!(liveness.turn(at(104)), Turn::Early);
        assert_eq!(liveness.acknowledge(at(104), id(7)), Acknowledged::Counts);
        assert_eq!(liveness.turn(at(105)), Turn::Probe(id(8)));
    }

    /// TR-83
    #[test]
    fn an_id_without_acknowledgement_is_sent_again() {
        let mut liveness = started();
        for second in [100, 105, 110] {
            assert_eq!(liveness.turn(at(second)), Turn::Probe(id(7)));
        }
    }

    /// TR-84
    #[test]
    fn only_the_first_matching_acknowledgement_counts() {
        let mut liveness = started();
        assert_eq!(liveness.acknowledge(at(100), id(7)), Acknowledged::Foreign);
        assert_eq!(liveness.turn(at(100)), Turn::Probe(id(7)));
        for foreign in [6, 8] {
            let acknowledged = liveness.acknowledge(at(101), id(foreign));
            assert_eq!(acknowledged, Acknowledged::Foreign);
        }
        assert_eq!(liveness.acknowledge(at(102), id(7)), Acknowledged::Counts);
        assert_eq!(liveness.acknowledge(at(110), id(7)), Acknowledged::Foreign);
        assert!(matches!(liveness.turn(at(116)), Turn::Probe(_)));
        assert_eq!(
            liveness.turn(at(117)),
            Turn::Over,
            "15 s from 102, not from 110"
        );
    }

    /// TR-84
    #[test]
    fn silence_ends_after_fifteen_seconds() {
        let mut liveness = started();
        assert!(matches!(liveness.turn(at(114)), Turn::Probe(_)));
        assert_eq!(liveness.next_deadline(), at(115));
        assert_eq!(liveness.turn(at(115)), Turn::Over);
    }

    /// TR-82: a clock that jumps gives one probe, not one for each missed turn.
    #[test]
    fn missed_turns_are_not_caught_up_with() {
        let mut liveness = started();
        assert!(matches!(liveness.turn(at(112)), Turn::Probe(_)));
        assert_eq!(liveness.turn(at(112)), Turn::Early);
        assert_eq!(liveness.turn(at(113)), Turn::Early);
    }
}
