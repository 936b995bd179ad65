//! Where an object is, by its row and, for a member of a moving unit, by the record of the move (ST-82, ST-86, RL-365).

use std::time::Duration;

use spotlane_store::StoreProvider;
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::kind::RelocationPhase;
use spotlane_types::time::Monotonic;

use crate::authority::{self, ActiveObject, Authority, Life};
use crate::cache::{Route, Tenure};
use crate::effort::Effort;
use crate::error::LocationError;
use crate::key;
use crate::lease::LiveLease;
use crate::record::{AggregatePhase, AggregateRecord, AggregateSide, Seen};
use crate::repository::Repository;
use crate::time::Timing;

/// What a look-up found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-365")]
pub enum Resolved {
    /// There is no such object; only its lifecycle owner makes this true (RL-168).
    Missing,
    /// It is being created, closed, or moved at a point where neither side serves it: wait and read again.
    NotReady,
    /// It is ready.
    Ready(Box<Route>),
}

/// A ready object whose owner's lease is live.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveRoute {
    /// Where it is.
    pub route: Route,
    /// The owner's admission deadline as this host can know it: no cached route outlives it (ST-81, RL-283).
    pub owner_deadline: Monotonic,
}

/// Who is recognised as owner, and whether it serves.
enum Recognised {
    Row,
    Target(AggregateSide, AuthorityOwnerGeneration),
    Nobody,
}

/// RL-365: the phases in which the owner of the row serves.
fn served(phase: RelocationPhase) -> bool {
    match phase {
        RelocationPhase::None
        | RelocationPhase::Preparing
        | RelocationPhase::Captured
        | RelocationPhase::Prepared
        | RelocationPhase::Aborted
        | RelocationPhase::Activated
        | RelocationPhase::Cleaning
        | RelocationPhase::Completed => true,
        RelocationPhase::Committed | RelocationPhase::Activating => false,
    }
}

/// ST-86: before the commit, and when the record is aborted or missing, the row says who the owner is.
fn read_through(record: Option<&AggregateRecord>) -> Recognised {
    let Some(record) = record else {
        return Recognised::Row;
    };
    match record.phase {
        AggregatePhase::Preparing | AggregatePhase::Aborted => Recognised::Row,
        AggregatePhase::Committed => Recognised::Nobody,
        AggregatePhase::Activated => match (&record.target, record.authority_owner_generation) {
            (Some(target), Some(generation)) => Recognised::Target(target.clone(), generation),
            // A record that was read has both (ST-83).
            (None, _) | (_, None) => Recognised::Nobody,
        },
    }
}

fn route(active: &ActiveObject, recognised: Recognised) -> Option<Route> {
    let row = active.row();
    let node = &row.allocation.descriptor;
    let row_route = Route {
        tenure: Tenure {
            object: active.object().clone(),
            object_generation: row.object_generation,
            node_rid: node.routing_id.clone(),
            node_generation: row.allocation.descriptor_lifecycle_generation,
            authority_owner_generation: row.authority_owner_generation,
            owner_lease_generation: row.owner_lease_generation,
        },
        owner_id: row.owner_id.clone(),
        mesh_name: node.mesh_name.clone(),
        store_version: active.version().clone(),
    };
    match recognised {
        Recognised::Row => Some(row_route),
        Recognised::Nobody => None,
        Recognised::Target(side, generation) => Some(Route {
            tenure: Tenure {
                node_rid: side.node_rid,
                node_generation: side.node_generation,
                authority_owner_generation: generation,
                owner_lease_generation: side.owner_lease_generation,
                ..row_route.tenure
            },
            owner_id: side.owner_id,
            ..row_route
        }),
    }
}

impl<P: StoreProvider, T: Timing> Repository<P, T> {
    /// Looks an object up; only a ready one has a route (ST-82). Whether the owner lives is not asked here.
    ///
    /// # Errors
    /// By recovery: `Retry` when the store was not reached, `GiveUp` when a row is malformed.
    pub async fn find(
        &self,
        object: &AuthorityKey,
        until: Monotonic,
    ) -> Result<Resolved, LocationError> {
        let mut effort = self.effort(until);
        self.find_with(&mut effort, object).await
    }

    async fn find_with(
        &self,
        effort: &mut Effort<'_, P, T>,
        object: &AuthorityKey,
    ) -> Result<Resolved, LocationError> {
        let outcome = effort.read(&key::authority(object)).await?;
        let active = match Authority::of(object, outcome)? {
            Authority::Missing => return Ok(Resolved::Missing),
            Authority::Reserved(_) => return Ok(Resolved::NotReady),
            Authority::Active(active) => active,
        };
        let recognised = if let Some(relocation) = active.aggregate() {
            let key = key::aggregate(relocation);
            let found = effort.read(&key).await?.found();
            let record = found.map(|found| Seen::<AggregateRecord>::read(&key, found));
            read_through(record.transpose()?.map(|seen| seen.row).as_ref())
        } else {
            let phase = active
                .payload()
                .relocation_state
                .as_ref()
                .map(|state| state.phase);
            match authority::identity(&active.payload().object)?.life {
                Life::Ready | Life::Relocating if phase.is_none_or(served) => Recognised::Row,
                Life::Creating | Life::Closing | Life::Ready | Life::Relocating => {
                    Recognised::Nobody
                }
            }
        };
        Ok(route(&active, recognised)
            .map_or(Resolved::NotReady, |route| Resolved::Ready(Box::new(route))))
    }

    /// Looks an object up together with its owner's lease; `None` when it is not ready or its owner is not alive
    /// (RL-94). The result is what a [`RouteCache`](crate::cache::RouteCache) takes.
    ///
    /// # Errors
    /// As [`Repository::find`]; `GiveUp` also when the owner's lease is corrupt (ST-80).
    pub async fn live_route(
        &self,
        object: &AuthorityKey,
        fencing_margin: Duration,
        until: Monotonic,
    ) -> Result<Option<LiveRoute>, LocationError> {
        let mut effort = self.effort(until);
        let Resolved::Ready(route) = self.find_with(&mut effort, object).await? else {
            return Ok(None);
        };
        let lease_key = key::owner_lease(&route.owner_id);
        let sent = self.timing().now();
        let outcome = effort.read(&lease_key).await?;
        let store_now = outcome.store_now();
        let expires_at = outcome.clone().found().and_then(|found| found.expires_at);
        let live = LiveLease::of(&lease_key, outcome)?;
        let generation = route.tenure.owner_lease_generation;
        let (Some(live), Some(expires_at)) = (live, expires_at) else {
            return Ok(None);
        };
        if !live.is_of(&route.owner_id, generation) {
            return Ok(None);
        }
        let lives = store_now.until(expires_at).saturating_sub(fencing_margin);
        Ok(Some(LiveRoute {
            route: *route,
            owner_deadline: sent.after(lives),
        }))
    }
}
