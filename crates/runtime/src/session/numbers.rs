//! Which session a binding number belongs to: a push names nothing else (SB-38).

use std::collections::{BTreeSet, HashMap};

use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::{ActorId, SessionRid};

/// The binding numbers of a session owner that are in use.
///
/// An entry lives from the request for its binding to the end of the binding, and never longer than its session, so that
/// their number is bounded by what the sessions of the host have bound.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    sessions: HashMap<u64, (SessionRid, ActorId)>,
    of_session: BTreeSet<(SessionRid, u64)>,
}

impl Numbers {
    /// A bind is about to be asked for.
    pub(super) fn add(
        &mut self,
        session: SessionRid,
        actor: ActorId,
        generation: BindingGeneration,
    ) {
        let number = generation.get();
        self.of_session.insert((session.clone(), number));
        self.sessions.insert(number, (session, actor));
    }

    /// The binding was made: what the session had bound of the Actor before has ended (SB-50).
    pub(super) fn made(&mut self, generation: BindingGeneration) {
        let Some((session, actor)) = self.sessions.get(&generation.get()).cloned() else {
            return;
        };
        let before = (session.clone(), 0)..(session.clone(), generation.get());
        let before = self.of_session.range(before).map(|(_, number)| *number);
        let of_actor = |number: &u64| {
            let found = self.sessions.get(number);
            found.is_some_and(|(_, known)| *known == actor)
        };
        let before: Vec<u64> = before.filter(of_actor).collect();
        for number in before {
            self.sessions.remove(&number);
            self.of_session.remove(&(session.clone(), number));
        }
    }

    /// The binding has ended, or was not made.
    pub(super) fn remove(&mut self, generation: BindingGeneration) {
        let number = generation.get();
        if let Some((session, _)) = self.sessions.remove(&number) {
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

    /// How many are in use.
    pub(super) fn len(&self) -> usize {
        self.sessions.len().max(self.of_session.len())
    }

    /// The session that a binding number belongs to.
    pub(super) fn session(&self, generation: BindingGeneration) -> Option<&SessionRid> {
        let (session, _) = self.sessions.get(&generation.get())?;
        Some(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u64) -> BindingGeneration {
        BindingGeneration::new(number).unwrap()
    }

    fn actor(number: u64) -> ActorId {
        format!("actor-{number}").parse().unwrap()
    }

    /// SB-50, SB-58: a session that binds one incarnation after the other keeps the number of the last one
    #[test]
    fn a_binding_ends_the_number_of_the_one_before() {
        let [one, two] = [b"a", b"b"].map(|rid| SessionRid::new(rid).unwrap());
        let mut numbers = Numbers::default();
        for generation in 1..100 {
            numbers.add(one.clone(), actor(7), number(generation * 3));
            numbers.add(one.clone(), actor(8), number(generation * 3 + 1));
            numbers.add(two.clone(), actor(7), number(generation * 3 + 2));
            numbers.made(number(generation * 3));
        }
        assert_eq!(numbers.len(), 1 + 99 + 99);
        assert_eq!(numbers.session(number(297)), Some(&one));
        assert_eq!(numbers.session(number(294)), None);
        // One that was taken back ends nothing.
        numbers.add(one.clone(), actor(7), number(400));
        numbers.remove(number(400));
        numbers.made(number(400));
        assert_eq!(numbers.session(number(297)), Some(&one));
    }

    /// SB-38
    #[test]
    fn a_number_is_known_until_its_binding_or_its_session_ends() {
        let [one, two] = [b"a", b"b"].map(|rid| SessionRid::new(rid).unwrap());
        let mut numbers = Numbers::default();
        for (session, generation) in [(&one, 1), (&two, 2), (&one, 3), (&one, 4)] {
            numbers.add(session.clone(), actor(generation), number(generation));
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
