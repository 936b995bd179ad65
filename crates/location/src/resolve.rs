//! Where an object is, by its row and, for a member of a moving unit, by the record of the move (ST-82, ST-86, RL-365).

use std::time::Duration;

use spotlane_store::{StoreProvider, StoreVersion};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::generation::{AuthorityOwnerGeneration, ObjectGeneration};
use spotlane_types::id::StableType;
use spotlane_types::kind::{RelocationPhase, StatefulObjectKind};
use spotlane_types::time::Monotonic;

use crate::authority::{self, Authority, Life, ReservedObject};
use crate::cache::{Route, Tenure};
use crate::effort::Effort;
use crate::error::LocationError;
use crate::key;
use crate::lease::LiveLease;
use crate::record::{self, AggregatePhase, AggregateRecord, AuthorityRow};
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

/// What stands under an id: what a creation (RL-90, RL-91, RL-92), one of another type (RL-93) or a message (RL-94, RL-95)
/// has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// Its kind.
    pub kind: StatefulObjectKind,
    /// Its type.
    pub stable_type: StableType,
    /// What it is in the middle of.
    pub state: ObjectState,
}

/// What an object is in the middle of, for the table of RL-90 to RL-95.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by RL-90 to RL-95 and RL-365"
)]
pub enum ObjectState {
    /// It is reserved and being created.
    Creating,
    /// It is ready, whether or not its owner lives.
    Ready(Box<Route>),
    /// It has a new owner that does not serve it yet: wait and read again.
    Moving,
    /// It is being closed.
    Closing,
}

/// The tenure of a source, as its fence names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by RL-356")]
pub struct SourceFence {
    /// The incarnation.
    pub object_generation: ObjectGeneration,
    /// The owner generation that the source has.
    pub authority_owner_generation: AuthorityOwnerGeneration,
}

/// What a source learns of its move.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-356")]
pub enum SourceView {
    /// Nobody has taken the object, so far. That restores no source (RL-352).
    Pending,
    /// It has been taken: messages follow to this owner.
    Committed {
        /// The owner now.
        target: Box<Route>,
        /// Whether it serves yet; the source cleans up once it does (RL-138).
        dispatch: Dispatch,
    },
    /// The object, or this incarnation of it, is no more.
    Ended,
}

/// Whether the owner of a moved object serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-365")]
pub enum Dispatch {
    /// Not yet.
    Closed,
    /// It does.
    Open,
}

/// What a look at a row, and at the record that it may point at, has found.
struct Seen {
    kind: StatefulObjectKind,
    stable_type: StableType,
    object_generation: ObjectGeneration,
    life: Life,
    /// Who is recognised as owner.
    owner: Box<Route>,
    /// The same, when it serves.
    route: Option<Box<Route>>,
}

impl Seen {
    fn reserved(reserved: &ReservedObject) -> Self {
        let row = reserved.row();
        Self {
            kind: row.allocation.object_kind,
            stable_type: row.allocation.stable_type.clone(),
            object_generation: row.object_generation,
            life: Life::Creating,
            owner: Box::new(route(reserved.object(), row, reserved.version())),
            route: None,
        }
    }
}

/// RL-365: the phases in which the owner of the row serves. This product writes none of those before the commit for a single
/// object (RL-28), but it reads them as what they mean: the source owns it (RL-22, RL-23, RL-27).
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

/// ST-86: before the commit, and when the record is aborted or missing, the row says who the owner is. Says whether the
/// owner serves.
fn read_through(record: Option<AggregateRecord>, owner: &mut Route) -> bool {
    let Some(record) = record else { return true };
    match record.phase {
        AggregatePhase::Preparing | AggregatePhase::Aborted => return true,
        AggregatePhase::Committed | AggregatePhase::Activated => {}
    }
    // A committed record that was read has both (ST-83).
    let Some((side, generation)) = record.target.zip(record.authority_owner_generation) else {
        return false;
    };
    owner.owner_id = side.owner_id;
    owner.tenure.node_rid = side.node_rid;
    owner.tenure.node_generation = side.node_generation;
    owner.tenure.owner_lease_generation = side.owner_lease_generation;
    owner.tenure.authority_owner_generation = generation;
    record.phase == AggregatePhase::Activated
}

