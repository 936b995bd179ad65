//! The owner change of a whole `SpotWide` unit: one compare-and-set on one record (ST-83 to ST-89, RL-15, RL-122).
//!
//! In order: the source lets every row point at the record ([`Repository::point_at_aggregate`]), stores the list and the
//! record ([`Repository::prepare_aggregate`]); the target reads both back with the rows and compares all of it
//! ([`Repository::verify_aggregate`]), and with its unit restored takes all of it at once
//! ([`Repository::commit_aggregate`]); then it opens dispatch ([`Repository::activate_aggregate`]), writes the rows in its
//! own name ([`Repository::settle_rows`]) and removes the record ([`Repository::finish_aggregate`]). Before the commit the
//! source may give up ([`Repository::abort_aggregate`]), take the pointers back ([`Repository::unpoint_rows`]) and remove
//! the record.
//!
//! Rows are written in batches. When one of them fails, the rows of earlier batches are written: read the rows anew with
//! [`Repository::read_many`] and call again, what is done already is passed over.

mod list;
mod rows;

use spotlane_store::{Condition, StoreProvider};
use spotlane_types::id::RelocationId;
use spotlane_types::time::Monotonic;

use crate::authority::{ActiveObject, Change, Effect, Fence, First, Issues, Whose};
use crate::effort::Effort;
use crate::error::{Conflict, LocationError};
use crate::key;
use crate::lease::{HeldLease, LiveLease};
use crate::member_list::MemberList;
use crate::record::{
    AggregatePhase, AggregateRecord, AggregateSide, AggregateSpot, RecordError, Seen, V1,
};
use crate::repository::Repository;
use crate::time::Timing;

pub use list::PAGE_TTL;

/// The record of a move with its list: root, count and digest agree.
#[derive(Clone, Debug)]
#[must_use]
pub struct ListedAggregate {
    seen: Seen<AggregateRecord>,
    list: MemberList,
}

impl ListedAggregate {
    /// The record.
    pub fn record(&self) -> &AggregateRecord {
        &self.seen.row
    }

    /// The list.
    pub fn list(&self) -> &MemberList {
        &self.list
    }

    /// The record for the side that goes on with a move after a crash; each operation checks whose it is.
    pub fn into_held(self) -> (HeldAggregate, MemberList) {
        (HeldAggregate { seen: self.seen }, self.list)
    }
}

/// A move that a target may commit: besides record and list, each row is as the list says (ST-87).
#[derive(Clone, Debug)]
#[must_use]
pub struct VerifiedAggregate {
    listed: ListedAggregate,
    members: Vec<ActiveObject>,
}

impl VerifiedAggregate {
    /// The record.
    pub fn record(&self) -> &AggregateRecord {
        self.listed.record()
    }

    /// The list.
    pub fn list(&self) -> &MemberList {
        self.listed.list()
    }

    /// The rows of the Spot and all members, in the order of the list. Nobody changes them until they are settled, so
    /// they are what [`Repository::settle_rows`] takes.
    pub fn members(&self) -> &[ActiveObject] {
        &self.members
    }

    /// The list and the rows.
    pub fn into_parts(self) -> (MemberList, Vec<ActiveObject>) {
        (self.listed.list, self.members)
    }
}

/// The record of a move in the hands of the side that may change it.
#[derive(Clone, Debug)]
#[must_use]
pub struct HeldAggregate {
    seen: Seen<AggregateRecord>,
}

impl HeldAggregate {
    /// The record.
    pub fn record(&self) -> &AggregateRecord {
        &self.seen.row
    }
}

fn side_is(side: &AggregateSide, lease: &LiveLease) -> bool {
    lease.is_of(&side.owner_id, side.owner_lease_generation)
}

/// The record in this phase, and this lease the one of the side that acts in it.
fn acts(record: &AggregateRecord, phase: AggregatePhase, held: &HeldLease) -> bool {
    let side = match phase {
        AggregatePhase::Preparing | AggregatePhase::Aborted => Some(&record.source),
        AggregatePhase::Committed | AggregatePhase::Activated => record.target.as_ref(),
    };
    record.phase == phase && side.is_some_and(|side| side_is(side, held.lease()))
}

fn unexpected() -> LocationError {
    LocationError::conflict(Conflict::Aggregate)
}

fn change(key: spotlane_store::StoreKey, first: First, held: &HeldLease, effect: Effect) -> Change {
    Change {
        key,
        first,
        fence: Fence {
            lease: held.lease().clone(),
            whose: Whose::Own,
        },
        descriptor: None,
        effect,
        also: None,
        extra: Vec::new(),
        incarnation: None,
    }
}

impl<P: StoreProvider, T: Timing> Repository<P, T> {
    /// Stores the pages and then the record (ST-83, ST-84). Nothing is moved by it: the source stays the owner (ST-86).
    ///
    /// # Errors
    /// By recovery, as [`Repository::preserve`](Repository::preserve); `FixCall` when the list lacks the Spot or the
    /// source is another host; a conflict when the row of the Spot is not in the version of the list any more.
    pub async fn prepare_aggregate(
        &self,
        held: &HeldLease,
        relocation: RelocationId,
        spot: AggregateSpot,
        source: AggregateSide,
        list: &MemberList,
        until: Monotonic,
    ) -> Result<HeldAggregate, LocationError> {
        let mut effort = self.admitted(held, until)?;
        if !side_is(&source, held.lease()) {
            return Err(LocationError::Call {
                rule: "the source of an aggregate is the holder of the lease",
            });
        }
        let entry = list.spot(&spot).ok_or(LocationError::Call {
            rule: "the spot of a unit is in its list",
        })?;
        // Without it, a record that was written, committed and removed behind a lost answer would be written once more.
        let sealed = Condition::Version(key::authority(&entry.object), entry.store_version.clone());
        self.put_pages(&mut effort, held, list).await?;
        let record = AggregateRecord {
            record_version: V1,
            relocation_id: relocation,
            phase: AggregatePhase::Preparing,
            spot,
            source,
            target: None,
            authority_owner_generation: None,
            list_root: list.root(),
            entry_count: list.count(),
            digest_sha256: list.digest(),
        };
        let effect = Effect::Aggregate(record, Issues::None);
        let mut change = change(key::aggregate(relocation), First::Missing, held, effect);
        change.also = Some(sealed);
        self.run_aggregate(&mut effort, change).await
    }

