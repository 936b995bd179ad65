//! Message Follow at a previous owner: where what still comes to the old address goes (RL-150 to RL-158).
//!
//! The registry keeps one committed route per object. It reads no store and runs no handler; a message is
//! forwarded unchanged, or refused for one of a few reasons. Its volume has no cap (R§10).

use std::collections::BTreeMap;

use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::bound::MESSAGE_FOLLOW_HOP_COUNT;
use spotlane_types::count::HopCount;
use spotlane_types::generation::{
    AuthorityOwnerGeneration, NodeGeneration, ObjectGeneration, OwnerLeaseGeneration,
};
use spotlane_types::id::NodeRid;
use spotlane_types::kind::{FailureCode, TerminalResult};
use spotlane_types::time::Monotonic;
use spotlane_wire::command::follow::FollowRoute;
use spotlane_wire::reference::{ActorRouteFence, SpotRouteFence};
use thiserror::Error;

use crate::identity::AuthorityView;
use crate::notice::NoticeRegistry;

/// The parts that the routes of Actors and Spots have in common: one tenure (RL-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tenure<'a> {
    object_generation: ObjectGeneration,
    node_rid: &'a NodeRid,
    node_generation: NodeGeneration,
    authority_owner_generation: AuthorityOwnerGeneration,
    owner_lease_generation: OwnerLeaseGeneration,
}

pub(crate) fn tenure(route: &FollowRoute) -> Tenure<'_> {
    match route {
        FollowRoute::Actor { actor } => Tenure {
            object_generation: actor.actor.object_generation,
            node_rid: &actor.target_node_rid,
            node_generation: actor.target_node_generation,
            authority_owner_generation: actor.expected_authority_owner_generation,
            owner_lease_generation: actor.expected_owner_lease_generation,
        },
        FollowRoute::Spot { spot } => Tenure {
            object_generation: spot.spot.object_generation,
            node_rid: &spot.target_node_rid,
            node_generation: spot.target_node_generation,
            authority_owner_generation: spot.expected_authority_owner_generation,
            owner_lease_generation: spot.expected_owner_lease_generation,
        },
    }
}

/// Whether a tenure of an incarnation began after another one of it.
fn begins_after(one: &FollowRoute, other: &FollowRoute) -> bool {
    let (one, other) = (tenure(one), tenure(other));
    one.object_generation == other.object_generation
        && one
            .authority_owner_generation
            .is_after(other.authority_owner_generation)
}

/// The object of a route.
pub(crate) fn object_of(route: &FollowRoute) -> AuthorityKey {
    match route {
        FollowRoute::Actor { actor } => AuthorityKey::Actor(actor.actor.actor_id.clone()),
        FollowRoute::Spot { spot } => AuthorityKey::Spot(spot.spot.spot_id.clone()),
    }
}

/// The route to the owner of a row, for the object of `source`.
pub fn route_to(source: &FollowRoute, row: &AuthorityView) -> FollowRoute {
    let owner = &row.owner;
    match source {
        FollowRoute::Actor { actor } => FollowRoute::Actor {
            actor: ActorRouteFence {
                actor: actor.actor.clone(),
                target_node_rid: owner.node_rid.clone(),
                target_node_generation: owner.node_generation,
                expected_authority_owner_generation: row.authority_owner_generation,
                expected_owner_lease_generation: owner.owner_lease_generation,
            },
        },
        FollowRoute::Spot { spot } => FollowRoute::Spot {
            spot: SpotRouteFence {
                spot: spot.spot.clone(),
                target_node_rid: owner.node_rid.clone(),
                target_node_generation: owner.node_generation,
                expected_authority_owner_generation: row.authority_owner_generation,
                expected_owner_lease_generation: owner.owner_lease_generation,
            },
        },
    }
}

/// A route from a tenure that has ended here to the one that ended it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the three parts of RL-151")]
pub struct RetainedRoute {
    /// The tenure here.
    pub source: FollowRoute,
    /// The tenure there.
    pub target: FollowRoute,
    /// When the route ends. Nothing moves it (RL-150).
    pub until: Monotonic,
}

/// One allowed hop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what the forwarder needs")]
pub struct Hop {
    /// The tenure here, for the notice.
    pub source: FollowRoute,
    /// Where the message goes.
    pub target: FollowRoute,
    /// How often it was forwarded, this hop included.
    pub hops: HopCount,
    /// The latest end of the relay window of this hop (RL-155).
    pub until: Monotonic,
}

/// Why a message is not forwarded (RL-153, RL-154).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-153")]
pub enum FollowRefusal {
    /// There is no route for the object.
    #[error("no route follows this object")]
    NoRoute,
    /// The route has ended.
    #[error("the route has expired")]
    Expired,
    /// The message was addressed to the tenure that the route leads to, or a later one: a loop.
    #[error("the route does not lead to a later owner")]
    NotRising,
    /// The message was forwarded too often.
    #[error("the message was forwarded 8 times")]
    TooManyHops,
    /// The message was addressed to another run of this node, or another lease.
    #[error("the message names another owner")]
    OtherOwner,
    /// The message was addressed to another incarnation.
    #[error("the message names another incarnation")]
    OtherGeneration,
}

