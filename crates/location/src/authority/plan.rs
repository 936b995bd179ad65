//! A change of one row as a plan: what to send for a reading of the counters, and what an answer means. Pure.

use spotlane_store::{
    Condition, Mutation, ReadOutcome, StoreKey, StoreValue, StoreVersion, WriteRequest,
};
use spotlane_types::generation::{AuthorityOwnerGeneration, ObjectGeneration};

use crate::counter::{Counter, Reading};
use crate::error::{Conflict, LocationError, Stale};
use crate::lease::LiveLease;
use crate::record::{AggregateRecord, AuthorityRow, NodeDescriptorRow, Record as _, Seen};

/// The state that the operation began with (ST-71).
#[derive(Clone, Debug)]
pub(crate) enum First {
    Missing,
    At(StoreVersion),
}

/// Whose lease fences the batch, and so which error its loss is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Own,
    Target,
}

/// The lease that must be there, byte for byte.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    pub(crate) lease: LiveLease,
    pub(crate) whose: Whose,
}

impl Fence {
    pub(crate) fn lost(&self, stale: Stale) -> LocationError {
        match self.whose {
            Whose::Own => LocationError::stale(stale),
            Whose::Target => LocationError::conflict(Conflict::TargetLease),
        }
    }
}

/// Which generations the batch issues anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Issues {
    None,
    Owner,
    ObjectAndOwner,
}

/// Whether a condition holds of what was read.
pub(crate) fn holds(condition: &Condition, outcome: ReadOutcome) -> bool {
    match (condition, outcome.found()) {
        (Condition::Missing(_), found) => found.is_none(),
        (Condition::Version(_, version), Some(found)) => found.version == *version,
        (Condition::Value(_, value), Some(found)) => found.value == *value,
        (Condition::Version(..) | Condition::Value(..), None) => false,
    }
}

/// What becomes of the row.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Row(AuthorityRow, Issues),
    Aggregate(AggregateRecord, Issues),
    Gone,
}

/// One change of one row.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: StoreKey,
    pub(crate) first: First,
    pub(crate) fence: Fence,
    /// The descriptor of the target, by version (RL-10, RL-11).
    pub(crate) descriptor: Option<Seen<NodeDescriptorRow>>,
    pub(crate) effect: Effect,
    /// What else must hold from the first attempt to the last.
    pub(crate) also: Option<Condition>,
    /// What is written with it, such as the terminal record of a creation (RL-85).
    pub(crate) extra: Vec<Mutation>,
    /// The incarnation that a removal is about.
    pub(crate) incarnation: Option<ObjectGeneration>,
}

/// A batch that is ready to be sent.
pub(crate) struct Batch {
    pub(crate) request: WriteRequest,
    /// What the row holds once it has been applied; `None` when it is removed.
    pub(crate) value: Option<StoreValue>,
}

/// What a read says of a change that was not acknowledged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It has happened.
    Done(Option<StoreVersion>),
    /// It has not, and the row is as it was first read.
    Again,
    /// The row is another.
    Lost(Conflict),
}

impl Effect {
    /// The counters it needs, in the order in which [`Change::batch`] takes their readings.
    pub(crate) fn counters(&self) -> &'static [Counter] {
        match self {
            Self::Row(_, Issues::ObjectAndOwner) | Self::Aggregate(_, Issues::ObjectAndOwner) => {
                &[Counter::Object, Counter::AuthorityOwner]
            }
            Self::Row(_, Issues::Owner) | Self::Aggregate(_, Issues::Owner) => {
                &[Counter::AuthorityOwner]
            }
            Self::Row(_, Issues::None) | Self::Aggregate(_, Issues::None) | Self::Gone => &[],
        }
    }

    fn value(&self, numbers: &[(Counter, u64)]) -> Result<Option<StoreValue>, LocationError> {
        let number = |counter| {
            let issued = numbers.iter().find(|(of, _)| *of == counter);
            issued.map(|(_, number)| *number)
        };
        let owner = number(Counter::AuthorityOwner)
            .map(AuthorityOwnerGeneration::new)
            .transpose();
        let owner = owner.map_err(|_| LocationError::GenerationExhausted {
            counter: Counter::AuthorityOwner,
        })?;
        let object = number(Counter::Object)
            .map(ObjectGeneration::new)
            .transpose();
        let object = object.map_err(|_| LocationError::GenerationExhausted {
            counter: Counter::Object,
        })?;
        let bytes = match self {
            Self::Gone => return Ok(None),
            Self::Row(row, _) => {
                let mut row = row.clone();
                row.authority_owner_generation = owner.unwrap_or(row.authority_owner_generation);
                row.object_generation = object.unwrap_or(row.object_generation);
                row.encode()
            }
            Self::Aggregate(record, _) => {
                let mut record = record.clone();
                record.authority_owner_generation = owner.or(record.authority_owner_generation);
                record.encode()
            }
        };
        Ok(Some(StoreValue::new(bytes)?))
    }
}

