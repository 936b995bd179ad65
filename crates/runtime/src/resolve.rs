//! Where an Actor is: here, at another node, or nowhere (RL-165 to RL-168, RL-365).

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use spotlane_location::authority::Authority;
use spotlane_location::cache::{Route, Tenure};
use spotlane_location::{ObjectState, Resolved};
use spotlane_types::id::{ActorId, NodeRid};
use spotlane_wire::reference::ActorRouteFence;

use crate::clock::{Deadline, backoff};
use crate::core::{Core, actor_key};
use crate::error::Error;
use crate::message::Message;
use crate::relocation::{SourceUnit, TargetUnit};
use crate::slots::{Live, Slot};

/// Where a message goes.
pub(crate) enum Place {
    /// To an Actor of this host.
    Here(Arc<Live>),
    /// To what stands in its place on this host while it moves.
    Moving(Holder),
    /// To its owner, whose route and fences are one value (EX-370).
    There(Box<Tenure>),
}

/// Who keeps the messages of an Actor that is on its way.
pub(crate) enum Holder {
    /// It comes.
    Target(Arc<TargetUnit>),
    /// It leaves.
    Source(Arc<SourceUnit>),
}

impl Holder {
    /// Takes a message, or gives it back when something else stands there by now.
    pub(crate) fn hold(&self, message: Box<Message>) -> Result<(), Box<Message>> {
        match self {
            Self::Target(unit) => unit.hold(message),
            Self::Source(unit) => unit.hold(message),
        }
    }
}

/// What the own slots say.
fn here(core: &Core, id: &ActorId) -> Option<Place> {
    Some(match core.slots.get(id)? {
        Slot::Live(live) => Place::Here(live),
        Slot::Arriving(unit) => Place::Moving(Holder::Target(unit)),
        Slot::Leaving(unit) => Place::Moving(Holder::Source(unit)),
        // Without a route it comes back or ends just now; cache and store know more.
        Slot::Follow => Place::There(Box::new(core.moves.following.target(id)?)),
    })
}

/// Where an Actor is as far as this host knows without asking the store.
pub(crate) fn known(core: &Core, id: &ActorId) -> Option<Place> {
    here(core, id).or_else(|| {
        let tenure = core.cached_route(&actor_key(id))?;
        Some(Place::There(Box::new(tenure)))
    })
}

/// The route to an Actor of another node, when the cache has it and nothing stands in its place here: one value, in the form
/// in which it travels (EX-370).
#[inline]
pub(crate) fn known_elsewhere(core: &Core, id: &ActorId) -> Option<ActorRouteFence> {
    if core.slots.has(id) {
        return None;
    }
    core.cached_fence(id)
}

/// Finds an Actor: in the own slots, in the route cache, in the store, in this order.
///
/// # Errors
/// `NotFound`: there is none (RL-90, RL-91). `Unavailable`: its owner is not alive (RL-94) or the store does not answer.
pub(crate) async fn find(core: &Core, id: &ActorId, deadline: &Deadline) -> Result<Place, Error> {
    if let Some(place) = known(core, id) {
        return Ok(place);
    }
    let key = actor_key(id);
    let margin = core.settings.lease.fencing_margin();
    let (mut attempt, mut doubted) = (0, None);
    loop {
        let until = deadline.location();
        if let Some(found) = core.repository.live_route(&key, margin, until).await? {
            if core.is_here(&found.route.tenure) {
                if let Some(place) = here(core, id) {
                    return Ok(place);
                }
                // RL-245: the row names this run, which does not serve the Actor.
                return Err(Error::unavailable(format!(
                    "{id} is not served by its owner"
                )));
            }
            let now = core.clock.location_now();
            let mut routes = core.routes.lock().unwrap_or_else(PoisonError::into_inner);
            routes.insert(found.route.clone(), now, found.owner_deadline);
            drop(routes);
            return Ok(Place::There(Box::new(found.route.tenure)));
        }
        match why_not(core, id, deadline).await? {
            Some(tenure) if doubted.as_ref() == Some(&tenure) => {
                // RL-94: an owner that is dead or past its lease; nobody takes its place (RL-235).
                return Err(Error::unavailable(format!(
                    "the owner of actor {:?} is not alive",
                    id.as_str()
                )));
            }
            // Two reads say no more than one: the move may have ended between them. The next look decides.
            Some(tenure) => doubted = Some(tenure),
            None => {
                pause(deadline, attempt).await?;
                attempt = attempt.saturating_add(1);
            }
        }
    }
}