    async fn run_aggregate(
        &self,
        effort: &mut Effort<'_, P, T>,
        change: Change,
    ) -> Result<HeldAggregate, LocationError> {
        let key = change.key.clone();
        let found = self.run(effort, change).await?.row;
        let rule = "a record is read as it was written; please report this";
        let found = found.ok_or_else(|| RecordError::contradiction(&key, rule))?;
        Ok(HeldAggregate {
            seen: Seen::read(&key, found)?,
        })
    }

    /// One step of the record from the phase in which it was seen.
    async fn advance(
        &self,
        effort: &mut Effort<'_, P, T>,
        held: &HeldLease,
        seen: &Seen<AggregateRecord>,
        effect: Effect,
    ) -> Result<HeldAggregate, LocationError> {
        let key = key::aggregate(seen.row.relocation_id);
        let first = First::At(seen.version.clone());
        self.run_aggregate(effort, change(key, first, held, effect))
            .await
    }

    /// Takes the Spot and all its members at once, with one generation for all (ST-87). The caller has restored the unit;
    /// nobody but the prepared target may call this (RL-20).
    ///
    /// # Errors
    /// By recovery, as [`Repository::new_owner`](Repository::new_owner).
    pub async fn commit_aggregate(
        &self,
        held: &HeldLease,
        aggregate: &VerifiedAggregate,
        target: AggregateSide,
        until: Monotonic,
    ) -> Result<HeldAggregate, LocationError> {
        let mut effort = self.admitted(held, until)?;
        if !side_is(&target, held.lease()) {
            return Err(LocationError::Call {
                rule: "the target of an aggregate is the holder of the lease",
            });
        }
        let mut record = aggregate.record().clone();
        record.phase = AggregatePhase::Committed;
        record.target = Some(target);
        let effect = Effect::Aggregate(record, Issues::Owner);
        self.advance(&mut effort, held, &aggregate.listed.seen, effect)
            .await
    }

    /// Notes that the target's dispatch has opened (ST-86).
    ///
    /// # Errors
    /// By recovery, as [`Repository::commit_aggregate`].
    pub async fn activate_aggregate(
        &self,
        held: &HeldLease,
        aggregate: &HeldAggregate,
        until: Monotonic,
    ) -> Result<HeldAggregate, LocationError> {
        let step = (AggregatePhase::Committed, AggregatePhase::Activated);
        self.step_aggregate(held, aggregate, step, until).await
    }

    /// Gives the move up before its commit; the source stays the owner (ST-89). Afterwards it removes the pointers with
    /// [`Repository::unpoint_rows`] and the record with [`Repository::finish_aggregate`].
    ///
    /// # Errors
    /// By recovery, as [`Repository::commit_aggregate`]; a conflict when the target was first.
    pub async fn abort_aggregate(
        &self,
        held: &HeldLease,
        aggregate: &HeldAggregate,
        until: Monotonic,
    ) -> Result<HeldAggregate, LocationError> {
        let step = (AggregatePhase::Preparing, AggregatePhase::Aborted);
        self.step_aggregate(held, aggregate, step, until).await
    }

    async fn step_aggregate(
        &self,
        held: &HeldLease,
        aggregate: &HeldAggregate,
        (from, to): (AggregatePhase, AggregatePhase),
        until: Monotonic,
    ) -> Result<HeldAggregate, LocationError> {
        let mut effort = self.admitted(held, until)?;
        if !acts(aggregate.record(), from, held) {
            return Err(unexpected());
        }
        let mut record = aggregate.record().clone();
        record.phase = to;
        let effect = Effect::Aggregate(record, Issues::None);
        self.advance(&mut effort, held, &aggregate.seen, effect)
            .await
    }

    /// Removes the record and then the pages, when no row of the list points at it any more (ST-88, ST-89).
    ///
    /// # Errors
    /// By recovery, as [`Repository::preserve`](Repository::preserve); a conflict while a row still points at the record.
    pub async fn finish_aggregate(
        &self,
        held: &HeldLease,
        aggregate: HeldAggregate,
        list: &MemberList,
        until: Monotonic,
    ) -> Result<(), LocationError> {
        let mut effort = self.admitted(held, until)?;
        let record = aggregate.record();
        let over = [AggregatePhase::Activated, AggregatePhase::Aborted];
        if !over.into_iter().any(|phase| acts(record, phase, held)) || !list.is_of(record) {
            return Err(unexpected());
        }
        self.no_row_points(&mut effort, record.relocation_id, list)
            .await?;
        let key = key::aggregate(record.relocation_id);
        let first = First::At(aggregate.seen.version.clone());
        self.run(&mut effort, change(key, first, held, Effect::Gone))
            .await?;
        self.delete_pages(&mut effort, held, list).await
    }
}
