//! The list of a move in the store: its pages, and the look of a target at all that it is about to take (ST-84, ST-87).

use std::time::Duration;

use spotlane_store::{Condition, Mutation, StoreProvider, StoreValue, Ttl, WriteRequest};
use spotlane_types::id::RelocationId;
use spotlane_types::time::Monotonic;

use super::{ListedAggregate, VerifiedAggregate, unexpected};
use crate::authority::{ActiveObject, Authority};
use crate::effort::{Answer, Effort};
use crate::error::{Conflict, LocationError, Stale};
use crate::key;
use crate::lease::{HeldLease, LiveLease};
use crate::member_list::{ListReader, MemberList};
use crate::record::{AggregatePhase, AggregateRecord, PageEntry, RecordError, Seen};
use crate::repository::Repository;
use crate::rewrite::{BATCH_RECORDS_MAX, fitting};
use crate::time::Timing;

/// How long pages live; they are put anew while the record lives (ST-84).
pub const PAGE_TTL: Duration = Duration::from_hours(24);

/// Whether a row is what its entry says of it: the same incarnation in the same version, of the source, and pointing at
/// this move. Nobody but the move changes a row that points at it (ST-85), so one that differs was never part of it.
fn is_as_listed(row: &ActiveObject, entry: &PageEntry, record: &AggregateRecord) -> bool {
    let there = row.row();
    row.aggregate() == Some(record.relocation_id)
        && *row.version() == entry.store_version
        && there.object_generation == entry.object_generation
        && there.owner_id == record.source.owner_id
        && there.owner_lease_generation == record.source.owner_lease_generation
}

impl<P: StoreProvider, T: Timing> Repository<P, T> {
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

    pub(super) async fn put_pages(
        &self,
        effort: &mut Effort<'_, P, T>,
        held: &HeldLease,
        list: &MemberList,
    ) -> Result<(), LocationError> {
        let ttl = Ttl::new(PAGE_TTL)?;
        let puts = list.pages().map(|(key, bytes)| {
            let value = StoreValue::new(bytes.clone())?;
            let ttl = Some(ttl);
            Ok(Mutation::Put { key, value, ttl })
        });
        let puts = puts.collect::<Result<Vec<_>, LocationError>>()?;
        self.send_all(effort, held, &puts).await
    }

    pub(super) async fn delete_pages(
        &self,
        effort: &mut Effort<'_, P, T>,
        held: &HeldLease,
        list: &MemberList,
    ) -> Result<(), LocationError> {
        let deletes: Vec<_> = list
            .pages()
            .map(|(key, _)| Mutation::Delete { key })
            .collect();
        self.send_all(effort, held, &deletes).await
    }

    /// Sends what may be sent twice, in batches: puts of pages that are named by their bytes, and removals.
    async fn send_all(
        &self,
        effort: &mut Effort<'_, P, T>,
        held: &HeldLease,
        mutations: &[Mutation],
    ) -> Result<(), LocationError> {
        let conditions = [held.lease().condition()];
        let mut rest = mutations;
        while !rest.is_empty() {
            let sizes = rest.iter().map(Mutation::encoded_bytes);
            let (batch, after) = rest.split_at(fitting(&conditions, sizes));
            self.send(effort, held, &conditions, batch).await?;
            rest = after;
        }
        Ok(())
    }

    async fn send(
        &self,
        effort: &mut Effort<'_, P, T>,
        held: &HeldLease,
        conditions: &[Condition],
        mutations: &[Mutation],
    ) -> Result<(), LocationError> {
        let request = WriteRequest::new(conditions.to_vec(), mutations.to_vec())?;
        loop {
            let answer = effort.write(request.clone()).await?;
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

    /// Reads a record and its whole list, and compares root, count and digest. Whoever goes on with a move after a crash
    /// begins here; a target takes [`Repository::verify_aggregate`].
    ///
    /// # Errors
    /// By recovery: `ReadThenDecide` (a conflict) when record or pages are gone; `GiveUp` when a page or the list is not
    /// what the record says; `Retry` when the store was not reached.
    pub async fn read_aggregate(
        &self,
        relocation: RelocationId,
        until: Monotonic,
    ) -> Result<ListedAggregate, LocationError> {
        self.listed(&mut self.effort(until), relocation).await
    }

    async fn listed(
        &self,
        effort: &mut Effort<'_, P, T>,
        relocation: RelocationId,
    ) -> Result<ListedAggregate, LocationError> {
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
        if !list.is_of(&seen.row) || list.spot(&seen.row.spot).is_none() {
            let rule = "root, count, digest and spot are those of the list";
            return Err(RecordError::contradiction(&record_key, rule).into());
        }
        Ok(ListedAggregate { seen, list })
    }

    /// What a target does before its commit (ST-87): reads record and list, compares root, count and digest, and compares
    /// each row with the incarnation and the version that the list has of it. Neither can change until the commit.
    ///
    /// # Errors
    /// As [`Repository::read_aggregate`]; also a conflict when the move is not being prepared any more, or when a row is
    /// not the one that the list names.
    pub async fn verify_aggregate(
        &self,
        relocation: RelocationId,
        until: Monotonic,
    ) -> Result<VerifiedAggregate, LocationError> {
        let mut effort = self.effort(until);
        let listed = self.listed(&mut effort, relocation).await?;
        if listed.record().phase != AggregatePhase::Preparing {
            return Err(unexpected());
        }
        let mut members = Vec::with_capacity(listed.list.entries().len());
        for entries in listed.list.entries().chunks(BATCH_RECORDS_MAX) {
            let keys: Vec<_> = entries.iter().map(|e| key::authority(&e.object)).collect();
            let outcomes = effort.read_all(&keys).await?;
            for (entry, outcome) in entries.iter().zip(outcomes) {
                match Authority::of(&entry.object, outcome)? {
                    Authority::Active(row) if is_as_listed(&row, entry, listed.record()) => {
                        members.push(row);
                    }
                    Authority::Missing | Authority::Reserved(_) | Authority::Active(_) => {
                        return Err(unexpected());
                    }
                }
            }
        }
        Ok(VerifiedAggregate { listed, members })
    }
}
