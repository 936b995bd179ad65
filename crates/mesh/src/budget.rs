//! The charge of relocation chunks in flight: per connection, and of the whole node (RL-131).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// What is in flight against one limit; 0 is no limit (RL-293, RL-294).
#[derive(Debug)]
struct Budget {
    max: u64,
    in_flight: AtomicU64,
}

impl Budget {
    const fn new(max: u64) -> Self {
        Self {
            max,
            in_flight: AtomicU64::new(0),
        }
    }

    fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// A charge above the whole budget goes when nothing else is in flight (RL-131).
    fn has_room(&self, charge: u64) -> bool {
        let in_flight = self.in_flight();
        self.max == 0 || in_flight == 0 || in_flight.saturating_add(charge) <= self.max
    }

    fn change(&self, change: impl Fn(u64) -> u64) {
        let next = |now| Some(change(now));
        let in_flight = &self.in_flight;
        // The closure always gives a value, so there is no failure to see.
        in_flight
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
            .ok();
    }
}

/// The budget of a node, and the source of those of its connections.
#[derive(Debug)]
pub(crate) struct NodeBudget {
    node: Budget,
    peer_max: u64,
    /// Makes check and change of both budgets one step; nothing else is locked while it is held.
    taking: Mutex<()>,
    room: Notify,
}

/// The budget of one connection.
#[derive(Debug)]
pub(crate) struct LinkBudget {
    peer: Budget,
    node: Arc<NodeBudget>,
}

/// A budget that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetFull {
    pub(crate) in_flight: u64,
    pub(crate) max: u64,
}

impl NodeBudget {
    pub(crate) fn new(peer_max: u64, node_max: u64) -> Arc<Self> {
        Arc::new(Self {
            node: Budget::new(node_max),
            peer_max,
            taking: Mutex::new(()),
            room: Notify::new(),
        })
    }

    pub(crate) fn of_link(self: &Arc<Self>) -> Arc<LinkBudget> {
        Arc::new(LinkBudget {
            peer: Budget::new(self.peer_max),
            node: Arc::clone(self),
        })
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.node.in_flight()
    }
}

impl LinkBudget {
    pub(crate) fn in_flight(&self) -> u64 {
        self.peer.in_flight()
    }

    /// Charges both budgets, or none.
    pub(crate) fn take(self: &Arc<Self>, charge: u64) -> Result<BulkCharge, BudgetFull> {
        let taking = self.node.taking.lock();
        let _taking = taking.unwrap_or_else(PoisonError::into_inner);
        for budget in [&self.peer, &self.node.node] {
            if !budget.has_room(charge) {
                let (in_flight, max) = (budget.in_flight(), budget.max);
                return Err(BudgetFull { in_flight, max });
            }
        }
        for budget in [&self.peer, &self.node.node] {
            budget.change(|now| now.saturating_add(charge));
        }
        Ok(BulkCharge {
            charge,
            budget: Arc::clone(self),
        })
    }

    /// Waits until both budgets have room for `charge`.
    ///
    /// # Cancel safety
    /// Nothing is taken.
    pub(crate) async fn room(&self, charge: u64) {
        loop {
            let room = self.node.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if self.peer.has_room(charge) && self.node.node.has_room(charge) {
                return;
            }
            room.await;
        }
    }
}

/// A charge, returned exactly once: when it is dropped.
#[derive(Debug)]
pub(crate) struct BulkCharge {
    charge: u64,
    budget: Arc<LinkBudget>,
}

impl Drop for BulkCharge {
    fn drop(&mut self) {
        for budget in [&self.budget.peer, &self.budget.node.node] {
            budget.change(|now| now.saturating_sub(self.charge));
        }
        self.budget.node.room.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RL-131, RL-293, RL-294
    #[test]
    fn both_budgets_are_charged_or_none() {
        let node = NodeBudget::new(100, 150);
        let (one, two) = (node.of_link(), node.of_link());
        let first = one.take(100).unwrap();
        let full = BudgetFull {
            in_flight: 100,
            max: 100,
        };
        assert_eq!(one.take(1).unwrap_err(), full);
        let full = BudgetFull {
            in_flight: 100,
            max: 150,
        };
        assert_eq!(two.take(51).unwrap_err(), full);
        assert_eq!((two.in_flight(), node.in_flight()), (0, 100));
        let second = two.take(50).unwrap();
        drop(first);
        assert_eq!((one.in_flight(), node.in_flight()), (0, 50));
        drop(second);
        assert_eq!(node.in_flight(), 0);
    }

    /// RL-131: a payload larger than the budget still goes through.
    #[test]
    fn what_is_larger_than_the_budget_goes_alone() {
        let node = NodeBudget::new(100, 0);
        let link = node.of_link();
        let large = link.take(1000).unwrap();
        assert!(link.take(1).is_err());
        drop(large);
        let small = link.take(1).unwrap();
        assert!(link.take(1000).is_err());
        drop(small);
    }

    /// RL-293, RL-294: 0 is no limit.
    #[test]
    fn a_budget_of_zero_is_off() {
        let link = NodeBudget::new(0, 0).of_link();
        let charges: Vec<_> = (0..10)
            .map(|_| link.take(u64::MAX / 100).unwrap())
            .collect();
        assert_eq!(link.in_flight(), u64::MAX / 100 * 10);
        drop(charges);
        assert_eq!(link.in_flight(), 0);
    }
}
