//! The owner lease of a host: the one thing that says that it runs and may write (ST-60 to ST-63).
//!
//! The module `plan` decides, with time as an argument; [`LeaseKeeper`] sends. A [`HeldLease`] is the only way to act for a host:
//! it comes from a claim or a renewal that the store confirmed, and from nothing else.

mod keeper;
mod plan;
mod settings;

use spotlane_store::{Condition, ReadOutcome, StoreKey, StoreValue};
use spotlane_types::generation::OwnerLeaseGeneration;
use spotlane_types::id::OwnerId;
use spotlane_types::time::Monotonic;

pub use keeper::LeaseKeeper;
pub use settings::{LeaseSettingError, LeaseSettings};

use crate::key;
use crate::record::{OwnerLeaseRow, RecordError, Seen};

/// A lease that the store showed as live: owner, run, and the exact bytes that fence a batch (ST-3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveLease {
    owner: OwnerId,
    generation: OwnerLeaseGeneration,
    value: StoreValue,
}

impl LiveLease {
    /// Judges an observation of a lease: `None` when there is none or it has expired.
    ///
    /// # Errors
    /// [`RecordError`], by recovery `GiveUp`: the row is malformed, or has no expiry, which is corruption and not the same
    /// as an expired lease (ST-80).
    pub fn of(key: &StoreKey, outcome: ReadOutcome) -> Result<Option<Self>, RecordError> {
        let Some(found) = outcome.found() else {
            return Ok(None);
        };
        let seen = Seen::<OwnerLeaseRow>::read(key, found)?;
        let Some(expires_at) = seen.expires_at else {
            return Err(RecordError::expiry(key, "an owner lease expires"));
        };
        let live = expires_at > seen.store_now;
        Ok(live.then_some(Self {
            owner: seen.row.owner_id,
            generation: seen.row.lease_generation,
            value: seen.bytes,
        }))
    }

    /// The host.
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Its run.
    pub fn generation(&self) -> OwnerLeaseGeneration {
        self.generation
    }

    /// Whether it is the lease of this host in this run.
    pub fn is_of(&self, owner: &OwnerId, generation: OwnerLeaseGeneration) -> bool {
        self.owner == *owner && self.generation == generation
    }

    pub(crate) fn key(&self) -> StoreKey {
        key::owner_lease(&self.owner)
    }

    /// The lease is there and has exactly these bytes: its renewal changes the version, never them (ST-3).
    pub(crate) fn condition(&self) -> Condition {
        Condition::Value(self.key(), self.value.clone())
    }
}

/// The lease of this host, with its local admission deadline.
///
/// A value of this type never changes; each renewal gives a new one with a later deadline. Whoever acts takes the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    lease: LiveLease,
    deadline: Monotonic,
}

impl HeldLease {
    /// The lease.
    pub fn lease(&self) -> &LiveLease {
        &self.lease
    }

    /// Until when the host may start anything (ST-61, RL-283).
    pub fn deadline(&self) -> Monotonic {
        self.deadline
    }

    /// Whether the host may start anything now: publish, take a message or timer, confirm a factory or restore, change a
    /// relocation (ST-61, RL-284).
    pub fn admits(&self, now: Monotonic) -> bool {
        now < self.deadline
    }
}