impl Change {
    /// The batch for these readings of the counters (ST-52, ST-90).
    pub(crate) fn batch(&self, readings: &[Reading]) -> Result<Batch, LocationError> {
        let issues = readings
            .iter()
            .map(|reading| reading.issue())
            .collect::<Result<Vec<_>, _>>()?;
        let numbers: Vec<(Counter, u64)> = readings
            .iter()
            .zip(&issues)
            .map(|(reading, issue)| (reading.counter(), issue.number))
            .collect();
        let value = self.effect.value(&numbers)?;
        let mut conditions = vec![self.condition(), self.fence.lease.condition()];
        if let Some(descriptor) = &self.descriptor {
            conditions.push(Condition::Version(
                descriptor.row.key(),
                descriptor.version.clone(),
            ));
        }
        conditions.extend(self.also.clone());
        // The row comes first: its version is the first that an applied batch returns.
        let mut mutations = vec![match &value {
            Some(value) => Mutation::Put {
                key: self.key.clone(),
                value: value.clone(),
                ttl: None,
            },
            None => Mutation::Delete {
                key: self.key.clone(),
            },
        }];
        mutations.extend(self.extra.iter().cloned());
        for issue in issues {
            conditions.push(issue.condition);
            mutations.push(issue.mutation);
        }
        Ok(Batch {
            request: WriteRequest::new(conditions, mutations)?,
            value,
        })
    }

    /// The row is as it was first read.
    pub(crate) fn condition(&self) -> Condition {
        match &self.first {
            First::Missing => Condition::Missing(self.key.clone()),
            First::At(version) => Condition::Version(self.key.clone(), version.clone()),
        }
    }

    /// What the row will hold, for a change that issues no generation; `None` when it is removed.
    pub(crate) fn value(&self) -> Result<Option<StoreValue>, LocationError> {
        self.effect.value(&[])
    }

    /// Judges the row after a batch that was not acknowledged.
    ///
    /// `unknown` says that the batch may have been applied (ST-72); otherwise it certainly was not (ST-71, RL-17), and even a row
    /// that looks like its result is another's work.
    pub(crate) fn settle(
        &self,
        value: Option<&StoreValue>,
        row: ReadOutcome,
        unknown: bool,
    ) -> Settled {
        let found = row.found();
        let as_first_read = match (&self.first, &found) {
            (First::Missing, None) => true,
            (First::At(version), Some(found)) => found.version == *version,
            (First::Missing, Some(_)) | (First::At(_), None) => false,
        };
        // Before the comparison of values: a change that writes what was there already is told by the version alone.
        if as_first_read {
            return Settled::Again;
        }
        if unknown {
            match (&found, value) {
                (None, None) => return Settled::Done(None),
                (Some(found), Some(value)) if found.value == *value => {
                    return Settled::Done(Some(found.version.clone()));
                }
                // A later incarnation: the one that was to be removed is gone.
                (Some(found), None) if self.is_later(found.value.as_bytes()) => {
                    return Settled::Done(None);
                }
                (Some(_) | None, Some(_)) | (Some(_), None) => {}
            }
        }
        Settled::Lost(match (&self.first, found) {
            (_, None) => Conflict::Gone,
            (First::Missing, Some(_)) => Conflict::Exists,
            (First::At(_), Some(_)) => Conflict::Changed,
        })
    }

    fn is_later(&self, bytes: &[u8]) -> bool {
        AuthorityRow::decode(&self.key, bytes).is_ok_and(|row| {
            self.incarnation
                .is_some_and(|of| of != row.object_generation)
        })
    }
}