/// Why there is no live route: an error, the tenure of an owner that may be dead, or `None` when waiting helps (RL-365).
async fn why_not(core: &Core, id: &ActorId, deadline: &Deadline) -> Result<Option<Tenure>, Error> {
    let key = actor_key(id);
    match core.repository.read(&key, deadline.location()).await? {
        Authority::Missing => Err(Error::not_found(format!("no actor {:?}", id.as_str()))),
        Authority::Reserved(_) => Err(Error::not_found(format!(
            "actor {:?} is being created",
            id.as_str()
        ))),
        Authority::Active(_) => match core.repository.find(&key, deadline.location()).await? {
            Resolved::Missing => Err(Error::not_found(format!("no actor {:?}", id.as_str()))),
            Resolved::NotReady => Ok(None),
            Resolved::Ready(route) => Ok(Some(route.tenure)),
        },
    }
}

/// The route to a ready Actor, by the store alone; waits while it is between two owners (RL-365).
///
/// # Errors
/// The store does not answer, or the deadline has passed.
pub(crate) async fn ready(
    core: &Core,
    id: &ActorId,
    deadline: &Deadline,
) -> Result<Option<Box<Route>>, Error> {
    let key = actor_key(id);
    let mut attempt = 0;
    loop {
        let standing = core.repository.standing(&key, deadline.location()).await?;
        match standing.map(|standing| standing.state) {
            Some(ObjectState::Ready(route)) => return Ok(Some(route)),
            None | Some(ObjectState::Creating | ObjectState::Closing) => return Ok(None),
            Some(ObjectState::Moving) => {}
        }
        pause(deadline, attempt).await?;
        attempt = attempt.saturating_add(1);
    }
}

/// From here on the wait between two looks does not grow: 32 ms.
const LOOK_ATTEMPT_MAX: u32 = 4;

/// Waits a little before the store is asked again.
///
/// # Errors
/// The deadline has passed.
pub(crate) async fn pause(deadline: &Deadline, attempt: u32) -> Result<(), Error> {
    let late = || Error::deadline("the actor did not become ready in time");
    let left = deadline.left().ok_or_else(late)?;
    // A move or creation is over in milliseconds, so the wait between two looks stays short.
    let wait = backoff(attempt.min(LOOK_ATTEMPT_MAX), crate::random::u64());
    tokio::time::sleep(wait.min(left)).await;
    Ok(())
}

/// Waits until a node that the directory knows is connected.
///
/// # Errors
/// `Unavailable`: the directory does not know it, or it is not connected within `deadline`.
pub(crate) async fn connected(
    core: &Core,
    node: &NodeRid,
    deadline: &Deadline,
) -> Result<(), Error> {
    let mesh = core.mesh()?;
    if mesh.link(node).is_some() {
        return Ok(());
    }
    if core.directory.node(node).is_none() {
        crate::directory::refresh(core).await?;
        if core.directory.node(node).is_none() {
            return Err(Error::unavailable(format!(
                "node {node} is not in the mesh"
            )));
        }
    }
    let mut peers = mesh.watch_peers();
    let left = deadline.left().unwrap_or(Duration::ZERO);
    let there = peers.wait_for(|peers| peers.iter().any(|peer| peer.link.peer() == node));
    match tokio::time::timeout(left, there).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(Error::shutting_down()),
        Err(_) => Err(Error::unavailable(format!("node {node} is not connected"))),
    }
}
