//! The states of an authority row.

use spotlane_store::{ReadOutcome, StoreVersion};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::id::RelocationId;
use spotlane_types::kind::AuthorityOperationKind;
use spotlane_wire::authority::AuthorityPayload;

use crate::json;
use crate::key;
use crate::lease::LiveLease;
use crate::record::{AllocationState, AuthorityRow, RecordError, Seen};

/// What the store says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST section 7")]
pub enum Authority {
    /// There is none.
    Missing,
    /// Its owner is creating it.
    Reserved(ReservedObject),
    /// It exists.
    Active(ActiveObject),
}

/// A row with its payload read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) object: AuthorityKey,
    pub(crate) seen: Seen<AuthorityRow>,
    pub(crate) payload: AuthorityPayload,
}

/// An object that is being created. It can be committed or aborted, and nothing else (ST-70).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedObject(pub(crate) Known);

/// An object that exists, as it was when it was first read: every operation on it is fenced by that version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveObject(pub(crate) Known);

/// An object that is being closed explicitly; the only one that can begin a new incarnation in place (RL-14, RL-103).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosingObject(pub(crate) Known);

macro_rules! known {
    ($($name:ident)+) => {$(
        impl $name {
            /// The object.
            pub fn object(&self) -> &AuthorityKey {
                &self.0.object
            }

            /// The row.
            pub fn row(&self) -> &AuthorityRow {
                &self.0.seen.row
            }

            /// The framework's part of the row.
            pub fn payload(&self) -> &AuthorityPayload {
                &self.0.payload
            }

            /// The version by which an operation on it is fenced.
            pub fn version(&self) -> &StoreVersion {
                &self.0.seen.version
            }

            /// Whether this lease is that of the owner in the row.
            pub fn is_owned_by(&self, lease: &LiveLease) -> bool {
                let row = self.row();
                lease.is_of(&row.owner_id, row.owner_lease_generation)
            }
        }
    )+};
}

known!(ReservedObject ActiveObject ClosingObject);

impl ActiveObject {
    /// The move that alone may change the row: its record, not the row, says who the owner is (ST-85, ST-86).
    pub fn aggregate(&self) -> Option<RelocationId> {
        aggregate_of(&self.0.payload)
    }

    /// Whether it is being closed.
    ///
    /// # Errors
    /// Gives it back when it is not.
    #[expect(clippy::result_large_err, reason = "gives the value back")]
    pub fn closing(self) -> Result<ClosingObject, Self> {
        if self.0.payload.operation_kind == AuthorityOperationKind::Close {
            Ok(ClosingObject(self.0))
        } else {
            Err(self)
        }
    }
}

/// The aggregate that a payload points at (WR-63).
pub(crate) fn aggregate_of(payload: &AuthorityPayload) -> Option<RelocationId> {
    let state = payload.relocation_state.as_ref()?;
    let id = state
        .relocation_reference
        .as_str()
        .strip_prefix("aggregate/")?;
    json::relocation_id::parse(id)
}

impl Authority {
    /// Reads an observation of the row of an object.
    ///
    /// # Errors
    /// [`RecordError`], by recovery `GiveUp`: malformed, or with an expiry although no row has one (ST-73).
    pub fn of(object: &AuthorityKey, outcome: ReadOutcome) -> Result<Self, RecordError> {
        let Some(found) = outcome.found() else {
            return Ok(Self::Missing);
        };
        let key = key::authority(object);
        let seen = Seen::<AuthorityRow>::read(&key, found)?;
        if seen.expires_at.is_some() {
            return Err(RecordError::expiry(&key, "an authority row never expires"));
        }
        let payload = seen.row.decode_payload(&key)?;
        let known = Known {
            object: object.clone(),
            payload,
            seen,
        };
        Ok(match known.seen.row.allocation.state {
            AllocationState::Reserved => Self::Reserved(ReservedObject(known)),
            AllocationState::Active => Self::Active(ActiveObject(known)),
        })
    }
}
