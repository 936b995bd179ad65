//! How many operations of each other node are under way here (EX-152).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use spotlane_types::id::NodeRid;

use crate::error::Error;

/// Most operations of one node that run here at once. They wait for no permit of applications, so nothing else bounds what a
/// node can pile up here while the store does not answer.
pub(crate) const OPERATIONS_MAX: u32 = 1_024;

/// Counts what each node has asked for and was not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    /// No node without operations is here. A leaf lock.
    running: Mutex<HashMap<NodeRid, u32, RandomState>>,
}

/// The place of one operation, until it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Operation {
    of: NodeRid,
    among: Arc<Operations>,
}

impl Operations {
    /// Begins an operation of a node.
    ///
    /// # Errors
    /// It has too many; the text is for its side.
    pub(crate) fn begin(self: &Arc<Self>, of: &NodeRid) -> Result<Operation, Error> {
        let mut running = self.lock();
        let count = running.entry(of.clone()).or_default();
        if *count >= OPERATIONS_MAX {
            drop(running);
            return Err(Error::unavailable(format!(
                "{OPERATIONS_MAX} operations of this node are under way here, which is the most; ask again when some have ended"
            )));
        }
        *count += 1;
        drop(running);
        Ok(Operation {
            of: of.clone(),
            among: Arc::clone(self),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeRid, u32, RandomState>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let mut running = self.among.lock();
        let left = running.get_mut(&self.of).map(|count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left == Some(0) {
            running.remove(&self.of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_its_own_bound_and_gives_places_back() {
        let operations = Arc::new(Operations::default());
        let (one, other) = (
            NodeRid::new(b"one").unwrap(),
            NodeRid::new(b"other").unwrap(),
        );
        let mut all: Vec<_> = (0..OPERATIONS_MAX)
            .map(|_| operations.begin(&one).unwrap())
            .collect();
        let refused = operations.begin(&one).unwrap_err();
        assert!(refused.message().contains("1024"), "{refused}");
        drop(operations.begin(&other).unwrap());
        all.pop();
        all.push(operations.begin(&one).unwrap());
        assert!(operations.begin(&one).is_err());
        drop(all);
        assert!(operations.lock().is_empty());
    }
}
