//! The rows of a moving unit: pointed at the record, settled by the target, or taken back by the source.

use spotlane_store::{Condition, StoreProvider};
use spotlane_types::id::RelocationId;
use spotlane_types::kind::RelocationPhase;
use spotlane_types::time::Monotonic;
use spotlane_wire::authority::AuthorityPayload;

use super::{HeldAggregate, acts, unexpected};
use crate::authority::{self, ActiveObject, Authority};
use crate::effort::Effort;
use crate::error::{Conflict, LocationError, Stale};
use crate::key;
use crate::lease::HeldLease;
use crate::member_list::MemberList;
use crate::record::{AggregatePhase, AggregateRecord, Seen};
use crate::repository::Repository;
use crate::rewrite::{BATCH_RECORDS_MAX, Guard, Rewrite};
use crate::time::Timing;

/// RL-21: the phase preparing is written by the source, and for the rows of a unit only.
fn points_in_preparation(payload: &AuthorityPayload, relocation: RelocationId) -> bool {
    let phase = payload.relocation_state.as_ref().map(|state| state.phase);
    authority::aggregate_of(payload) == Some(relocation)
        && phase == Some(RelocationPhase::Preparing)
}

fn no_pointer(payload: &AuthorityPayload) -> Result<(), LocationError> {
    if authority::aggregate_of(payload).is_none() {
        return Ok(());
    }
    Err(LocationError::Call {
        rule: "the payload points at no aggregate",
    })
}

/// A row that needs no change, which only the owner can say of it.
fn keep(row: ActiveObject, held: &HeldLease) -> Result<Rewrite, LocationError> {
    if row.is_owned_by(held.lease()) {
        return Ok(Rewrite::Keep(row));
    }
    Err(LocationError::stale(Stale::NotOwner))
}

impl<P: StoreProvider, T: Timing> Repository<P, T> {
    /// Lets the rows of a unit point at the record of its move (ST-85). [`MemberList::of_rows`] makes the list of what it
    /// returns, which is in the order of `rows`.
    ///
    /// `payload_of` is asked for the payload of each row that does not point there yet: with the pointer, in the phase
    /// preparing. On an error rows of earlier batches may point already, see the head of [this module](crate::aggregate).
    ///
    /// # Errors
    /// By recovery, as [`Repository::preserve`](Repository::preserve); `FixCall` when a payload has another pointer or
    /// phase; a conflict when a row points at another move.
    pub async fn point_at_aggregate(
        &self,
        held: &HeldLease,
        relocation: RelocationId,
        rows: Vec<ActiveObject>,
        mut payload_of: impl FnMut(&ActiveObject) -> AuthorityPayload + Send,
        until: Monotonic,
    ) -> Result<Vec<ActiveObject>, LocationError> {
        let mut effort = self.admitted(held, until)?;
        let rewrites = rows.into_iter().map(|row| {
            match row.aggregate() {
                Some(there) if there == relocation => return keep(row, held),
                Some(_) => return Err(LocationError::conflict(Conflict::InAggregate)),
                None => {}
            }
            let payload = payload_of(&row);
            if !points_in_preparation(&payload, relocation) {
                return Err(LocationError::Call {
                    rule: "the payload points at an aggregate that is being prepared",
                });
            }
            let change = authority::preserve(&row, held, &payload)?;
            Ok(Rewrite::Write(row.object().clone(), change))
        });
        let rewrites = rewrites.collect::<Result<Vec<_>, _>>()?;
        let guard = Guard { held, record: None };
        self.rewrite(&mut effort, guard, rewrites).await
    }

