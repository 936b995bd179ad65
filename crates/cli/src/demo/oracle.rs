//! Judges every message: lost, doubled, out of order. Pure: it is told what was sent and what was handled.
//!
//! Each sender numbers its messages to each actor from 1. The actor logs the numbers in the order of handling, and
//! the log is compared with what was sent:
//!
//! | verdict | when |
//! |---|---|
//! | lost | it was accepted, or answered, and never handled |
//! | doubled | it was handled again |
//! | out of order | one of the same sender with a higher number was handled before it, and both came the same way |
//! | ghost | it was refused and handled all the same, or nobody ever sent it |
//! | unanswered | a request that ended neither with an answer nor with an error |
//!
//! A message that a former owner passed on may change places with those that came directly, since the order of these two is
//! not defined: such a pair is counted and breaks nothing.
//!
//! A request that ended with an error may have been handled or not (EX-354); both is right, twice is not.

use std::collections::BTreeMap;

/// One stream of numbered messages: from a sender to an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stream {
    /// The sender.
    pub(crate) sender: u32,
    /// The actor.
    pub(crate) actor: u32,
}

/// The number of a message in its stream, from 1.
pub(crate) type Number = u64;

/// How a message came to its actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From its sender, perhaps with the actor when that moved.
    Direct,
    /// A former owner of the actor passed it on.
    Followed,
}

/// How a message ended for its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A one-way message was accepted.
    Accepted,
    /// A request was answered.
    Answered,
    /// It was refused before anybody could handle it.
    Refused,
    /// It ended with an error that says nothing about the handling.
    Unknown,
}

/// What is known of a message that is not settled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// Neither outcome nor handling is known.
    Sent,
    /// Handled before its sender knew the outcome.
    Handled,
    /// It must be handled.
    Due,
    /// It must not be handled.
    Refused,
    /// It may be handled.
    Maybe,
}

#[derive(Debug, Default)]
struct Book {
    /// The highest number that was sent.
    sent: Number,
    /// The highest number that was handled of those that came directly.
    direct: Number,
    /// The highest one of those that were passed on.
    followed: Number,
    /// Messages below `sent` that are not here are settled: handled once, with a known outcome.
    open: BTreeMap<Number, Entry>,
}

/// What was counted. From `lost` on all must be zero, but `overtaken`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Tally {
    /// Messages that were sent, requests included.
    pub(crate) messages: u64,
    /// Messages that were handled.
    pub(crate) handled: u64,
    /// Requests that were answered.
    pub(crate) answered: u64,
    /// Messages that were refused.
    pub(crate) refused: u64,
    /// Messages that ended with an error that says nothing about the handling.
    pub(crate) unknown: u64,
    /// Accepted or answered, and not handled.
    pub(crate) lost: u64,
    /// Handled more than once.
    pub(crate) doubled: u64,
    /// Handled after a later one of the same sender, when both came the same way.
    pub(crate) out_of_order: u64,
    /// Handled after a later one of the same sender, when a former owner passed on one of the two. Breaks nothing.
    pub(crate) overtaken: u64,
    /// Handled although nobody sent them or they were refused.
    pub(crate) ghosts: u64,
    /// Without an outcome.
    pub(crate) unanswered: u64,
    /// Ended more than once.
    pub(crate) ended_twice: u64,
    /// Actors whose total is not the sum of what they handled.
    pub(crate) wrong_totals: u64,
}

impl Tally {
    /// Whether every promise was kept.
    pub(crate) fn holds(&self) -> bool {
        self.broken() == 0
    }

    /// How many promises were broken.
    pub(crate) fn broken(&self) -> u64 {
        self.lost
            + self.doubled
            + self.out_of_order
            + self.ghosts
            + self.unanswered
            + self.ended_twice
            + self.wrong_totals
    }
}

/// Keeps the books of all streams. What is settled takes no memory.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    books: BTreeMap<Stream, Book>,
    tally: Tally,
}

impl Oracle {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The next number of a stream. Called right before the message is submitted.
    pub(crate) fn send(&mut self, stream: Stream) -> Number {
        let book = self.books.entry(stream).or_default();
        book.sent += 1;
        book.open.insert(book.sent, Entry::Sent);
        self.tally.messages += 1;
        book.sent
    }

    /// Records how a message ended for its sender.
    pub(crate) fn end(&mut self, stream: Stream, number: Number, outcome: Outcome) {
        match outcome {
            Outcome::Accepted => {}
            Outcome::Answered => self.tally.answered += 1,
            Outcome::Refused => self.tally.refused += 1,
            Outcome::Unknown => self.tally.unknown += 1,
        }
        let book = self.books.entry(stream).or_default();
        match book.open.get(&number) {
            Some(Entry::Sent) => {
                let entry = match outcome {
                    Outcome::Accepted | Outcome::Answered => Entry::Due,
                    Outcome::Refused => Entry::Refused,
                    Outcome::Unknown => Entry::Maybe,
                };
                book.open.insert(number, entry);
            }
            Some(Entry::Handled) => {
                book.open.remove(&number);
                if outcome == Outcome::Refused {
                    self.tally.ghosts += 1;
                }
            }
            Some(Entry::Due | Entry::Refused | Entry::Maybe) | None => self.tally.ended_twice += 1,
        }
    }

