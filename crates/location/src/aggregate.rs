//! The owner change of a whole `SpotWide` unit: one compare-and-set on one record (ST-83 to ST-89, RL-15, RL-122).
//!
//! In order: the source lets every row point at the record ([`Repository::point_at_aggregate`]), stores the list and the
//! record ([`Repository::prepare_aggregate`]); the target reads both back ([`Repository::read_aggregate`]), and with its
//! unit restored takes all of it at once ([`Repository::commit_aggregate`]); then it opens dispatch
//! ([`Repository::activate_aggregate`]), writes each row in its own name ([`Repository::settle_row`]) and removes the
//! record ([`Repository::finish_aggregate`]). Before the commit the source may give up
//! ([`Repository::abort_aggregate`]).

use std::time::Duration;

use spotlane_store::{Condition, Mutation, StoreKey, StoreProvider, StoreValue, Ttl, WriteRequest};
use spotlane_types::id::RelocationId;
use spotlane_types::kind::RelocationPhase;
use spotlane_types::time::Monotonic;
use spotlane_wire::authority::AuthorityPayload;

use crate::authority::{
    self, ActiveObject, Authority, Change, Effect, Fence, First, Issues, Whose,
};
use crate::effort::{Answer, Effort};
use crate::error::{Conflict, LocationError, Stale};
use crate::key;
use crate::lease::{HeldLease, LiveLease};
use crate::member_list::{ListReader, MemberList};
use crate::record::{
    AggregatePhase, AggregateRecord, AggregateSide, AggregateSpot, PageEntry, RecordError, Seen, V1,
};
use crate::repository::Repository;
use crate::time::Timing;

/// How long pages live; they are put anew while the record lives (ST-84).
pub const PAGE_TTL: Duration = Duration::from_hours(24);

/// The record of a move with its list, read back and found to agree (ST-87).
#[derive(Clone, Debug)]
#[must_use]
pub struct VerifiedAggregate {
    seen: Seen<AggregateRecord>,
    list: MemberList,
}

impl VerifiedAggregate {
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

fn change(
    seen: &Seen<AggregateRecord>,
    held: &HeldLease,
    record: AggregateRecord,
    issues: Issues,
) -> Change {
    Change {
        key: key::aggregate(record.relocation_id),
        first: First::At(seen.version.clone()),
        fence: Fence {
            lease: held.lease().clone(),
            whose: Whose::Own,
        },
        descriptor: None,
        effect: Effect::Aggregate(record, issues),
        extra: Vec::new(),
        incarnation: None,
    }
}

impl<P: StoreProvider, T: Timing> Repository<P, T> {
    /// Lets one row point at the record of the move (ST-85); the version it returns goes into the list.
    ///
    /// # Errors
    /// By recovery, as [`Repository::preserve`](Repository::preserve); `FixCall` when the payload has no pointer in the
    /// phase preparing.
    pub async fn point_at_aggregate(
        &self,
        held: &HeldLease,
        active: &ActiveObject,
        payload: &AuthorityPayload,
        until: Monotonic,
    ) -> Result<(ActiveObject, PageEntry), LocationError> {
        let mut effort = self.admitted(held, until)?;
        let preparing = payload.relocation_state.as_ref().map(|state| state.phase);
        if authority::aggregate_of(payload).is_none()
            || preparing != Some(RelocationPhase::Preparing)
        {
            return Err(LocationError::Call {
                rule: "the payload points at an aggregate that is being prepared",
            });
        }
        let change = authority::preserve(active, held, payload)?;
        let pointed = Self::active(active.object(), self.run(&mut effort, change).await?)?;
        let entry = PageEntry {
            object: pointed.object().clone(),
            object_generation: pointed.row().object_generation,
            store_version: pointed.version().clone(),
        };
        Ok((pointed, entry))
    }

    /// Stores the pages and then the record (ST-83, ST-84). Nothing is moved by it: the source stays the owner (ST-86).
    ///
    /// # Errors
    /// By recovery, as [`Repository::preserve`](Repository::preserve).
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
        let change = Change {
            key: key::aggregate(relocation),
            first: First::Missing,
            fence: Fence {
                lease: held.lease().clone(),
                whose: Whose::Own,
            },
            descriptor: None,
            effect: Effect::Aggregate(record, Issues::None),
            extra: Vec::new(),
            incarnation: None,
        };
        self.run_aggregate(&mut effort, change).await
    }

    /// Puts all pages, for the first time or to renew them (ST-84).
    ///
    /// # Errors
    /// By recovery, as [`Repository::preserve`](Repository::preserve).
    pub async fn renew_pages(
        &self,
        held: &HeldLease,
        list: &MemberList,
        until: Monotonic,
    ) -> Result<(), LocationError> {
        let mut effort = self.admitted(held, until)?;
        self.put_pages(&mut effort, held, list).await
    }

