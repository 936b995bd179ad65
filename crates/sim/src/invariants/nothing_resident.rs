//! When everything is settled, nothing of a move is left: no machine, queue, copy, route or waiting caller (SRC-25, R§10).

use super::{Invariant, View};

/// See the module.
#[derive(Debug)]
pub(super) struct NothingResident;

impl Invariant for NothingResident {
    fn name(&self) -> &'static str {
        "nothing-resident"
    }

    fn at_end(&mut self, view: &View<'_>) -> Result<(), String> {
        for host in view.hosts {
            let left = host.residents();
            if !left.is_empty() {
                return Err(format!("{:?} still has {}", host.index(), left.join(", ")));
            }
        }
        Ok(())
    }
}
