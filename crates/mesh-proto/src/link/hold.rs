//! Messages that came before they could be handed up (TR-25, TR-80).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bound::{HELD_BYTES_MAX, HELD_RECORDS_MAX};
use crate::zmp::{Lane, Message};

/// What all links of a node may hold together: 1,024 records and 16 MiB (TR-80). Clones are the same
/// budget.
///
/// The one value that links share. It is a setting and no effect, since the record that passes the
/// bound must not be kept until a driver has said so.
#[derive(Clone, Debug, Default)]
pub struct HeldBudget {
    /// Records in the upper half, bytes in the lower one: both change in one step.
    used: Arc<AtomicU64>,
}

/// The bound would be passed.
#[derive(Debug)]
pub(super) struct HoldFull;

/// The bytes are below 2^32 by their bound.
const RECORD: u64 = 1 << 32;
const BYTES: u64 = RECORD - 1;

impl HeldBudget {
    /// How many records are held.
    pub fn records(&self) -> u64 {
        self.used
            .load(Ordering::Acquire)
            .checked_div(RECORD)
            .unwrap_or(0)
    }

    /// How many bytes they have.
    pub fn bytes(&self) -> u64 {
        self.used.load(Ordering::Acquire) & BYTES
    }

    fn take(&self, bytes: u64) -> Result<(), HoldFull> {
        let next = |used: u64| {
            let records = used.checked_div(RECORD)?.checked_add(1)?;
            let bytes = (used & BYTES).checked_add(bytes)?;
            let fits = usize::try_from(records).is_ok_and(|records| records <= HELD_RECORDS_MAX)
                && bytes <= HELD_BYTES_MAX;
            fits.then(|| records.saturating_mul(RECORD) | bytes)
        };
        let taken = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        taken.map(drop).map_err(|_| HoldFull)
    }

    fn give_back(&self, bytes: u64) {
        self.used
            .fetch_sub(RECORD.saturating_add(bytes), Ordering::AcqRel);
    }
}

/// A bounded queue. Full means that the link ends: leaving one message out would break the order.
#[derive(Debug, Default)]
pub(super) struct Hold {
    messages: VecDeque<(Lane, Message)>,
    budget: HeldBudget,
}

impl Hold {
    pub(super) fn new(budget: HeldBudget) -> Self {
        Self {
            messages: VecDeque::new(),
            budget,
        }
    }

    pub(super) fn push(&mut self, lane: Lane, message: Message) -> Result<(), HoldFull> {
        self.budget.take(message.held_bytes())?;
        self.messages.push_back((lane, message));
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<(Lane, Message)> {
        let (lane, message) = self.messages.pop_front()?;
        self.budget.give_back(message.held_bytes());
        Some((lane, message))
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
