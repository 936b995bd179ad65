//! Which session a binding number belongs to: a push names nothing else (SB-38).

use std::collections::{BTreeSet, HashMap};

use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::SessionRid;

/// The binding numbers of a session owner that are in use.
///
/// An entry lives from the request for its binding to the end of the binding, and never longer than its session, so that
/// their number is bounded by what the sessions of the host have bound.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    sessions: HashMap<u64, SessionRid>,
    of_session: BTreeSet<(SessionRid, u64)>,
}

impl Numbers {
    /// A bind is about to be asked for.
    pub(super) fn add(&mut self, session: SessionRid, generation: BindingGeneration) {
        let number = generation.get();
        self.of_session.insert((session.clone(), number));
        self.sessions.insert(number, session);
    }

    /// The binding has ended, or was not made.
    pub(super) fn remove(&mut self, generation: BindingGeneration) {
        let number = generation.get();
        if let Some(session) = self.sessions.remove(&number) {
            self.of_session.remove(&(session, number));
        }
    }

    /// The session has ended.
    pub(super) fn remove_session(&mut self, session: &SessionRid) {
        let all = (session.clone(), 0)..=(session.clone(), u64::MAX);
        let numbers: Vec<u64> = self.of_session.range(all).map(|(_, n)| *n).collect();
        for number in numbers {
            self.sessions.remove(&number);
            self.of_session.remove(&(session.clone(), number));
        }
    }

    /// The session that a binding number belongs to.
    pub(super) fn session(&self, generation: BindingGeneration) -> Option<&SessionRid> {
        self.sessions.get(&generation.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u64) -> BindingGeneration {
        BindingGeneration::new(number).unwrap()
    }

    /// SB-38
    #[test]
    fn a_number_is_known_until_its_binding_or_its_session_ends() {
        let [one, two] = [b"a", b"b"].map(|rid| SessionRid::new(rid).unwrap());
        let mut numbers = Numbers::default();
        for (session, generation) in [(&one, 1), (&two, 2), (&one, 3), (&one, 4)] {
            numbers.add(session.clone(), number(generation));
        }
        assert_eq!(numbers.session(number(2)), Some(&two));
        numbers.remove(number(3));
        assert_eq!(numbers.session(number(3)), None);
        numbers.remove_session(&one);
        assert_eq!(numbers.session(number(1)), None);
        assert_eq!(numbers.session(number(2)), Some(&two));
        numbers.remove(number(2));
        assert!(numbers.sessions.is_empty() && numbers.of_session.is_empty());
    }
}