    /// Records that an actor handled a message: the next entry of its log.
    pub(crate) fn handle(&mut self, stream: Stream, number: Number, way: Way) {
        self.tally.handled += 1;
        let book = self.books.entry(stream).or_default();
        if number == 0 || number > book.sent {
            self.tally.ghosts += 1;
            return;
        }
        match book.open.remove(&number) {
            Some(Entry::Sent) => {
                book.open.insert(number, Entry::Handled);
            }
            Some(Entry::Due | Entry::Maybe) => {}
            Some(Entry::Refused) => self.tally.ghosts += 1,
            Some(Entry::Handled) => {
                book.open.insert(number, Entry::Handled);
                self.tally.doubled += 1;
                return;
            }
            None => {
                self.tally.doubled += 1;
                return;
            }
        }
        let (same_way, other_way) = match way {
            Way::Direct => (&mut book.direct, book.followed),
            Way::Followed => (&mut book.followed, book.direct),
        };
        if number < *same_way {
            self.tally.out_of_order += 1;
        } else if number < other_way {
            self.tally.overtaken += 1;
        }
        *same_way = number.max(*same_way);
    }

    /// Records an entry of a log that is no message of ours.
    pub(crate) fn handle_foreign(&mut self) {
        self.tally.handled += 1;
        self.tally.ghosts += 1;
    }

    /// Compares the total of an actor with the sum of what it handled.
    pub(crate) fn total(&mut self, reported: i64, handled: i64) {
        if reported != handled {
            self.tally.wrong_totals += 1;
        }
    }

    /// What is counted so far; messages under way are not judged yet.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether something that must be handled was not handled yet.
    pub(crate) fn is_due(&self) -> bool {
        let mut open = self.books.values().flat_map(|book| book.open.values());
        open.any(|entry| matches!(entry, Entry::Due | Entry::Sent))
    }