    /// Writes rows in the target's own name: owner, lease, node, the generation of the move, no pointer (ST-88).
    ///
    /// All rows of the unit at once, or one that is needed earlier for a change of its own. `payload_of` is asked for the
    /// payload of each row that still points at the record. On an error rows of earlier batches may be settled already.
    ///
    /// # Errors
    /// By recovery, as [`Repository::new_owner`](Repository::new_owner); a conflict when the move is not activated, or is
    /// another host's, or a row is no part of it.
    pub async fn settle_rows(
        &self,
        held: &HeldLease,
        aggregate: &HeldAggregate,
        rows: Vec<ActiveObject>,
        mut payload_of: impl FnMut(&ActiveObject) -> AuthorityPayload + Send,
        until: Monotonic,
    ) -> Result<Vec<ActiveObject>, LocationError> {
        let mut effort = self.admitted(held, until)?;
        let record = aggregate.record();
        let generation = record
            .authority_owner_generation
            .filter(|_| acts(record, AggregatePhase::Activated, held))
            .ok_or_else(unexpected)?;
        let rewrites = rows.into_iter().map(|row| {
            if row.aggregate() == Some(record.relocation_id) {
                let payload = payload_of(&row);
                let change = authority::settle_member(&row, held, &payload, generation)?;
                return Ok(Rewrite::Write(row.object().clone(), change));
            }
            let settled = row.row().authority_owner_generation == generation;
            if settled && row.is_owned_by(held.lease()) {
                return Ok(Rewrite::Keep(row));
            }
            Err(unexpected())
        });
        let rewrites = rewrites.collect::<Result<Vec<_>, _>>()?;
        let guard = Guard { held, record: None };
        self.rewrite(&mut effort, guard, rewrites).await
    }

    /// Takes the pointers of a move back that was given up, or whose record was never written because the source failed
    /// before it (ST-86, ST-89). Rows that do not point at it are passed over.
    ///
    /// Each batch is fenced by the record being aborted or absent, so no target can commit behind it.
    ///
    /// # Errors
    /// By recovery, as [`Repository::preserve`](Repository::preserve); a conflict while the record is neither aborted nor
    /// absent.
    pub async fn unpoint_rows(
        &self,
        held: &HeldLease,
        relocation: RelocationId,
        rows: Vec<ActiveObject>,
        mut payload_of: impl FnMut(&ActiveObject) -> AuthorityPayload + Send,
        until: Monotonic,
    ) -> Result<Vec<ActiveObject>, LocationError> {
        let mut effort = self.admitted(held, until)?;
        let key = key::aggregate(relocation);
        let record = match effort.read(&key).await?.found() {
            None => Condition::Missing(key),
            Some(found) => {
                let seen = Seen::<AggregateRecord>::read(&key, found)?;
                if !acts(&seen.row, AggregatePhase::Aborted, held) {
                    return Err(unexpected());
                }
                Condition::Version(key, seen.version)
            }
        };
        let rewrites = rows.into_iter().map(|row| {
            if row.aggregate() != Some(relocation) {
                return keep(row, held);
            }
            let payload = payload_of(&row);
            no_pointer(&payload)?;
            let change = authority::preserve_in_aggregate(&row, held, &payload)?;
            Ok(Rewrite::Write(row.object().clone(), change))
        });
        let rewrites = rewrites.collect::<Result<Vec<_>, _>>()?;
        let record = Some(&record);
        self.rewrite(&mut effort, Guard { held, record }, rewrites)
            .await
    }

    /// A pointer without its record would be read as the owner in the row (ST-86), which after a commit is the former.
    pub(super) async fn no_row_points(
        &self,
        effort: &mut Effort<'_, P, T>,
        relocation: RelocationId,
        list: &MemberList,
    ) -> Result<(), LocationError> {
        for entries in list.entries().chunks(BATCH_RECORDS_MAX) {
            let keys: Vec<_> = entries.iter().map(|e| key::authority(&e.object)).collect();
            let outcomes = effort.read_all(&keys).await?;
            for (entry, outcome) in entries.iter().zip(outcomes) {
                if let Authority::Active(active) = Authority::of(&entry.object, outcome)?
                    && active.aggregate() == Some(relocation)
                {
                    return Err(LocationError::conflict(Conflict::InAggregate));
                }
            }
        }
        Ok(())
    }
}
