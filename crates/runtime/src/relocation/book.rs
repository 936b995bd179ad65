//! What a target writes into the row after its commit: how far the move has got, and where the answers of the requests that
//! came with it stand (RL-25, RL-26, RL-263 to RL-267, RL-365).

use std::sync::Arc;
use std::time::Duration;

use spotlane_location::LocationError;
use spotlane_location::authority::Authority;
use spotlane_location::lease::HeldLease;
use spotlane_types::kind::RelocationPhase;
use spotlane_wire::authority::AuthorityPayload;
use tokio::sync::OwnedMutexGuard;

use super::replies::{Due, MoveContext, Replies, Root, Stored};
use super::rows;
use crate::clock::{Deadline, backoff};
use crate::core::{Core, actor_key};
use crate::error::Error;
use crate::slots::Live;

/// RL-267: how long stored answers live.
pub(super) const BLOB_TTL: Duration = Duration::from_hours(24);

/// Whether the tenure goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tenure {
    Ours,
    /// The row has changed hands or is gone.
    Over,
}

/// The book-keeping of one move at its target.
struct Book {
    core: Arc<Core>,
    live: Arc<Live>,
    context: MoveContext,
    replies: Arc<Replies>,
    stored: Stored,
}

/// Records `activated` under the right to change the row, which the caller has held since the restore, and then whatever
/// becomes of the answers, up to `completed`. The latter gates nothing (RL-26): a move away takes the right in between.
pub(super) async fn keep(
    core: Arc<Core>,
    live: Arc<Live>,
    context: MoveContext,
    right: OwnedMutexGuard<()>,
) {
    let replies = context.replies.clone().unwrap_or_default();
    let mut book = Book {
        core,
        live,
        context,
        replies,
        stored: Stored::default(),
    };
    let mut tenure = book.record(RelocationPhase::Activated).await;
    drop(right);
    while tenure == Tenure::Ours {
        tenure = match book.replies.due() {
            Due::Wait => book.wait().await,
            Due::Store => book.store().await,
            Due::Complete => {
                if book.complete().await {
                    break;
                }
                Tenure::Ours
            }
        };
    }
    // RL-244: the row points elsewhere by now.
    book.stored.forget(&book.core).await;
}

impl Book {
    async fn wait(&mut self) -> Tenure {
        let changed = self.replies.changed();
        let Some(left) = self.stored.renewal.left(self.core.clock.elapsed()) else {
            changed.await;
            return Tenure::Ours;
        };
        if tokio::time::timeout(left, changed).await.is_err() {
            self.stored.renew(&self.core).await;
        }
        Tenure::Ours
    }

    /// RL-263: the answers in their order, then pointer, checksum and counts in one change.
    async fn store(&mut self) -> Tenure {
        let key = actor_key(self.live.unit.id());
        let relocation = self.context.relocation;
        let mut attempt = 0;
        loop {
            let written = self
                .stored
                .write(&self.core, &key, relocation, &self.replies);
            let error = match written.await {
                Ok(root) => match self.point_to(&root).await {
                    Ok(tenure) => return tenure,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            tracing::warn!(target: "spotlane::runtime::relocation", %error, "answers were not stored");
            let right = self.live.book.lock().await;
            if !self.live.is_in(&self.core.slots) {
                return Tenure::Over;
            }
            drop(right);
            pause(&mut attempt).await;
        }
    }

    async fn point_to(&self, root: &Root) -> Result<Tenure, Error> {
        let _right = self.live.book.lock().await;
        if !self.live.is_in(&self.core.slots) {
            return Ok(Tenure::Over);
        }
        let pointed = self.write(|payload| {
            if let Some(state) = &mut payload.relocation_state {
                state.relocation_reference = root.reference.clone();
                state.relocation_checksum_crc32c = root.checksum;
            }
        });
        let tenure = pointed.await?;
        if tenure == Tenure::Ours {
            self.replies.stored(root.count);
        }
        Ok(tenure)
    }

    /// RL-264: the relocation state leaves the row; `false` when something came meanwhile.
    async fn complete(&self) -> bool {
        let mut attempt = 0;
        loop {
            let right = self.live.book.lock().await;
            if self.replies.due() != Due::Complete {
                return false;
            }
            if !self.live.is_in(&self.core.slots) {
                return true;
            }
            if self.try_record(RelocationPhase::Completed).await.is_some() {
                self.replies.close();
                return true;
            }
            drop(right);
            pause(&mut attempt).await;
        }
    }

    /// Writes one phase, again and again; the caller keeps the right to change the row.
    async fn record(&self, phase: RelocationPhase) -> Tenure {
        let mut attempt = 0;
        loop {
            if let Some(tenure) = self.try_record(phase).await {
                return tenure;
            }
            pause(&mut attempt).await;
        }
    }

    async fn try_record(&self, phase: RelocationPhase) -> Option<Tenure> {
        let written = self.write(|payload| *payload = rows::at_phase(payload, phase));
        let written = written.await.inspect_err(|error| {
            tracing::warn!(target: "spotlane::runtime::relocation", %error, %phase, "a phase was not recorded");
        });
        written.ok()
    }

    /// Changes the row once; the caller has the right to.
    async fn write(&self, change: impl Fn(&mut AuthorityPayload)) -> Result<Tenure, Error> {
        let (core, live) = (&self.core, &self.live);
        let Some(row) = live.row() else {
            return Ok(Tenure::Over);
        };
        let mut payload = row.payload().clone();
        change(&mut payload);
        let held = core.held()?;
        let until = core.deadline(core.settings.lease.renew_timeout());
        let written = core
            .repository
            .preserve(&held, &row, &payload, until.location());
        match written.await {
            Ok(row) => {
                live.set_row(row);
                Ok(Tenure::Ours)
            }
            Err(LocationError::Conflict { .. }) => self.look(&held, &until).await,
            Err(error) => Err(error.into()),
        }
    }

    /// RL-17: whether the row is this host's still, at another version; then the change is made again.
    async fn look(&self, held: &HeldLease, until: &Deadline) -> Result<Tenure, Error> {
        let key = actor_key(self.live.unit.id());
        let found = self.core.repository.read(&key, until.location()).await?;
        let tenure = self.live.unit.tenure();
        match found {
            Authority::Active(row)
                if row.is_owned_by(held.lease())
                    && row.row().authority_owner_generation
                        == tenure.authority_owner_generation =>
            {
                self.live.set_row(row);
                Err(Error::unavailable("the row has another version"))
            }
            _ => Ok(Tenure::Over),
        }
    }
}

async fn pause(attempt: &mut u32) {
    tokio::time::sleep(backoff(*attempt, crate::random::u64())).await;
    *attempt = attempt.saturating_add(1);
}
