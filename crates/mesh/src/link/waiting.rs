//! Who waits for a reply, and the replies that nobody has taken yet.
//!
//! A place in one table instead of a channel for each request: its memory is used again, and what a
//! caller looks at lies beside what its neighbours look at.

use std::mem;
use std::task::Waker;

use spotlane_mesh_proto::link::Outcome;
use spotlane_mesh_proto::pending::Window;
use spotlane_mesh_proto::zmp::Sequence;
use spotlane_wire::command::reply::Reply;

/// The table of one link, by the sequence of the request. It lies under the lock of the machine, so it wakes
/// nobody itself (EX-275): wakers come out of it and are used when the lock is gone.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    places: Window<Place>,
    /// What ended and was not taken yet, apart from the places: an end is many times as large as a waker, and so it is moved
    /// in once and out once.
    ends: Vec<Option<End>>,
    /// The places in `ends` that hold nothing. There are never more than requests that were open at once.
    free: Vec<usize>,
}

/// How a request ended.
#[derive(Debug)]
pub(super) enum End {
    /// The peer answered.
    Reply(Reply),
    /// Anything else.
    Other(Outcome),
}

/// What a caller sees.
#[derive(Debug)]
pub(super) enum Seen {
    /// How its request ended; `None` when it has taken that before.
    Ended(Option<End>),
    /// Nothing yet; with a waker that is not needed any more.
    Open(Option<Waker>),
}

#[derive(Debug)]
enum Place {
    /// Its caller may have come to look already.
    Open(Option<Waker>),
    /// Its end lies there.
    Ended(usize),
}

impl Waiting {
    /// A place for the next request, whose sequence this gives; with its caller, if that waits already.
    pub(super) fn open(&mut self, here: Option<Waker>) -> Sequence {
        self.places.push(Place::Open(here))
    }

    /// Ends a request and gives whom to wake: its caller goes on in a turn of its own (EX-275). A caller that
    /// went away has given the request up, and has no place any more.
    pub(super) fn end(&mut self, sequence: Sequence, end: End) -> Option<Waker> {
        match self.places.get_mut(sequence) {
            Some(place @ Place::Open(_)) => {
                let at = self.free.pop().unwrap_or(self.ends.len());
                match self.ends.get_mut(at) {
                    Some(free) => *free = Some(end),
                    None => self.ends.push(Some(end)),
                }
                match mem::replace(place, Place::Ended(at)) {
                    Place::Open(waker) => waker,
                    Place::Ended(_) => None,
                }
            }
            // EX-270: what ended it first is what the caller gets.
            Some(Place::Ended(_)) | None => None,
        }
    }

    /// Looks whether a request has ended, and takes its end.
    pub(super) fn see(&mut self, sequence: Sequence, here: &Waker) -> Seen {
        match self.places.get_mut(sequence) {
            Some(Place::Open(Some(waker))) if waker.will_wake(here) => Seen::Open(None),
            Some(Place::Open(waker)) => Seen::Open(waker.replace(here.clone())),
            Some(Place::Ended(at)) => {
                let at = *at;
                self.places.take(sequence);
                Seen::Ended(self.take(at))
            }
            None => Seen::Ended(None),
        }
    }

    fn take(&mut self, at: usize) -> Option<End> {
        self.free.push(at);
        self.ends.get_mut(at).and_then(Option::take)
    }

    /// The caller is gone. What it leaves is to be dropped when no lock is held.
    pub(super) fn close(&mut self, sequence: Sequence) -> (Option<Waker>, Option<End>) {
        match self.places.take(sequence) {
            Some(Place::Open(waker)) => (waker, None),
            Some(Place::Ended(at)) => (None, self.take(at)),
            None => (None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    struct Silent;

    impl Wake for Silent {
        fn wake(self: Arc<Self>) {}
    }

    fn is(seen: Seen, outcome: &Outcome) -> bool {
        matches!(seen, Seen::Ended(Some(End::Other(it))) if it == *outcome)
    }

    /// EX-270, EX-275: the first end is the one that the caller gets, and it is woken once for it.
    #[test]
    fn the_first_end_wakes_the_caller_and_is_what_it_gets() {
        let mut waiting = Waiting::default();
        let here = Waker::from(Arc::new(Silent));
        let (first, second) = (waiting.open(None), waiting.open(None));
        assert!(matches!(waiting.see(first, &here), Seen::Open(None)));
        assert!(matches!(waiting.see(first, &here), Seen::Open(None)));
        // Of the second one nobody has come to see.
        let woken = waiting.end(second, End::Other(Outcome::TimedOut));
        assert!(woken.is_none());
        let woken = waiting.end(first, End::Other(Outcome::BrokenReply));
        assert!(woken.is_some_and(|woken| woken.will_wake(&here)));
        let woken = waiting.end(first, End::Other(Outcome::LinkEnded));
        assert!(woken.is_none());
        assert!(is(waiting.see(second, &here), &Outcome::TimedOut));
        assert!(is(waiting.see(first, &here), &Outcome::BrokenReply));
        assert!(matches!(waiting.see(first, &here), Seen::Ended(None)));
    }

    /// The task that looked last is the one that is woken.
    #[test]
    fn a_request_that_moves_to_another_task_wakes_that_one() {
        let mut waiting = Waiting::default();
        let (old, new) = (Waker::from(Arc::new(Silent)), Waker::from(Arc::new(Silent)));
        let moves = waiting.open(None);
        assert!(matches!(waiting.see(moves, &old), Seen::Open(None)));
        let Seen::Open(Some(left)) = waiting.see(moves, &new) else {
            panic!("the old waker comes back");
        };
        assert!(left.will_wake(&old));
        let woken = waiting.end(moves, End::Other(Outcome::TimedOut));
        assert!(woken.is_some_and(|woken| woken.will_wake(&new)));
    }

    /// A caller that went away leaves nothing, and an end that comes later changes nothing.
    #[test]
    fn a_caller_that_went_away_leaves_no_place() {
        let mut waiting = Waiting::default();
        let gone = waiting.open(None);
        assert!(matches!(waiting.close(gone), (None, None)));
        let woken = waiting.end(gone, End::Other(Outcome::TimedOut));
        assert!(woken.is_none() && waiting.places.is_empty());
        // Nor does one that went away when its request had ended, and the memory of that end is used again.
        for _ in 0..3 {
            let gone = waiting.open(None);
            waiting.end(gone, End::Other(Outcome::TimedOut));
            assert!(waiting.close(gone).1.is_some());
            assert_eq!((waiting.ends.len(), waiting.free.len()), (1, 1));
        }
        assert!(waiting.places.is_empty());
    }
}
