//! From errors of the client and of the server to the four classes (ST-8).

use fred::error::{Error, ErrorKind};
use spotlane_store::{Failure, StoreError};

/// What is known about a command that did not return an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It did not run, and may another time.
    NotRun,
    /// It did not run, and will not.
    Refused,
    /// The server does not know the script; it did not run.
    NoScript,
    /// It may have run.
    Unknown,
}

/// Errors that Redis gives before a script has changed anything, and that pass. CLUSTERDOWN is not among them: fred
/// hands it to every command of the connection, also to those that have run.
const PASSING: [&str; 8] = [
    "LOADING",
    "BUSY",
    "TRYAGAIN",
    "MASTERDOWN",
    "READONLY",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
];
const REFUSALS: [&str; 6] = [
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "WRONGTYPE",
    "MALFORMED",
    "SPENT",
];
/// fred's own words for a command that it has not written to a connection. Should a release change them, such a
/// command counts as unknown, which is the safe side.
const NOT_WRITTEN: [&str; 3] = [
    "Connection closed unexpectedly.",
    "Failed to route command.",
    "Too many failed write attempts.",
];

/// Whether the client has not written the command because it has lost its connection, or is about to find that out.
pub(crate) fn is_unwritten(error: &Error) -> bool {
    NOT_WRITTEN.contains(&error.details())
}

/// What an error of a whole command says about it.
pub(crate) fn fate(error: &Error, effect: Effect) -> Fate {
    let text = error.details();
    if is_unwritten(error) || *error.kind() == ErrorKind::Backpressure {
        return Fate::NotRun;
    }
    match text.split_whitespace().next().unwrap_or_default() {
        "NOSCRIPT" => Fate::NoScript,
        code if PASSING.contains(&code) => Fate::NotRun,
        // An error from inside a script, other than the ones above, may have come after its first change.
        _ if effect == Effect::Changes && text.contains("user_script") => Fate::Unknown,
        code if REFUSALS.contains(&code) || code == "ERR" => Fate::Refused,
        _ => Fate::Unknown,
    }
}

/// An error that a script returned for one write or one record. Nothing happened to it.
pub(crate) fn returned(text: &str, key: &str) -> StoreError {
    let mut failure = Failure::new(format!("the server refused it: {text}"));
    if !key.is_empty() {
        failure = failure.at_key(key);
    }
    let code = text.split_whitespace().next().unwrap_or_default();
    if PASSING.contains(&code) {
        StoreError::Transient(failure)
    } else {
        StoreError::Permanent(failure)
    }
}

/// The class of a fate; `effect` says whether an unknown one matters (ST-7).
pub(crate) fn class(fate: Fate, effect: Effect, failure: Failure) -> StoreError {
    match (fate, effect) {
        (Fate::Refused, _) => StoreError::Permanent(failure),
        (Fate::Unknown, Effect::Changes) => StoreError::Indeterminate(failure),
        (Fate::NotRun | Fate::NoScript, _) | (Fate::Unknown, Effect::None) => {
            StoreError::Transient(failure)
        }
    }
}

/// Whether a script changes what a caller can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It does.
    Changes,
    /// It does not: it may be sent again, and a lost answer leaves no question.
    None,
}