impl FollowRefusal {
    /// The internal name of a reject, if it has one.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::NotRising => Some("targetAlreadyVisited"),
            Self::TooManyHops => Some("budgetExhausted"),
            Self::Expired => Some("expired"),
            Self::NoRoute | Self::OtherOwner | Self::OtherGeneration => None,
        }
    }

    /// What a refused request is answered with: `Unavailable`, or `InvalidOperation` for another
    /// incarnation (RL-153).
    pub const fn terminal(self) -> (TerminalResult, FailureCode) {
        match self {
            Self::OtherGeneration => (TerminalResult::Conflict, FailureCode::SpotGenerationStale),
            Self::NoRoute
            | Self::Expired
            | Self::NotRising
            | Self::TooManyHops
            | Self::OtherOwner => (
                TerminalResult::InternalError,
                FailureCode::RouteNotConnected,
            ),
        }
    }
}

/// The follow routes of a node, and the notices about them.
#[derive(Debug, Default)]
pub struct FollowRegistry {
    routes: BTreeMap<AuthorityKey, RetainedRoute>,
    notices: NoticeRegistry,
}

impl FollowRegistry {
    /// Keeps a committed route; an earlier one of the same object is replaced, its notices with it.
    ///
    /// A commit that is seen late changes nothing when a later tenure has ended here since. The routes of a
    /// `SpotWide` unit are given in one span, Spot and members (RL-158).
    pub fn retain(&mut self, route: RetainedRoute) {
        let later = self.routes.get(&object_of(&route.source));
        if later.is_some_and(|later| begins_after(&later.source, &route.source)) {
            return;
        }
        self.notices.retain_route(&route.source, &route.target);
        let replaced = self.routes.insert(object_of(&route.source), route.clone());
        if let Some(old) =
            replaced.filter(|old| old.source != route.source || old.target != route.target)
        {
            self.notices.expire_route(&old.source, &old.target);
        }
    }

    /// Judges one hop of a message that was addressed to `to` and forwarded `hops` times so far.
    ///
    /// # Errors
    /// The message is not forwarded; a request gets one terminal, a one-way message is a recorded drop.
    pub fn hop(
        &self,
        now: Monotonic,
        to: &FollowRoute,
        hops: HopCount,
    ) -> Result<Hop, FollowRefusal> {
        let route = self
            .routes
            .get(&object_of(to))
            .ok_or(FollowRefusal::NoRoute)?;
        let (here, there) = (tenure(&route.source), tenure(&route.target));
        let addressed = tenure(to);
        if addressed.object_generation != here.object_generation {
            return Err(FollowRefusal::OtherGeneration);
        }
        if route.until <= now {
            return Err(FollowRefusal::Expired);
        }
        // RL-152: this run of this node and its lease. Which of its tenures is for the next check.
        let same_owner = addressed.node_rid == here.node_rid
            && addressed.node_generation == here.node_generation
            && addressed.owner_lease_generation == here.owner_lease_generation;
        if !same_owner {
            return Err(FollowRefusal::OtherOwner);
        }
        let rises = there
            .authority_owner_generation
            .is_after(addressed.authority_owner_generation);
        if !rises {
            return Err(FollowRefusal::NotRising);
        }
        let next = hops.get().saturating_add(1);
        let hops = HopCount::new(next)
            .ok()
            .filter(|hops| hops.get() <= MESSAGE_FOLLOW_HOP_COUNT)
            .ok_or(FollowRefusal::TooManyHops)?;
        Ok(Hop {
            source: route.source.clone(),
            target: route.target.clone(),
            hops,
            until: route.until,
        })
    }

    /// The route of an object, whether or not its time is over.
    pub fn route(&self, object: &AuthorityKey) -> Option<&RetainedRoute> {
        self.routes.get(object)
    }

    /// Removes the route of an object before its time: the host ends, or the object comes back here.
    pub fn remove(&mut self, object: &AuthorityKey) {
        if let Some(route) = self.routes.remove(object) {
            self.notices.expire_route(&route.source, &route.target);
        }
    }

    /// Removes every route whose time is over.
    pub fn expire(&mut self, now: Monotonic) {
        let notices = &mut self.notices;
        self.routes.retain(|_, route| {
            let stays = route.until > now;
            if !stays {
                notices.expire_route(&route.source, &route.target);
            }
            stays
        });
    }

