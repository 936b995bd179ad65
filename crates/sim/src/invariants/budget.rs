//! Chunks in flight stay within the budget of their connection; a larger chunk goes alone (RL-131).

use super::{Invariant, View};
use crate::observation::Observation;

/// See the module.
#[derive(Debug)]
pub(super) struct Budget;

impl Invariant for Budget {
    fn name(&self) -> &'static str {
        "budget"
    }

    fn observe(&mut self, seen: &Observation, _view: &View<'_>) -> Result<(), String> {
        let Observation::InFlight {
            at,
            to,
            bytes,
            chunk,
            budget,
        } = seen
        else {
            return Ok(());
        };
        let alone = bytes == chunk;
        if bytes > budget && !alone {
            return Err(format!(
                "{bytes} bytes from {at:?} to {to:?}, budget {budget}"
            ));
        }
        Ok(())
    }
}
