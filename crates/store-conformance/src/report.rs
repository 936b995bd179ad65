//! What a run of the suite finds.

use std::fmt;

use spotlane_store::{ArgumentError, StoreError};

/// One broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The rule of the contract, `ST-2` for example.
    pub rule: &'static str,
    /// What was promised.
    pub promise: &'static str,
    /// What was seen instead.
    pub seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.rule, self.promise, self.seen)
    }
}

/// All broken promises of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Violations(pub(crate) Vec<Violation>);

impl Violations {
    /// Each of them.
    pub fn all(&self) -> &[Violation] {
        &self.0
    }

    /// Whether one of them is of this rule.
    pub fn name(&self, rule: &str) -> bool {
        self.0.iter().any(|violation| violation.rule == rule)
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} promises of the store are broken", self.0.len())?;
        self.0
            .iter()
            .try_for_each(|violation| write!(f, "\n  {violation}"))
    }
}

/// Why a check stopped.
#[derive(Debug)]
pub(crate) struct Stop(pub(crate) String);

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self(format!("an operation failed: {error}"))
    }
}

impl From<ArgumentError> for Stop {
    fn from(error: ArgumentError) -> Self {
        Self(format!(
            "an argument within the bounds was refused: {error}"
        ))
    }
}

impl From<tokio::task::JoinError> for Stop {
    fn from(error: tokio::task::JoinError) -> Self {
        Self(format!("a task of the provider panicked: {error}"))
    }
}

pub(crate) type Checked = Result<(), Stop>;

/// Stops the check unless the promise was kept.
pub(crate) fn demand(is_kept: bool, seen: impl FnOnce() -> String) -> Checked {
    if is_kept { Ok(()) } else { Err(Stop(seen())) }
}
