//! What a run has shown, as a table and as JSON.

use serde::Serialize;

use crate::client::{Table, grouped};

use super::clients::Clients;
use super::oracle::Tally;
use super::spread::{Summary, millis};
use super::troubles::Troubles;

/// The row of the requests whose actor was on its way.
const CROSSING: &str = "request across a move";

/// The result of a demo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    /// Whether every promise was kept.
    pub(crate) holds: bool,
    /// How long traffic flowed.
    pub(crate) seconds: u64,
    /// The store.
    pub(crate) store: &'static str,
    /// The choices.
    pub(crate) seed: u64,
    /// Moves.
    pub(crate) moves: Moves,
    /// Clients.
    pub(crate) clients: Clients,
    /// Messages.
    pub(crate) messages: Tally,
    /// Payload bytes that were sent.
    pub(crate) payload_bytes: u64,
    /// State bytes that moved.
    pub(crate) state_bytes: u64,
    /// From stopping source dispatch to opening target dispatch.
    pub(crate) interruption: Summary,
    /// From submitting a request to its answer.
    pub(crate) latency: Summary,
    /// The same for requests whose actor was on its way meanwhile.
    pub(crate) crossing: Summary,
    /// What was asked of a run with clients.
    pub(crate) bounds: Bounds,
    /// Errors that callers met, with their number.
    pub(crate) troubles: Troubles,
}

/// Moves by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Moves {
    /// Asked for.
    pub(crate) asked: u64,
    /// Ended with the new owner.
    pub(crate) completed: u64,
    /// Refused or failed; the actor went on where it was.
    pub(crate) failed: u64,
    /// Moves of the actor that moved least.
    pub(crate) fewest: u64,
}

/// What a run with clients has to show besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Bounds {
    /// Moves of every actor, at least.
    pub(crate) rounds: u64,
    /// What 99 of 100 requests across a move may take; 0 when nothing is asked.
    pub(crate) crossing_us: u64,
}

impl Bounds {
    fn all_moved(&self, moves: &Moves) -> bool {
        moves.fewest >= self.rounds
    }

    fn fast(&self, crossing: &Summary) -> bool {
        self.crossing_us == 0 || crossing.count > 0 && crossing.p99_us < self.crossing_us
    }
}

/// Whether every promise was kept, and the run has shown it: moves that were asked for happened, and somebody saw how long
/// they took.
pub(crate) fn holds(
    messages: &Tally,
    clients: &Clients,
    moves: &Moves,
    interruption: &Summary,
    crossing: &Summary,
    bounds: &Bounds,
) -> bool {
    let happened = moves.asked == 0 || moves.completed > 0;
    let measured = moves.completed == 0 || interruption.count > 0;
    let as_bound = bounds.all_moved(moves) && bounds.fast(crossing);
    messages.holds() && clients.closed == 0 && happened && measured && as_bound
}

impl Verdict {
    /// The table.
    pub(crate) fn table(&self) -> String {
        let tally = &self.messages;
        let moves = &self.moves;
        let mut table = Table::new();
        let mut row = |name: &str, value: &str, remark: &str| {
            table.row([name, value, remark]);
        };
        row(
            "moves",
            &grouped(moves.completed),
            &count(moves.failed, "failed"),
        );
        row(
            "messages",
            &grouped(tally.messages),
            &count(tally.unknown, "ended without a known result"),
        );
        if self.clients.connected > 0 {
            let pushes = count(self.clients.moved_pushes, "pushes told of a move");
            row("clients", &grouped(self.clients.connected), &pushes);
            row(
                "connections closed",
                &grouped(self.clients.closed),
                bad(self.clients.closed),
            );
            row(
                "fewest moves of an actor",
                &grouped(moves.fewest),
                &if self.bounds.all_moved(moves) {
                    String::new()
                } else {
                    format!("<- must be at least {}", self.bounds.rounds)
                },
            );
        }
        row("lost", &grouped(tally.lost), bad(tally.lost));
        row("doubled", &grouped(tally.doubled), bad(tally.doubled));
        row("out of order", &grouped(tally.out_of_order), &order(tally));
        row("ghosts", &grouped(tally.ghosts), bad(tally.ghosts));
        let twice = tally.unanswered + tally.ended_twice;
        row(
            "requests without exactly one end",
            &grouped(twice),
            bad(twice),
        );
        row(
            "wrong totals",
            &grouped(tally.wrong_totals),
            bad(tally.wrong_totals),
        );
        self.times(&mut row);
        row("payload bytes", &grouped(self.payload_bytes), "");
        row("state bytes moved", &grouped(self.state_bytes), "");
        let troubles = self.trouble_lines();
        let word = if self.holds {
            "every promise was kept"
        } else {
            "A PROMISE BROKE"
        };
        format!(
            "{table}{troubles}\n{word} (seed {}, store {})\n",
            self.seed, self.store
        )
    }