/// The route to the owner that a row names.
fn route(object: &AuthorityKey, row: &AuthorityRow, version: &StoreVersion) -> Route {
    let node = &row.allocation.descriptor;
    Route {
        tenure: Tenure {
            object: object.clone(),
            object_generation: row.object_generation,
            node_rid: node.routing_id.clone(),
            node_generation: row.allocation.descriptor_lifecycle_generation,
            authority_owner_generation: row.authority_owner_generation,
            owner_lease_generation: row.owner_lease_generation,
        },
        owner_id: row.owner_id.clone(),
        mesh_name: node.mesh_name.clone(),
        store_version: version.clone(),
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
        Ok(match self.look(effort, object).await? {
            None => Resolved::Missing,
            Some(Seen { route, .. }) => route.map_or(Resolved::NotReady, Resolved::Ready),
        })
    }

    /// What stands under an id: enough for a creation, a message or a look-up to decide (RL-90 to RL-95).
    ///
    /// # Errors
    /// As [`Repository::find`].
    pub async fn standing(
        &self,
        object: &AuthorityKey,
        until: Monotonic,
    ) -> Result<Option<Standing>, LocationError> {
        let mut effort = self.effort(until);
        let Some(seen) = self.look(&mut effort, object).await? else {
            return Ok(None);
        };
        let state = match (seen.life, seen.route) {
            (Life::Creating, _) => ObjectState::Creating,
            (Life::Closing, _) => ObjectState::Closing,
            (Life::Ready | Life::Relocating, Some(route)) => ObjectState::Ready(route),
            (Life::Ready | Life::Relocating, None) => ObjectState::Moving,
        };
        Ok(Some(Standing {
            kind: seen.kind,
            stable_type: seen.stable_type,
            state,
        }))
    }

    /// What a source learns of its move by reading (RL-138, RL-356). Only the target's commit could end the source's tenure,
    /// so a later owner generation of the same incarnation says that it did, whatever the row says of moves by now.
    ///
    /// # Errors
    /// As [`Repository::find`].
    pub async fn read_commit(
        &self,
        object: &AuthorityKey,
        fence: SourceFence,
        until: Monotonic,
    ) -> Result<SourceView, LocationError> {
        let mut effort = self.effort(until);
        let seen = self.look(&mut effort, object).await?;
        let Some(seen) = seen.filter(|seen| seen.object_generation == fence.object_generation)
        else {
            return Ok(SourceView::Ended);
        };
        let owner = &seen.owner;
        let later = owner.tenure.authority_owner_generation;
        if !later.is_after(fence.authority_owner_generation) {
            return Ok(SourceView::Pending);
        }
        Ok(SourceView::Committed {
            dispatch: match seen.route {
                Some(_) => Dispatch::Open,
                None => Dispatch::Closed,
            },
            target: seen.owner,
        })
    }

    async fn look(
        &self,
        effort: &mut Effort<'_, P, T>,
        object: &AuthorityKey,
    ) -> Result<Option<Seen>, LocationError> {
        let outcome = effort.read(&key::authority(object)).await?;
        let active = match Authority::of(object, outcome)? {
            Authority::Missing => return Ok(None),
            Authority::Reserved(reserved) => return Ok(Some(Seen::reserved(&reserved))),
            Authority::Active(active) => active,
        };
        let life = authority::identity(&active.payload().object)?.life;
        let mut owner = route(object, active.row(), active.version());
        let serves = if let Some(relocation) = active.aggregate() {
            let key = key::aggregate(relocation);
            let found = effort.read(&key).await?.found();
            let record = found.map(|found| record::Seen::<AggregateRecord>::read(&key, found));
            read_through(record.transpose()?.map(|seen| seen.row), &mut owner)
        } else {
            let state = active.payload().relocation_state.as_ref();
            let served = state.is_none_or(|state| served(state.phase));
            served && matches!(life, Life::Ready | Life::Relocating)
        };
        let row = active.row();
        let owner = Box::new(owner);
        Ok(Some(Seen {
            kind: row.allocation.object_kind,
            stable_type: row.allocation.stable_type.clone(),
            object_generation: row.object_generation,
            life,
            route: serves.then(|| owner.clone()),
            owner,
        }))
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
