//! Sends what [`super::plan`] decides.

use std::sync::Mutex;
use std::sync::PoisonError;

use spotlane_store::{StoreProvider, Ttl};
use spotlane_types::generation::OwnerLeaseGeneration;
use spotlane_types::id::OwnerId;

use super::plan::{self, Standing};
use super::{HeldLease, LeaseSettings, LiveLease};
use crate::counter::{Counter, Reading};
use crate::effort::{Answer, Effort};
use crate::error::LocationError;
use crate::key;
use crate::time::Timing;

/// Claims, renews and releases the lease of one host. Each call takes at most the renew timeout of the settings, and
/// besides that what one operation of the provider takes.
#[derive(Debug)]
pub struct LeaseKeeper<P, T> {
    store: P,
    timing: T,
    owner: OwnerId,
    settings: LeaseSettings,
    /// Protects the generation of a claim that was sent and not settled. It is a leaf: nothing is locked and nothing
    /// awaited while it is held.
    unsettled: Mutex<Option<OwnerLeaseGeneration>>,
}

impl<P: StoreProvider, T: Timing> LeaseKeeper<P, T> {
    /// A keeper for a host whose id was never used before and never will be again (ST-60).
    pub fn new(store: P, timing: T, owner: OwnerId, settings: LeaseSettings) -> Self {
        Self {
            store,
            timing,
            owner,
            settings,
            unsettled: Mutex::new(None),
        }
    }

    /// Its settings.
    pub fn settings(&self) -> &LeaseSettings {
        &self.settings
    }

    fn effort(&self) -> Effort<'_, P, T> {
        let until = self.timing.now().after(self.settings.renew_timeout());
        Effort::new(&self.store, &self.timing, until)
    }

    fn unsettled(&self) -> Option<OwnerLeaseGeneration> {
        *self
            .unsettled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn set_unsettled(&self, generation: Option<OwnerLeaseGeneration>) {
        *self
            .unsettled
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = generation;
    }

    /// Claims the lease with a new generation (ST-62, ST-63).
    ///
    /// # Errors
    /// By recovery: `Retry` and `ReadThenDecide` when the store did not confirm in time; the host starts without a
    /// deadline and calls again after the renew interval (ST-63). Anything else, a conflict and an exhausted counter
    /// above all, ends the start-up (RL-285, ST-91).
    ///
    /// # Cancel safety
    /// A dropped call may have claimed. The next call finds out and takes that lease.
    pub async fn claim(&self) -> Result<HeldLease, LocationError> {
        let mut effort = self.effort();
        let lease_key = key::owner_lease(&self.owner);
        loop {
            let lease = effort.read(&lease_key).await?;
            effort.settled();
            let counter = effort.read(&Counter::Owner.key()).await?;
            let counter = Reading::of(Counter::Owner, counter)?;
            let claim = plan::claim(
                &self.owner,
                self.unsettled(),
                lease,
                counter,
                &self.settings,
            )?;
            // Before the await: a dropped future must leave the trace too.
            self.set_unsettled(Some(claim.lease.generation()));
            let sent = self.timing.now();
            match effort.write(claim.request).await? {
                Answer::Applied(applied) => {
                    self.set_unsettled(None);
                    let ttl = Ttl::new(self.settings.ttl())?;
                    let now = applied.store_now;
                    let expires = now.after(ttl);
                    return Ok(plan::confirmed(
                        claim.lease,
                        sent,
                        now,
                        expires,
                        &self.settings,
                    ));
                }
                Answer::Conflict => self.set_unsettled(None),
                Answer::Unknown | Answer::NotTaken => {}
            }
        }
    }

    /// Gives the lease a new time to live and a later deadline; its generation stays (RL-282).
    ///
    /// A lease whose local deadline has passed may still be renewed while the store has it.
    ///
    /// # Errors
    /// [`LocationError::Stale`], by recovery `GiveUp`, when the store has the lease no more or another's; nothing
    /// changed. `Retry` or `ReadThenDecide` when the store did not answer within the renew timeout: the old deadline
    /// stays in force, and calling again is right in both cases.
    ///
    /// # Cancel safety
    /// A dropped call may have renewed; calling again is right.
    pub async fn renew(&self, held: &HeldLease) -> Result<HeldLease, LocationError> {
        let mut effort = self.effort();
        let ttl = Ttl::new(self.settings.ttl())?;
        loop {
            let sent = self.timing.now();
            let answer = effort.write(plan::renewal(&held.lease, ttl)?).await?;
            if let Answer::Applied(applied) = answer {
                let lease = held.lease.clone();
                let now = applied.store_now;
                let next = plan::confirmed(lease, sent, now, now.after(ttl), &self.settings);
                return Ok(next);
            }
            self.must_be_ours(&mut effort, &held.lease).await?;
        }
    }

    async fn must_be_ours(
        &self,
        effort: &mut Effort<'_, P, T>,
        lease: &LiveLease,
    ) -> Result<(), LocationError> {
        let outcome = effort.read(&lease.key()).await?;
        effort.settled();
        match plan::standing(lease, outcome)? {
            Standing::Ours => Ok(()),
            Standing::Lost(reason) => Err(LocationError::stale(reason)),
        }
    }

    /// Gives the lease up.
    ///
    /// # Errors
    /// [`LocationError::Stale`] when the store has the lease no more or another's; nothing changed. `Retry` or
    /// `ReadThenDecide` when the store did not answer in time; the lease then ends by itself.
    ///
    /// # Cancel safety
    /// A dropped call may have released; the lease must not be used again.
    pub async fn release(&self, held: HeldLease) -> Result<(), LocationError> {
        let mut effort = self.effort();
        loop {
            let answer = effort.write(plan::release(&held.lease)?).await?;
            if let Answer::Applied(_) = answer {
                return Ok(());
            }
            let outcome = effort.read(&held.lease.key()).await?;
            let standing = plan::standing(&held.lease, outcome)?;
            effort.settled();
            match (standing, answer) {
                (Standing::Ours, _) => {}
                // ST-72: our own removal, seen after an answer that was lost.
                (Standing::Lost(crate::Stale::Missing), Answer::Unknown) => return Ok(()),
                (Standing::Lost(reason), _) => return Err(LocationError::stale(reason)),
            }
        }
    }

    /// Reads the lease of any owner; `None` when it is not live.
    ///
    /// # Errors
    /// By recovery: `Retry` when the store was not reached, `GiveUp` when the row is corrupt (ST-80).
    pub async fn read(&self, owner: &OwnerId) -> Result<Option<LiveLease>, LocationError> {
        let key = key::owner_lease(owner);
        let outcome = self.effort().read(&key).await?;
        Ok(LiveLease::of(&key, outcome)?)
    }
}