    /// How long it took, in three rows for each kind.
    fn times(&self, row: &mut impl FnMut(&str, &str, &str)) {
        for (name, summary) in [
            ("interruption", &self.interruption),
            ("request", &self.latency),
            (CROSSING, &self.crossing),
        ] {
            let measured = count(summary.count, "measured");
            let slow = match name {
                CROSSING if !self.bounds.fast(summary) => {
                    format!("<- must be below {}", millis(self.bounds.crossing_us))
                }
                _ => String::new(),
            };
            row(&format!("{name} p50"), &millis(summary.p50_us), &measured);
            row(&format!("{name} p99"), &millis(summary.p99_us), &slow);
            row(&format!("{name} max"), &millis(summary.max_us), "");
        }
    }
}

impl Verdict {
    fn trouble_lines(&self) -> String {
        let lines: String = self.troubles.lines().collect();
        if lines.is_empty() {
            lines
        } else {
            format!("\nerrors that callers met\n{lines}")
        }
    }
}

fn count(number: u64, word: &str) -> String {
    if number == 0 {
        String::new()
    } else {
        format!("{} {word}", grouped(number))
    }
}

fn order(tally: &Tally) -> String {
    match tally.out_of_order {
        0 => count(tally.overtaken, "changed places on two ways"),
        broken => bad(broken).to_owned(),
    }
}

fn bad(number: u64) -> &'static str {
    if number == 0 { "" } else { "<- must be 0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(messages: Tally) -> Verdict {
        Verdict {
            holds: messages.holds(),
            seconds: 1,
            store: "memory",
            seed: 1,
            moves: Moves {
                asked: 7,
                completed: 7,
                failed: 0,
                fewest: 0,
            },
            clients: Clients::default(),
            messages,
            payload_bytes: 64,
            state_bytes: 1_024,
            interruption: Summary {
                count: 7,
                p50_us: 1_000,
                p99_us: 2_000,
                max_us: 3_000,
            },
            latency: Summary::default(),
            crossing: Summary::default(),
            bounds: Bounds::default(),
            troubles: Troubles::default(),
        }
    }

    #[test]
    fn a_kept_promise_is_said_in_words() {
        let text = verdict(Tally::default()).table();
        assert!(text.contains("every promise was kept"), "{text}");
        assert!(!text.contains("must be 0"), "{text}");
    }

    #[test]
    fn moves_that_nobody_measured_prove_nothing() {
        let judged = |moves: &Moves, interruption: &Summary| {
            let (messages, clients) = (Tally::default(), Clients::default());
            let (crossing, bounds) = (Summary::default(), Bounds::default());
            holds(&messages, &clients, moves, interruption, &crossing, &bounds)
        };
        let seen = Summary {
            count: 1,
            ..Summary::default()
        };
        let moves = Moves {
            asked: 7,
            completed: 7,
            ..Moves::default()
        };
        assert!(judged(&moves, &seen));
        assert!(!judged(&moves, &Summary::default()));
        let none = Moves {
            asked: 7,
            failed: 7,
            ..Moves::default()
        };
        assert!(!judged(&none, &seen));
        assert!(judged(&Moves::default(), &Summary::default()));
    }

    #[test]
    fn with_clients_every_actor_moves_and_requests_across_moves_are_fast() {
        let bounds = Bounds {
            rounds: 2,
            crossing_us: 50_000,
        };
        let moves = Moves {
            asked: 4,
            completed: 4,
            failed: 0,
            fewest: 2,
        };
        let crossing = Summary {
            count: 4,
            p99_us: 49_999,
            ..Summary::default()
        };
        let judged = |closed: u64, fewest: u64, p99_us: u64, count: u64| {
            let clients = Clients {
                connected: 2,
                closed,
                moved_pushes: 4,
            };
            let mut verdict = verdict(Tally::default());
            verdict.clients = clients;
            verdict.moves = Moves { fewest, ..moves };
            verdict.crossing = Summary {
                count,
                p99_us,
                ..crossing
            };
            verdict.bounds = bounds;
            let (messages, interruption) = (verdict.messages, verdict.interruption);
            let (moves, crossing) = (&verdict.moves, &verdict.crossing);
            let holds = holds(&messages, &clients, moves, &interruption, crossing, &bounds);
            (holds, verdict.table().matches("<- must be").count())
        };
        assert_eq!(judged(0, 2, 49_999, 4), (true, 0));
        assert_eq!(judged(1, 2, 49_999, 4), (false, 1));
        assert_eq!(judged(0, 1, 49_999, 4), (false, 1));
        assert_eq!(judged(0, 2, 50_000, 4), (false, 1));
        assert_eq!(judged(0, 2, 0, 0), (false, 1));
    }

    #[test]
    fn every_broken_promise_has_its_mark() {
        let one = Tally::default();
        for broken in [
            Tally { lost: 1, ..one },
            Tally { doubled: 1, ..one },
            Tally {
                out_of_order: 1,
                ..one
            },
            Tally { ghosts: 1, ..one },
            Tally {
                unanswered: 1,
                ..one
            },
            Tally {
                ended_twice: 1,
                ..one
            },
            Tally {
                wrong_totals: 1,
                ..one
            },
        ] {
            let verdict = verdict(broken);
            let text = verdict.table();
            assert!(!verdict.holds && text.contains("A PROMISE BROKE"), "{text}");
            assert_eq!(text.matches("must be 0").count(), 1, "{text}");
        }
    }
}
