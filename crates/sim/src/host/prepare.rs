//! The beginning of a move: the row is read once, a usable target is looked for, and everything is fixed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use spotlane_location::LocationError;
use spotlane_location::authority::{ActiveObject, Authority};
use spotlane_location::directory::Candidate;
use spotlane_location::record::DescriptorName;
use spotlane_relocation::identity::{RelocationIdentity, SourceFence};
use spotlane_relocation::source::{Source, SourceEvent};
use spotlane_relocation::unit::{EarlyProgress, MovePlan as UnitPlan, UnitPolicy};
use spotlane_types::generation::TargetAttemptGeneration;
use spotlane_types::id::RelocationId;
use spotlane_wire::reference::{ActorRef, RelocationCoordinatorFence, RelocationTargetFence};
use spotlane_wire::relocation::RelocationObject;

use super::lane::Gate;
use super::rows::{self, application_version};
use super::source::SourceUnit;
use super::{Host, Job, StoreAnswer};
use crate::observation::Observation;
use crate::shared::{Shared, monotonic};
use crate::workload::{MovePlan, Policy};

/// How long a move waits until its predecessor has left the row (RL-140, RL-365).
const PREDECESSOR: Duration = Duration::from_millis(25);

impl Host {
    /// Somebody wants an Actor of this host to move.
    pub(super) fn move_wanted(&mut self, plan: MovePlan, shared: &Shared) -> Result<()> {
        let Some(lane) = self.lanes.get(&plan.actor) else {
            return Ok(());
        };
        if lane.gate != Gate::Open || plan.to == self.index || self.shutting_down {
            return Ok(());
        }
        if self
            .targets
            .get(&plan.actor)
            .is_some_and(|unit| !unit.is_settled())
        {
            self.moves_waiting.push((shared.now() + PREDECESSOR, plan));
            return Ok(());
        }
        let key = shared.cast.key(plan.actor)?;
        let name = DescriptorName {
            mesh_name: shared.cast.mesh.clone(),
            routing_id: shared.cast.node(plan.to)?.clone(),
        };
        let repository = Arc::clone(&self.repository);
        let until = self.location_now().after(Duration::from_millis(300));
        self.ask(shared, async move {
            let found = async {
                let row = repository.read(&key, until).await?;
                let target = repository.candidate(&name, until).await?;
                Ok((row, target))
            };
            StoreAnswer::Prepared {
                plan,
                found: found.await,
            }
        });
        Ok(())
    }

    /// Moves that waited for their predecessor.
    pub(super) fn wake_moves(&mut self, shared: &Shared) -> Result<()> {
        let now = shared.now();
        let (due, later) = std::mem::take(&mut self.moves_waiting)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.moves_waiting = later;
        let due: Vec<(Duration, MovePlan)> = due;
        for (_, plan) in due {
            self.move_wanted(plan, shared)?;
        }
        Ok(())
    }

    /// The first look at the object and at its target.
    pub(super) fn move_prepared(
        &mut self,
        plan: MovePlan,
        found: Result<(Authority, Option<Candidate>), LocationError>,
        shared: &mut Shared,
    ) -> Result<()> {
        // SRC-1: without a usable target nothing is touched.
        let Ok((Authority::Active(row), Some(candidate))) = found else {
            return Ok(());
        };
        let serves = self
            .lanes
            .get(&plan.actor)
            .is_some_and(|lane| lane.gate == Gate::Open);
        let connection = self.links.get(&plan.to).copied();
        let ours = row.is_owned_by(self.held.lease());
        let moving = self
            .sources
            .values()
            .any(|unit| unit.actor == plan.actor && !unit.is_behind());
        let (true, true, false, Some(connection)) = (serves, ours, moving, connection) else {
            return Ok(());
        };
        let number = shared.move_number();
        let relocation = RelocationId::new(0xA0, number)?;
        let unit_plan = UnitPlan {
            identity: RelocationIdentity {
                relocation,
                attempt: TargetAttemptGeneration::new(number)?,
                coordinator: self.coordinator(&row, shared)?,
            },
            object: object_of(&row),
            source: SourceFence {
                node_rid: shared.cast.node(self.index)?.clone(),
                node_generation: shared.cast.run,
                authority_owner_generation: row.row().authority_owner_generation,
            },
            target: RelocationTargetFence {
                target_node_rid: shared.cast.node(plan.to)?.clone(),
                target_node_generation: shared.cast.run,
                target_owner_id: candidate.lease().owner().clone(),
                target_owner_lease_generation: candidate.lease().generation(),
            },
            application_version: application_version()?,
            policy: match shared.plan.actors.get(plan.actor.0).map(|one| one.policy) {
                Some(Policy::Disable) => UnitPolicy::Disabled,
                _ => UnitPolicy::Movable,
            },
            early_progress: EarlyProgress::None,
            receive_chunk_limit: None,
            connection,
            deadline: monotonic(shared.now() + shared.plan.move_timeout),
        };
        self.begin(plan, unit_plan, shared);
        Ok(())
    }

    fn begin(&mut self, plan: MovePlan, unit_plan: UnitPlan, shared: &mut Shared) {
        let relocation = unit_plan.identity.relocation;
        shared.see(Observation::MoveRequested {
            relocation,
            actor: plan.actor,
            from: self.index,
            to: plan.to,
        });
        let mut unit = SourceUnit::new(
            Source::new(shared.plan.settings),
            plan.actor,
            plan.to,
            unit_plan.source.authority_owner_generation,
        );
        // Lanes and machine may both hold; half of the moves go one way, half the other.
        unit.machine_holds = shared.random.percent(50);
        unit.tenure = self
            .lanes
            .get(&plan.actor)
            .map(|lane| lane.route.tenure.clone());
        unit.previous = self.latest.insert(plan.actor, relocation);
        self.sources.insert(relocation, unit);
        let event = SourceEvent::MoveRequested(Box::new(unit_plan));
        self.jobs.push_back(Job::Source(relocation, event));
    }

    fn coordinator(
        &self,
        row: &ActiveObject,
        shared: &Shared,
    ) -> Result<RelocationCoordinatorFence> {
        let lease = self.held.lease();
        Ok(RelocationCoordinatorFence {
            coordinator_owner_id: lease.owner().clone(),
            coordinator_lease_generation: lease.generation(),
            coordinator_node_rid: shared.cast.node(self.index)?.clone(),
            coordinator_node_generation: shared.cast.run,
            expected_authority_store_version: rows::store_version(row)?,
        })
    }
}

fn object_of(row: &ActiveObject) -> RelocationObject {
    use spotlane_types::authority_key::AuthorityKey;
    use spotlane_wire::reference::SpotRef;
    let object_generation = row.row().object_generation;
    let expected_authority_owner_generation = row.row().authority_owner_generation;
    match row.object() {
        AuthorityKey::Actor(actor_id) => RelocationObject::Actor {
            actor: ActorRef {
                actor_id: actor_id.clone(),
                object_generation,
            },
            expected_authority_owner_generation,
        },
        AuthorityKey::Spot(spot_id) => RelocationObject::UserSpot {
            spot: SpotRef {
                spot_id: spot_id.clone(),
                object_generation,
            },
            expected_authority_owner_generation,
        },
    }
}