    /// When the next route ends.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.routes.values().map(|route| route.until).min()
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// The suppression of notices about these routes.
    pub const fn notices(&mut self) -> &mut NoticeRegistry {
        &mut self.notices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::sample::{at, rid, row_of_target, source_route};
    use spotlane_types::kind::RelocationPhase;

    fn to(node: &str, owner: u64) -> FollowRoute {
        let mut fence = source_route();
        fence.target_node_rid = rid(node);
        fence.expected_authority_owner_generation = AuthorityOwnerGeneration::new(owner).unwrap();
        FollowRoute::Actor { actor: fence }
    }

    fn hops(count: u8) -> HopCount {
        HopCount::new(count).unwrap()
    }

    /// A moved from node-a (tenure 41) to node-b (tenure 42).
    fn registry() -> FollowRegistry {
        let mut registry = FollowRegistry::default();
        registry.retain(RetainedRoute {
            source: to("node-a", 41),
            target: to("node-b", 42),
            until: at(30_000),
        });
        registry
    }

    /// RL-151, RL-152, RL-155
    #[test]
    fn a_message_to_the_old_tenure_is_sent_on_to_the_new_one() {
        let hop = registry().hop(at(1), &to("node-a", 41), hops(0)).unwrap();
        assert_eq!(hop.target, to("node-b", 42));
        assert_eq!((hop.hops, hop.until), (hops(1), at(30_000)));
    }

    /// RL-152, RL-153, RL-154
    #[test]
    fn each_condition_of_a_hop_refuses_on_its_own() {
        let registry = registry();
        let mut other_generation = source_route();
        other_generation.actor.object_generation = ObjectGeneration::new(32).unwrap();
        let other_generation = FollowRoute::Actor {
            actor: other_generation,
        };
        let mut other_lease = source_route();
        other_lease.expected_owner_lease_generation = OwnerLeaseGeneration::new(99).unwrap();
        let other_lease = FollowRoute::Actor { actor: other_lease };
        let mut other_run = source_route();
        other_run.target_node_generation = NodeGeneration::new(99).unwrap();
        let other_run = FollowRoute::Actor { actor: other_run };
        let refusal = |now: u64, to: &FollowRoute, count: u8| {
            registry.hop(at(now), to, hops(count)).unwrap_err()
        };
        let old = to("node-a", 41);
        assert_eq!(
            refusal(1, &other_generation, 0),
            FollowRefusal::OtherGeneration
        );
        assert_eq!(refusal(30_000, &old, 0), FollowRefusal::Expired);
        assert_eq!(refusal(1, &other_lease, 0), FollowRefusal::OtherOwner);
        assert_eq!(refusal(1, &other_run, 0), FollowRefusal::OtherOwner);
        assert_eq!(refusal(1, &to("node-a", 42), 0), FollowRefusal::NotRising);
        assert_eq!(refusal(1, &old, 8), FollowRefusal::TooManyHops);
        assert!(registry.hop(at(1), &old, hops(7)).is_ok());
        let empty = FollowRegistry::default();
        assert_eq!(empty.hop(at(1), &old, hops(0)), Err(FollowRefusal::NoRoute));
    }

    /// RL-153
    #[test]
    fn only_another_incarnation_is_an_invalid_operation() {
        assert_eq!(
            FollowRefusal::OtherGeneration.terminal().1,
            FailureCode::SpotGenerationStale
        );
        assert_eq!(
            FollowRefusal::Expired.terminal().1,
            FailureCode::RouteNotConnected
        );
        let (result, code) = FollowRefusal::NoRoute.terminal();
        assert!(code.fits(result));
        let (result, code) = FollowRefusal::OtherGeneration.terminal();
        assert!(code.fits(result));
    }

    /// RL-154
    #[test]
    fn a_node_may_appear_twice_with_different_tenures() {
        let mut registry = registry();
        registry.retain(RetainedRoute {
            source: to("node-a", 43),
            target: to("node-c", 44),
            until: at(60_000),
        });
        for owner in [41, 43] {
            let hop = registry.hop(at(1), &to("node-a", owner), hops(0)).unwrap();
            assert_eq!(hop.target, to("node-c", 44));
        }
        assert_eq!(registry.len(), 1);
    }

    /// RL-151, RL-154: the commit of an earlier move that is seen late.
    #[test]
    fn a_late_route_of_an_earlier_tenure_replaces_nothing() {
        let mut registry = FollowRegistry::default();
        let later = RetainedRoute {
            source: to("node-a", 43),
            target: to("node-c", 44),
            until: at(60_000),
        };
        registry.retain(later.clone());
        registry.retain(RetainedRoute {
            source: to("node-a", 41),
            target: to("node-c", 44),
            until: at(90_000),
        });
        let object = object_of(&later.source);
        assert_eq!(registry.route(&object), Some(&later));
    }

    /// RL-150
    #[test]
    fn a_route_ends_at_its_time_and_not_before() {
        let mut registry = registry();
        assert_eq!(registry.next_deadline(), Some(at(30_000)));
        registry.expire(at(29_999));
        assert!(!registry.is_empty());
        registry.expire(at(30_000));
        assert!(registry.is_empty());
        assert_eq!(registry.next_deadline(), None);
    }

    /// RL-151
    #[test]
    fn the_target_of_a_route_is_the_owner_of_the_row() {
        let row = row_of_target(1, RelocationPhase::Committed);
        let route = route_to(&to("node-a", 41), &row);
        let tenure = tenure(&route);
        assert_eq!(tenure.node_rid, &rid("node-b"));
        assert_eq!(tenure.authority_owner_generation.get(), 42);
        assert_eq!(tenure.owner_lease_generation.get(), 52);
    }
}