    async fn put_pages(
        &self,
        effort: &mut Effort<'_, P, T>,
        held: &HeldLease,
        list: &MemberList,
    ) -> Result<(), LocationError> {
        let ttl = Ttl::new(PAGE_TTL)?;
        for (key, bytes) in list.pages() {
            let put = Mutation::Put {
                key,
                value: StoreValue::new(bytes.clone())?,
                ttl: Some(ttl),
            };
            self.send(effort, held, vec![], vec![put]).await?;
        }
        Ok(())
    }

    /// Sends what may be sent twice: puts of pages that are named by their bytes, and removals.
    async fn send(
        &self,
        effort: &mut Effort<'_, P, T>,
        held: &HeldLease,
        mut conditions: Vec<Condition>,
        mutations: Vec<Mutation>,
    ) -> Result<(), LocationError> {
        conditions.push(held.lease().condition());
        loop {
            let request = WriteRequest::new(conditions.clone(), mutations.clone())?;
            let answer = effort.write(request).await?;
            if let Answer::Applied(_) = answer {
                effort.settled();
                return Ok(());
            }
            let key = held.lease().key();
            match LiveLease::of(&key, effort.read(&key).await?)? {
                Some(live) if live == *held.lease() => {}
                Some(_) => return Err(LocationError::stale(Stale::Replaced)),
                None => return Err(LocationError::stale(Stale::Missing)),
            }
            if matches!(answer, Answer::Conflict) {
                effort.pause().await?;
            }
        }
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

    /// Reads a record and its whole list, and compares root, count and digest (ST-87).
    ///
    /// # Errors
    /// By recovery: `ReadThenDecide` (a conflict) when record or pages are gone; `GiveUp` when a page or the list is not
    /// what the record says; `Retry` when the store was not reached.
    pub async fn read_aggregate(
        &self,
        relocation: RelocationId,
        until: Monotonic,
    ) -> Result<VerifiedAggregate, LocationError> {
        let mut effort = self.effort(until);
        let record_key = key::aggregate(relocation);
        let gone = || LocationError::conflict(Conflict::Gone);
        let found = effort.read(&record_key).await?.found().ok_or_else(gone)?;
        let seen = Seen::<AggregateRecord>::read(&record_key, found)?;
        let mut reader = ListReader::new(&seen.row);
        while let Some((key, level)) = reader.next() {
            let page = effort.read(&key).await?.found().ok_or_else(gone)?;
            reader.take(&key, level, page.value.as_bytes())?;
        }
        let list = MemberList::new(reader.finish())?;
        if !list.is_of(&seen.row) {
            let rule = "root, count and digest are those of the list";
            return Err(RecordError::contradiction(&record_key, rule).into());
        }
        Ok(VerifiedAggregate { seen, list })
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
        if aggregate.record().phase != AggregatePhase::Preparing {
            return Err(LocationError::conflict(Conflict::Aggregate));
        }
        let mut record = aggregate.record().clone();
        record.phase = AggregatePhase::Committed;
        record.target = Some(target);
        let change = change(&aggregate.seen, held, record, Issues::Owner);
        self.run_aggregate(&mut effort, change).await
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
        let mut effort = self.admitted(held, until)?;
        let record = aggregate.record();
        let ours = record
            .target
            .as_ref()
            .is_some_and(|side| side_is(side, held.lease()));
        if !ours || record.phase != AggregatePhase::Committed {
            return Err(LocationError::conflict(Conflict::Aggregate));
        }
        let mut record = record.clone();
        record.phase = AggregatePhase::Activated;
        self.run_aggregate(
            &mut effort,
            change(&aggregate.seen, held, record, Issues::None),
        )
        .await
    }

    /// Gives the move up before its commit; the source stays the owner (ST-89). Afterwards it removes the pointers with
    /// [`Repository::unpoint`] and the record with [`Repository::finish_aggregate`].
    ///
    /// # Errors
    /// By recovery, as [`Repository::commit_aggregate`]; a conflict when the target was first.
    pub async fn abort_aggregate(
        &self,
        held: &HeldLease,
        aggregate: &HeldAggregate,
        until: Monotonic,
    ) -> Result<HeldAggregate, LocationError> {
        let mut effort = self.admitted(held, until)?;
        let record = aggregate.record();
        if !side_is(&record.source, held.lease()) || record.phase != AggregatePhase::Preparing {
            return Err(LocationError::conflict(Conflict::Aggregate));
        }
        let mut record = record.clone();
        record.phase = AggregatePhase::Aborted;
        self.run_aggregate(
            &mut effort,
            change(&aggregate.seen, held, record, Issues::None),
        )
        .await
    }

    /// Writes one row in the target's own name: owner, lease, node, the generation of the move, no pointer (ST-88).
    ///
    /// # Errors
    /// By recovery, as [`Repository::new_owner`](Repository::new_owner).
    pub async fn settle_row(
        &self,
        held: &HeldLease,
        aggregate: &HeldAggregate,
        member: &ActiveObject,
        payload: &AuthorityPayload,
        until: Monotonic,
    ) -> Result<ActiveObject, LocationError> {
        let mut effort = self.admitted(held, until)?;
        let record = aggregate.record();
        let (Some(target), Some(generation)) = (&record.target, record.authority_owner_generation)
        else {
            return Err(LocationError::conflict(Conflict::Aggregate));
        };
        let settled = record.phase == AggregatePhase::Activated && side_is(target, held.lease());
        if !settled || member.aggregate() != Some(record.relocation_id) {
            return Err(LocationError::conflict(Conflict::Aggregate));
        }
        let change = authority::settle_member(member, held, payload, generation)?;
        Self::active(member.object(), self.run(&mut effort, change).await?)
    }

    /// Removes the pointer of a move that was given up (ST-89).
    ///
    /// # Errors
    /// By recovery, as [`Repository::preserve`](Repository::preserve).
    pub async fn unpoint(
        &self,
        held: &HeldLease,
        aggregate: &HeldAggregate,
        member: &ActiveObject,
        payload: &AuthorityPayload,
        until: Monotonic,
    ) -> Result<ActiveObject, LocationError> {
        let mut effort = self.admitted(held, until)?;
        let record = aggregate.record();
        let aborted =
            record.phase == AggregatePhase::Aborted && side_is(&record.source, held.lease());
        if !aborted || member.aggregate() != Some(record.relocation_id) {
            return Err(LocationError::conflict(Conflict::Aggregate));
        }
        if authority::aggregate_of(payload).is_some() {
            return Err(LocationError::Call {
                rule: "the payload points at no aggregate",
            });
        }
        let change = authority::preserve_in_aggregate(member, held, payload)?;
        Self::active(member.object(), self.run(&mut effort, change).await?)
    }

    /// Removes the pointer to a record that was never written, after a source that failed before (ST-86, ST-89).
    ///
    /// Only the owner in the row can write that record, and only the owner can call this.
    ///
    /// # Errors
    /// By recovery, as [`Repository::preserve`](Repository::preserve); a conflict when there is a record.
    pub async fn unpoint_unprepared(
        &self,
        held: &HeldLease,
        member: &ActiveObject,
        payload: &AuthorityPayload,
        until: Monotonic,
    ) -> Result<ActiveObject, LocationError> {
        let mut effort = self.admitted(held, until)?;
        let relocation = member
            .aggregate()
            .filter(|_| authority::aggregate_of(payload).is_none());
        let relocation = relocation.ok_or(LocationError::Call {
            rule: "the row points at an aggregate and the payload does not",
        })?;
        if effort
            .read(&key::aggregate(relocation))
            .await?
            .found()
            .is_some()
        {
            return Err(LocationError::conflict(Conflict::Aggregate));
        }
        let change = authority::preserve_in_aggregate(member, held, payload)?;
        Self::active(member.object(), self.run(&mut effort, change).await?)
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
        let over = match record.phase {
            AggregatePhase::Preparing | AggregatePhase::Committed => false,
            AggregatePhase::Activated => record
                .target
                .as_ref()
                .is_some_and(|side| side_is(side, held.lease())),
            AggregatePhase::Aborted => side_is(&record.source, held.lease()),
        };
        if !over || !list.is_of(record) {
            return Err(LocationError::conflict(Conflict::Aggregate));
        }
        // A pointer without its record would be read as the owner in the row (ST-86), which after a commit is the former.
        for entry in list.entries() {
            let outcome = effort.read(&key::authority(&entry.object)).await?;
            if let Authority::Active(active) = Authority::of(&entry.object, outcome)?
                && active.aggregate() == Some(record.relocation_id)
            {
                return Err(LocationError::conflict(Conflict::InAggregate));
            }
        }
        let mut gone = change(&aggregate.seen, held, record.clone(), Issues::None);
        gone.effect = Effect::Gone;
        self.run(&mut effort, gone).await?;
        let keys: Vec<StoreKey> = list.pages().map(|(key, _)| key).collect();
        for some in keys.chunks(1_000) {
            let deletes = some
                .iter()
                .map(|key| Mutation::Delete { key: key.clone() })
                .collect();
            self.send(&mut effort, held, vec![], deletes).await?;
        }
        Ok(())
    }
}
