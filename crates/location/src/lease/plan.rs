//! What to write for a lease, and what an answer means. Pure: time and observations are arguments.

use spotlane_store::{Condition, Mutation, ReadOutcome, StoreTime, StoreValue, Ttl, WriteRequest};
use spotlane_types::generation::OwnerLeaseGeneration;
use spotlane_types::id::OwnerId;
use spotlane_types::time::Monotonic;

use super::{HeldLease, LeaseSettings, LiveLease};
use crate::counter::{Issue, Reading};
use crate::error::{Conflict, LocationError, Stale};
use crate::key;
use crate::record::{OwnerLeaseRow, Record as _, RecordError, V1};

/// A claim that is ready to be sent.
pub(super) struct Claim {
    pub(super) lease: LiveLease,
    pub(super) request: WriteRequest,
}

/// Plans a claim from what the store shows (ST-62).
///
/// `unsettled` is the generation of an earlier claim of this very host whose outcome nobody knows: a lease of that
/// generation is its own. Any other live lease is a conflict, since an owner id is never used twice (ST-60).
pub(super) fn claim(
    owner: &OwnerId,
    unsettled: Option<OwnerLeaseGeneration>,
    lease: ReadOutcome,
    counter: Reading,
    settings: &LeaseSettings,
) -> Result<Claim, LocationError> {
    let key = key::owner_lease(owner);
    let ttl = Ttl::new(settings.ttl())?;
    if let Some(live) = LiveLease::of(&key, lease)? {
        if unsettled != Some(live.generation) {
            return Err(LocationError::conflict(Conflict::LeaseHeld));
        }
        return renewal(&live, ttl).map(|request| Claim {
            lease: live,
            request,
        });
    }
    let Issue {
        number,
        condition,
        mutation,
        ..
    } = counter.issue()?;
    let generation =
        OwnerLeaseGeneration::new(number).map_err(|_| LocationError::GenerationExhausted {
            counter: counter.counter(),
        })?;
    let row = OwnerLeaseRow {
        record_version: V1,
        owner_id: owner.clone(),
        lease_generation: generation,
    };
    let value = StoreValue::new(row.encode())?;
    let put = Mutation::Put {
        key: key.clone(),
        value: value.clone(),
        ttl: Some(ttl),
    };
    // ST-52: the counter and the row that uses it change in the same batch.
    let request = WriteRequest::new(
        vec![Condition::Missing(key), condition],
        vec![put, mutation],
    )?;
    let lease = LiveLease {
        owner: owner.clone(),
        generation,
        value,
    };
    Ok(Claim { lease, request })
}

/// The same bytes with a new time to live (ST-62, RL-282).
pub(super) fn renewal(lease: &LiveLease, ttl: Ttl) -> Result<WriteRequest, LocationError> {
    let put = Mutation::Put {
        key: lease.key(),
        value: lease.value.clone(),
        ttl: Some(ttl),
    };
    Ok(WriteRequest::new(vec![lease.condition()], vec![put])?)
}

/// Removes the lease of this run and of no other.
pub(super) fn release(lease: &LiveLease) -> Result<WriteRequest, LocationError> {
    let delete = Mutation::Delete { key: lease.key() };
    Ok(WriteRequest::new(vec![lease.condition()], vec![delete])?)
}

/// What a read says of a lease that this host thinks it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is there.
    Ours,
    /// It is not.
    Lost(Stale),
}

/// Judges a read (ST-61, ST-62).
pub(super) fn standing(lease: &LiveLease, outcome: ReadOutcome) -> Result<Standing, RecordError> {
    Ok(match LiveLease::of(&lease.key(), outcome)? {
        Some(found) if found == *lease => Standing::Ours,
        Some(_) => Standing::Lost(Stale::Replaced),
        None => Standing::Lost(Stale::Missing),
    })
}

/// The lease that the store confirmed, with its deadline.
///
/// RL-283: counted from the monotonic time *before* the request was sent, because the store may have read its clock any
/// time after it; the time after the answer could only make the deadline later than what the store will do.
pub(super) fn confirmed(
    lease: LiveLease,
    sent: Monotonic,
    store_now: StoreTime,
    expires_at: StoreTime,
    settings: &LeaseSettings,
) -> HeldLease {
    let lives = store_now.until(expires_at);
    let deadline = sent.after(lives.saturating_sub(settings.fencing_margin()));
    HeldLease { lease, deadline }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// ST-61, RL-283
    #[test]
    fn the_deadline_counts_from_before_the_request_and_is_short_of_the_expiry() {
        let lease = LiveLease {
            owner: OwnerId::new("owner").unwrap(),
            generation: OwnerLeaseGeneration::new(1).unwrap(),
            value: StoreValue::new(&b"x"[..]).unwrap(),
        };
        let at = |seconds| Monotonic::from_origin(Duration::from_secs(seconds));
        let store = |seconds: u64| StoreTime::from_unix_millis(seconds * 1_000);
        let held = confirmed(
            lease,
            at(100),
            store(7_000),
            store(7_015),
            &LeaseSettings::default(),
        );
        assert_eq!(held.deadline(), at(110));
        assert!(held.admits(at(109)));
        assert!(!held.admits(at(110)));
    }
}
