//! What is known of sessions, of their bindings and of pushes.

use std::collections::{BTreeMap, BTreeSet};

use spotlane_types::generation::AuthorityOwnerGeneration;

use crate::network::HostIndex;
use crate::observation::{
    ActorIndex, BindingNumber, Ending, Observation, PushId, SessionIndex, SessionSight, Work,
};

/// Everything known about one session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionFacts {
    /// Its owner.
    pub at: HostIndex,
    /// How its connection ended.
    pub ending: Option<Ending>,
    /// What is bound to it, in which tenure.
    pub bound: BTreeMap<ActorIndex, (BindingNumber, AuthorityOwnerGeneration)>,
    /// What was bound to it when its connection ended (SB-60).
    pub snapshot: Vec<(ActorIndex, BindingNumber)>,
}

/// Everything known about one binding.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BindingFacts {
    /// The session that asked for it.
    pub session: SessionIndex,
    /// Whether the Actor's owner has registered it.
    pub registered: bool,
    /// Whether another one has taken its place.
    pub replaced: bool,
    /// How often its disconnect callback began.
    pub callbacks: u32,
}

/// A push on its way.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PushFacts {
    /// From which Actor.
    pub actor: ActorIndex,
    /// To which binding.
    pub binding: BindingNumber,
    /// In which tenure.
    pub tenure: AuthorityOwnerGeneration,
}

/// The book of sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionBook {
    sessions: BTreeMap<SessionIndex, SessionFacts>,
    bindings: BTreeMap<BindingNumber, BindingFacts>,
    /// The binding in force at the owner of each Actor, and that owner.
    current: BTreeMap<ActorIndex, (BindingNumber, HostIndex)>,
    /// The binding that was registered last for each Actor.
    last: BTreeMap<ActorIndex, BindingNumber>,
    pushes: BTreeMap<PushId, PushFacts>,
    delivered: BTreeSet<PushId>,
    held: u64,
    replaced: u64,
}

impl SessionBook {
    /// Takes one observation.
    pub fn observe(&mut self, seen: &Observation) {
        match seen {
            Observation::Session(sight) => {
                self.observe_owner(sight);
                self.observe_session(sight);
            }
            Observation::Started {
                work: Work::Disconnected(binding),
                ..
            } => {
                if let Some(facts) = self.bindings.get_mut(binding) {
                    facts.callbacks = facts.callbacks.saturating_add(1);
                }
            }
            _ => {}
        }
    }

    /// What the owners of Actors did.
    fn observe_owner(&mut self, sight: &SessionSight) {
        match sight {
            SessionSight::Registered { actor, at, binding } => {
                if let Some(before) = self.last.insert(*actor, *binding)
                    && let Some(facts) = self.bindings.get_mut(&before)
                {
                    facts.replaced = true;
                }
                if let Some(facts) = self.bindings.get_mut(binding) {
                    facts.registered = true;
                }
                self.current.insert(*actor, (*binding, *at));
            }
            SessionSight::Carried {
                actor, at, binding, ..
            } => {
                self.current.insert(*actor, (*binding, *at));
            }
            // At a former owner it ends too, when its end comes there (SB-65).
            SessionSight::Retired { actor, at, binding }
                if self.current.get(actor) == Some(&(*binding, *at)) =>
            {
                self.current.remove(actor);
            }
            SessionSight::Pushed {
                push,
                actor,
                binding,
                tenure,
                ..
            } => {
                let facts = PushFacts {
                    actor: *actor,
                    binding: *binding,
                    tenure: *tenure,
                };
                self.pushes.insert(*push, facts);
            }
            _ => {}
        }
    }

    /// What the owners of sessions did.
    fn observe_session(&mut self, sight: &SessionSight) {
        match sight {
            SessionSight::Opened { session, at, .. } => {
                let facts = SessionFacts {
                    at: *at,
                    ending: None,
                    bound: BTreeMap::new(),
                    snapshot: Vec::new(),
                };
                self.sessions.insert(*session, facts);
            }
            SessionSight::BindAsked {
                session, binding, ..
            } => {
                let facts = BindingFacts {
                    session: *session,
                    registered: false,
                    replaced: false,
                    callbacks: 0,
                };
                self.bindings.insert(*binding, facts);
            }
            SessionSight::Bound {
                session,
                actor,
                binding,
                tenure,
            } => {
                if let Some(facts) = self.sessions.get_mut(session) {
                    facts.bound.insert(*actor, (*binding, *tenure));
                }
            }
            SessionSight::Rerouted {
                session,
                actor,
                tenure,
            } => {
                let facts = self.sessions.get_mut(session);
                if let Some((_, old)) = facts.and_then(|facts| facts.bound.get_mut(actor)) {
                    *old = *tenure;
                }
            }
            SessionSight::Unbound { session, actor, .. } => {
                if let Some(facts) = self.sessions.get_mut(session) {
                    facts.bound.remove(actor);
                }
            }
            SessionSight::Closed { session, ending } => {
                if let Some(facts) = self.sessions.get_mut(session) {
                    facts.ending = Some(*ending);
                    let bound = facts.bound.iter();
                    facts.snapshot = bound
                        .map(|(actor, (binding, _))| (*actor, *binding))
                        .collect();
                }
            }
            SessionSight::Held { .. } => self.held = self.held.saturating_add(1),
            SessionSight::ReplacedBegins { .. } => {
                self.replaced = self.replaced.saturating_add(1);
            }
            SessionSight::Delivered { push, .. } => {
                self.delivered.insert(*push);
            }
            _ => {}
        }
    }

    /// The facts about a session.
    pub fn session(&self, session: SessionIndex) -> Option<&SessionFacts> {
        self.sessions.get(&session)
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionIndex, &SessionFacts)> {
        self.sessions.iter().map(|(id, facts)| (*id, facts))
    }

    /// The facts about a binding.
    pub fn binding(&self, binding: BindingNumber) -> Option<&BindingFacts> {
        self.bindings.get(&binding)
    }

    /// The binding in force at the owner of an Actor.
    pub fn current(&self, actor: ActorIndex) -> Option<BindingNumber> {
        self.current.get(&actor).map(|(binding, _)| *binding)
    }

    /// The facts about a push.
    pub fn push(&self, push: PushId) -> Option<&PushFacts> {
        self.pushes.get(&push)
    }

    /// How many messages a session held.
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// How many sessions were replaced.
    pub const fn replaced(&self) -> u64 {
        self.replaced
    }

    /// How many pushes were made, and how many have reached a client.
    pub fn pushes(&self) -> (usize, usize) {
        (self.pushes.len(), self.delivered.len())
    }
}
