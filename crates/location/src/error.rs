//! Why an operation of this layer failed, and what to do about it (ST-91).

use spotlane_store::{ArgumentError, Recovery, StoreError};

use crate::counter::Counter;
use crate::record::RecordError;

/// Why an operation changed nothing, or may have changed something.
///
/// Conflict, stale, exhausted and indeterminate are four different things (ST-91): branch on [`LocationError::recovery`],
/// and on the variant only where a table of the contract asks for it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// The state that the operation began with no longer holds; nothing changed by it (ST-71).
    #[error("conflict: {reason}")]
    Conflict {
        /// What does not hold.
        reason: Conflict,
    },
    /// The caller is not, or no longer, the holder of the lease it acts with; nothing changed (ST-61, ST-62).
    #[error("stale: {reason}")]
    Stale {
        /// How the lease was lost.
        reason: Stale,
    },
    /// A counter has no number left; nothing changed, and asking again says the same (ST-52).
    #[error("the counter of the {counter} is exhausted")]
    GenerationExhausted {
        /// The counter.
        counter: Counter,
    },
    /// It may have happened or not, and no read settled it within the deadline (ST-72).
    #[error("the outcome is unknown to the end of the deadline")]
    Indeterminate {
        /// The last thing the store said.
        #[source]
        source: Option<StoreError>,
    },
    /// The store could not be reached within the deadline; nothing changed.
    #[error("the store was not reached within the deadline")]
    Unavailable {
        /// The last thing the store said.
        #[source]
        source: Option<StoreError>,
    },
    /// The store refuses for good, or the call broke one of its bounds; nothing changed.
    #[error("the store refuses")]
    Store(#[source] StoreError),
    /// A stored row is not what the contract says; nothing changed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// There is more than this crate looks at in one go; what was read is a part, and nothing is chosen from a part.
    #[error("{what} are more than {most}, remove those of nodes that are gone")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        most: usize,
    },
    /// The arguments contradict each other; nothing was sent.
    #[error("the call contradicts itself: {rule}")]
    Call {
        /// What should hold.
        rule: &'static str,
    },
    /// The payload cannot be written; nothing was sent.
    #[error("the authority payload cannot be written")]
    Payload(#[source] spotlane_wire::EncodeError),
}

/// What a final conflict found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Conflict {
    /// The row is there although it was to be created.
    Exists,
    /// The row is gone.
    Gone,
    /// The row has another version than the one first read.
    Changed,
    /// The row is reserved (ST-70).
    Reserved,
    /// The row points at an aggregate, so only that move changes it (ST-85).
    InAggregate,
    /// The target's lease is missing, expired or of another run.
    TargetLease,
    /// The target's descriptor is missing or of another run.
    TargetDescriptor,
    /// The target has no room.
    TargetCapacity,
    /// The row belongs to another reservation.
    OtherReservation,
    /// Another host holds the lease.
    LeaseHeld,
    /// The aggregate is not in the phase, or not the list, that the operation asks for.
    Aggregate,
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Exists => "the row exists",
            Self::Gone => "the row is gone",
            Self::Changed => "the row has changed since it was first read",
            Self::Reserved => "the row is reserved",
            Self::InAggregate => "the row points at an aggregate",
            Self::TargetLease => "the target's lease is not live",
            Self::TargetDescriptor => "the target's descriptor is not of its run",
            Self::TargetCapacity => "the target has no room",
            Self::OtherReservation => "the row belongs to another reservation",
            Self::LeaseHeld => "the lease is held",
            Self::Aggregate => "the aggregate is not as expected",
        })
    }
}

/// How a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stale {
    /// The local admission deadline has passed (ST-61).
    PastDeadline,
    /// The store has no such lease any more.
    Missing,
    /// The store has the lease of another run.
    Replaced,
    /// The row belongs to another owner or another run of this one.
    NotOwner,
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::PastDeadline => "the local admission deadline has passed",
            Self::Missing => "the lease is gone",
            Self::Replaced => "the lease is of another run",
            Self::NotOwner => "the row belongs to another owner",
        })
    }
}

impl LocationError {
    /// What the caller should do.
    pub fn recovery(&self) -> Recovery {
        match self {
            Self::Conflict { .. } | Self::Indeterminate { .. } => Recovery::ReadThenDecide,
            Self::Unavailable { .. } => Recovery::Retry,
            Self::Stale { .. } | Self::GenerationExhausted { .. } | Self::TooMany { .. } => {
                Recovery::GiveUp
            }
            Self::Store(error) => error.recovery(),
            Self::Record(error) => error.recovery(),
            Self::Call { .. } | Self::Payload(_) => Recovery::FixCall,
        }
    }

    pub(crate) const fn conflict(reason: Conflict) -> Self {
        Self::Conflict { reason }
    }

    pub(crate) const fn stale(reason: Stale) -> Self {
        Self::Stale { reason }
    }
}

impl From<ArgumentError> for LocationError {
    fn from(error: ArgumentError) -> Self {
        Self::Store(StoreError::Argument(error))
    }
}