    /// The verdict, when every sender has stopped and every log was read to its end.
    pub(crate) fn finish(mut self) -> Tally {
        for entry in self.books.values().flat_map(|book| book.open.values()) {
            match entry {
                Entry::Due => self.tally.lost += 1,
                Entry::Sent | Entry::Handled => self.tally.unanswered += 1,
                Entry::Refused | Entry::Maybe => {}
            }
        }
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: Stream = Stream {
        sender: 1,
        actor: 2,
    };

    /// Sends `count` accepted messages.
    fn sent(count: u64) -> Oracle {
        let mut oracle = Oracle::new();
        for number in 1..=count {
            assert_eq!(oracle.send(STREAM), number);
            oracle.end(STREAM, number, Outcome::Accepted);
        }
        oracle
    }

    fn handled(mut oracle: Oracle, log: &[u64]) -> Tally {
        for number in log {
            oracle.handle(STREAM, *number, Way::Direct);
        }
        oracle.finish()
    }

    #[test]
    fn a_faithful_log_holds() {
        let tally = handled(sent(3), &[1, 2, 3]);
        assert!(tally.holds(), "{tally:?}");
        assert_eq!((tally.messages, tally.handled), (3, 3));
    }

    #[test]
    fn a_lost_message_is_reported() {
        let tally = handled(sent(3), &[1, 3]);
        assert_eq!(
            tally,
            Tally {
                messages: 3,
                handled: 2,
                lost: 1,
                ..Tally::default()
            }
        );
    }

    #[test]
    fn a_doubled_message_is_reported_wherever_it_comes_again() {
        for log in [[1, 1, 2, 3], [1, 2, 1, 3], [1, 2, 3, 1]] {
            let tally = handled(sent(3), &log);
            assert_eq!(
                tally,
                Tally {
                    messages: 3,
                    handled: 4,
                    doubled: 1,
                    ..Tally::default()
                }
            );
        }
    }

    #[test]
    fn swapped_messages_are_reported() {
        let tally = handled(sent(3), &[2, 1, 3]);
        assert_eq!(
            tally,
            Tally {
                messages: 3,
                handled: 3,
                out_of_order: 1,
                ..Tally::default()
            }
        );
        assert_eq!(handled(sent(3), &[3, 1, 2]).out_of_order, 2);
    }

    /// RL-150: of two ways neither is the first. What came on one of them keeps its order.
    #[test]
    fn a_message_that_was_passed_on_changes_places() {
        use Way::{Direct, Followed};
        let judged = |log: [(u64, Way); 3]| {
            let mut oracle = sent(3);
            for (number, way) in log {
                oracle.handle(STREAM, number, way);
            }
            let tally = oracle.finish();
            (tally.out_of_order, tally.overtaken)
        };
        assert_eq!(judged([(1, Followed), (2, Direct), (3, Direct)]), (0, 0));
        assert_eq!(judged([(2, Direct), (1, Followed), (3, Direct)]), (0, 1));
        assert_eq!(judged([(3, Followed), (1, Direct), (2, Direct)]), (0, 2));
        assert_eq!(judged([(3, Followed), (2, Direct), (1, Direct)]), (1, 1));
        assert_eq!(judged([(3, Direct), (2, Followed), (1, Direct)]), (1, 1));
        assert_eq!(judged([(2, Followed), (1, Followed), (3, Direct)]), (1, 0));
    }

    #[test]
    fn a_message_that_nobody_sent_is_a_ghost() {
        for log in [&[1, 2, 3, 4][..], &[1, 2, 3, 0]] {
            assert_eq!(handled(sent(3), log).ghosts, 1);
        }
        let mut oracle = sent(0);
        oracle.handle_foreign();
        assert_eq!(oracle.finish().ghosts, 1);
    }

    #[test]
    fn a_refused_message_must_not_be_handled() {
        let refuse = |oracle: &mut Oracle| oracle.end(STREAM, 1, Outcome::Refused);
        let mut oracle = Oracle::new();
        oracle.send(STREAM);
        refuse(&mut oracle);
        assert!(handled(oracle, &[]).holds());
        let mut oracle = Oracle::new();
        oracle.send(STREAM);
        refuse(&mut oracle);
        assert_eq!(handled(oracle, &[1]).ghosts, 1);
        let mut oracle = Oracle::new();
        oracle.send(STREAM);
        oracle.handle(STREAM, 1, Way::Direct);
        refuse(&mut oracle);
        assert_eq!(oracle.finish().ghosts, 1);
    }

    /// EX-354
    #[test]
    fn an_unknown_outcome_allows_one_handling_or_none() {
        let unknown = || {
            let mut oracle = Oracle::new();
            oracle.send(STREAM);
            oracle.end(STREAM, 1, Outcome::Unknown);
            oracle
        };
        assert!(handled(unknown(), &[]).holds());
        assert!(handled(unknown(), &[1]).holds());
        assert_eq!(handled(unknown(), &[1, 1]).doubled, 1);
    }

    #[test]
    fn a_request_ends_exactly_once() {
        let mut oracle = Oracle::new();
        oracle.send(STREAM);
        oracle.handle(STREAM, 1, Way::Direct);
        assert_eq!(oracle.finish().unanswered, 1);
        let mut oracle = Oracle::new();
        oracle.send(STREAM);
        oracle.end(STREAM, 1, Outcome::Answered);
        oracle.end(STREAM, 1, Outcome::Unknown);
        assert_eq!(handled(oracle, &[1]).ended_twice, 1);
    }

    #[test]
    fn a_wrong_total_is_reported() {
        let mut oracle = Oracle::new();
        oracle.total(3, 3);
        assert!(oracle.tally().holds());
        oracle.total(3, 4);
        assert_eq!(oracle.finish().wrong_totals, 1);
    }

    #[test]
    fn what_is_settled_takes_no_memory() {
        let mut oracle = sent(1_000);
        for number in 1..=1_000 {
            oracle.handle(STREAM, number, Way::Direct);
        }
        assert!(oracle.books.values().all(|book| book.open.is_empty()));
    }

    /// A log of two senders that only mixes them, keeping the order of each.
    fn faithful() -> impl Strategy<Value = Vec<(u32, u64)>> {
        proptest::collection::vec(0_u32..2, 2..40).prop_map(|senders| {
            let mut next = [0; 2];
            senders
                .into_iter()
                .map(|sender| {
                    let number = &mut next[sender as usize];
                    *number += 1;
                    (sender, *number)
                })
                .collect()
        })
    }

    fn judged(log: &[(u32, u64)], faithful: &[(u32, u64)]) -> Tally {
        let mut oracle = Oracle::new();
        let stream = |sender| Stream { sender, actor: 0 };
        for (sender, number) in faithful {
            assert_eq!(oracle.send(stream(*sender)), *number);
            oracle.end(stream(*sender), *number, Outcome::Accepted);
        }
        for (sender, number) in log {
            oracle.handle(stream(*sender), *number, Way::Direct);
        }
        oracle.finish()
    }

    proptest! {
        #[test]
        fn every_planted_defect_is_found_and_nothing_else(log in faithful(), at in any::<prop::sample::Index>()) {
            let at = at.index(log.len());
            prop_assert!(judged(&log, &log).holds());

            let mut lost = log.clone();
            lost.remove(at);
            let expected = Tally { lost: 1, ..judged(&log, &log) };
            prop_assert_eq!(judged(&lost, &log), Tally { handled: expected.handled - 1, ..expected });

            let mut doubled = log.clone();
            doubled.push(log[at]);
            let found = judged(&doubled, &log);
            prop_assert_eq!((found.doubled, found.broken()), (1, 1));

            let later = (at + 1..log.len()).find(|later| log[*later].0 == log[at].0);
            if let Some(later) = later {
                let mut swapped = log.clone();
                swapped.swap(at, later);
                let found = judged(&swapped, &log);
                prop_assert_eq!((found.out_of_order, found.broken()), (1, 1));
            }
        }
    }
}
