//! Writes many rows of one host as few batches, each until its outcome is known (ST-85, ST-88, ST-89).

use spotlane_store::bound::REQUEST_BYTES_MAX;
use spotlane_store::{
    Condition, Found, Mutation, ReadOutcome, StoreKey, StoreProvider, StoreValue, WriteRequest,
};
use spotlane_types::authority_key::AuthorityKey;

use crate::authority::{ActiveObject, Authority, Change, Settled, holds};
use crate::effort::{Answer, Effort};
use crate::error::{Conflict, LocationError, Stale};
use crate::lease::{HeldLease, LiveLease};
use crate::record::RecordError;
use crate::repository::Repository;
use crate::time::Timing;

/// Most records of one batch. ST-4 allows more; a store should not be busy with one batch for long.
pub(crate) const BATCH_RECORDS_MAX: usize = 512;

/// How many records of these sizes, from the first on, go into one batch beside what each batch repeats (ST-4, RL-18).
///
/// One always does: a row, a page and their conditions are far below the bound.
pub(crate) fn fitting(repeated: &[Condition], sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes: usize = repeated.iter().map(Condition::encoded_bytes).sum();
    let fit = sizes.take(BATCH_RECORDS_MAX).take_while(|size| {
        bytes = bytes.saturating_add(*size);
        bytes <= REQUEST_BYTES_MAX
    });
    fit.count().max(1)
}

/// What becomes of one row.
pub(crate) enum Rewrite {
    /// It is as it should be already.
    Keep(ActiveObject),
    /// It is written; the change issues no generation and removes nothing.
    Write(AuthorityKey, Change),
}

/// What each batch is fenced by, beside the versions of its rows.
#[derive(Clone, Copy)]
pub(crate) struct Guard<'a> {
    pub(crate) held: &'a HeldLease,
    /// What must hold of the record of the move.
    pub(crate) record: Option<&'a Condition>,
}

impl Guard<'_> {
    fn conditions(&self) -> Vec<Condition> {
        let lease = self.held.lease().condition();
        std::iter::once(lease).chain(self.record.cloned()).collect()
    }

    /// Whether a batch that found no row changed may be sent again; otherwise why not.
    fn stands(&self, outcomes: &[ReadOutcome]) -> Result<(), LocationError> {
        let mut outcomes = outcomes.iter().cloned();
        if let Some(lease) = outcomes.next() {
            match LiveLease::of(&self.held.lease().key(), lease)? {
                Some(live) if live == *self.held.lease() => {}
                Some(_) => return Err(LocationError::stale(Stale::Replaced)),
                None => return Err(LocationError::stale(Stale::Missing)),
            }
        }
        let record = self.record.zip(outcomes.next());
        if record.is_some_and(|(record, outcome)| !holds(record, outcome)) {
            return Err(LocationError::conflict(Conflict::Aggregate));
        }
        Ok(())
    }
}

/// A row that is ready to be written.
struct Ready {
    object: AuthorityKey,
    change: Change,
    condition: Condition,
    value: StoreValue,
    put: Mutation,
}

impl Ready {
    fn of(object: AuthorityKey, change: Change) -> Result<Self, LocationError> {
        let rule = "a row that is written in a batch is not removed; please report this";
        let value = change.value()?;
        let value = value.ok_or_else(|| RecordError::contradiction(&change.key, rule))?;
        let put = Mutation::Put {
            key: change.key.clone(),
            value: value.clone(),
            ttl: None,
        };
        Ok(Self {
            object,
            condition: change.condition(),
            change,
            value,
            put,
        })
    }

    fn bytes(&self) -> usize {
        let condition = self.condition.encoded_bytes();
        condition.saturating_add(self.put.encoded_bytes())
    }

    fn written(&self, found: Found) -> Result<ActiveObject, LocationError> {
        match Authority::of(&self.object, ReadOutcome::Found(found))? {
            Authority::Active(active) => Ok(active),
            Authority::Missing | Authority::Reserved(_) => {
                let rule = "a row is read as it was written; please report this";
                Err(RecordError::contradiction(&self.change.key, rule).into())
            }
        }
    }
}

