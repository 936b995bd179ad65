//! The lease of a host: renewed while it lives, and the end of its process when the store has it no more.

use std::sync::Arc;

use spotlane_location::LocationError;
use spotlane_location::lease::HeldLease;

use super::{Host, StoreAnswer};
use crate::mutant::Mutant;
use crate::shared::Shared;

impl Host {
    /// Renews, if it is time.
    pub(super) fn wake_lease(&mut self, shared: &Shared) {
        if self.renew_at.is_none_or(|at| at > shared.now()) {
            return;
        }
        self.renew_at = None;
        let keeper = Arc::clone(&self.keeper);
        let held = self.held.clone();
        self.ask(shared, async move {
            StoreAnswer::Lease(keeper.renew(&held).await)
        });
    }

    /// The answer to a renewal.
    pub(super) fn lease_answered(
        &mut self,
        result: Result<HeldLease, LocationError>,
        shared: &Shared,
    ) {
        let interval = shared.plan.lease.renew_interval();
        match result {
            Ok(held) => {
                self.held = held;
                self.admit_sessions(shared);
                self.renew_at = Some(shared.now() + interval);
            }
            // Another lease may exist by now, and what this host owned is nobody's: it ends itself.
            Err(LocationError::Stale { .. }) if !shared.has(Mutant::IgnoreLease) => self.kill(),
            Err(_) => self.renew_at = Some(shared.now() + interval / 4),
        }
    }
}
