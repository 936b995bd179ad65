//! The rule that ties a terminal result to its failure code (WR-20).

use spotlane_types::kind::{FailureCode, TerminalResult};

use crate::error::Breach;

/// WR-20: `none` goes with the results that need no code, and every other code with exactly one result.
pub(crate) fn check_terminal(result: TerminalResult, code: FailureCode) -> Result<(), Breach> {
    if code.fits(result) {
        return Ok(());
    }
    Err(Breach::new(
        "failureCode",
        "the failure code does not go with the terminal result",
    ))
}

/// WR-20: a payload goes only with `ok`.
pub(crate) fn check_payload(
    result: TerminalResult,
    has_payload: bool,
    field: &'static str,
) -> Result<(), Breach> {
    if has_payload && result != TerminalResult::Ok {
        return Err(Breach::new(field, "a payload goes only with the result ok"));
    }
    Ok(())
}