impl<P: StoreProvider, T: Timing> Repository<P, T> {
    /// Writes rows in batches, each atomic. On an error those of earlier batches are written.
    pub(crate) async fn rewrite(
        &self,
        effort: &mut Effort<'_, P, T>,
        guard: Guard<'_>,
        rewrites: Vec<Rewrite>,
    ) -> Result<Vec<ActiveObject>, LocationError> {
        let (mut rows, mut ready) = (Vec::with_capacity(rewrites.len()), Vec::new());
        for rewrite in rewrites {
            rows.push(match rewrite {
                Rewrite::Keep(row) => Some(row),
                Rewrite::Write(object, change) => {
                    ready.push(Ready::of(object, change)?);
                    None
                }
            });
        }
        let repeated = guard.conditions();
        let mut written = Vec::with_capacity(ready.len());
        let mut rest = ready.as_slice();
        while !rest.is_empty() {
            let count = fitting(&repeated, rest.iter().map(Ready::bytes));
            let (batch, after) = rest.split_at(count);
            written.extend(self.write_rows(effort, guard, &repeated, batch).await?);
            rest = after;
        }
        let mut written = written.into_iter();
        let rows = rows.into_iter().map(|row| row.or_else(|| written.next()));
        Ok(rows.flatten().collect())
    }

    /// One batch: all its rows or none (ST-2), settled like the change of a single row (ST-71, ST-72).
    async fn write_rows(
        &self,
        effort: &mut Effort<'_, P, T>,
        guard: Guard<'_>,
        repeated: &[Condition],
        batch: &[Ready],
    ) -> Result<Vec<ActiveObject>, LocationError> {
        let mut conditions = repeated.to_vec();
        conditions.extend(batch.iter().map(|row| row.condition.clone()));
        let puts: Vec<Mutation> = batch.iter().map(|row| row.put.clone()).collect();
        let request = WriteRequest::new(conditions, puts)?;
        let rows = batch.iter().map(|row| row.change.key.clone());
        let guards = repeated.iter().map(|condition| condition.key().clone());
        let keys: Vec<StoreKey> = rows.chain(guards).collect();
        loop {
            let answer = effort.write(request.clone()).await?;
            if let Answer::Applied(applied) = answer {
                effort.settled();
                let store_now = applied.store_now;
                let versions = batch.iter().zip(applied.versions);
                let founds = versions.map(|(row, version)| {
                    row.written(Found {
                        value: row.value.clone(),
                        version,
                        expires_at: None,
                        store_now,
                    })
                });
                return founds.collect();
            }
            let outcomes = effort.read_all(&keys).await?;
            effort.settled();
            let unknown = matches!(answer, Answer::Unknown);
            let (rows, guards) = outcomes.split_at(batch.len().min(outcomes.len()));
            if let Some(written) = settle(batch, rows, unknown)? {
                return Ok(written);
            }
            guard.stands(guards)?;
            if matches!(answer, Answer::Conflict) {
                effort.pause().await?;
            }
        }
    }
}

/// `None`: no row has changed. As a batch is atomic, some rows of ours and some as before are another's work.
fn settle(
    batch: &[Ready],
    rows: &[ReadOutcome],
    unknown: bool,
) -> Result<Option<Vec<ActiveObject>>, LocationError> {
    let mut written = Vec::with_capacity(batch.len());
    for (row, outcome) in batch.iter().zip(rows) {
        match row
            .change
            .settle(Some(&row.value), outcome.clone(), unknown)
        {
            Settled::Done(_) => {
                let found = outcome.clone().found();
                let gone = || LocationError::conflict(Conflict::Gone);
                written.push(row.written(found.ok_or_else(gone)?)?);
            }
            Settled::Lost(reason) => return Err(LocationError::conflict(reason)),
            Settled::Again => {}
        }
    }
    match written.len() {
        0 => Ok(None),
        all if all == batch.len() => Ok(Some(written)),
        _ => Err(LocationError::conflict(Conflict::Changed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> StoreKey {
        StoreKey::new(name).unwrap()
    }

    /// ST-4, ST-85, RL-18: by count, by bytes with what each batch repeats, and one at least.
    #[test]
    fn a_batch_ends_at_its_count_or_its_bytes() {
        assert_eq!(fitting(&[], std::iter::repeat_n(1, 2_000)), 512);
        assert_eq!(fitting(&[], std::iter::repeat_n(1, 3)), 3);
        let mebibyte = 1 << 20;
        assert_eq!(fitting(&[], std::iter::repeat_n(mebibyte, 9)), 4);
        let repeated = [Condition::Missing(key("lease"))];
        assert_eq!(fitting(&repeated, std::iter::repeat_n(mebibyte, 9)), 3);
        assert_eq!(fitting(&repeated, std::iter::once(REQUEST_BYTES_MAX)), 1);
    }
}
