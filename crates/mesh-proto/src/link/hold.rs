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

    fn take(&self, records: u64, bytes: u64) -> Result<(), HoldFull> {
        let next = |used: u64| {
            let records = used.checked_div(RECORD)?.checked_add(records)?;
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

    fn give_back(&self, records: u64, bytes: u64) {
        let used = records.saturating_mul(RECORD).saturating_add(bytes);
        self.used.fetch_sub(used, Ordering::AcqRel);
    }
}

/// A bounded queue. Full means that the link ends: leaving one message out would break the order.
#[derive(Debug, Default)]
pub(super) struct Hold {
    messages: VecDeque<(Lane, Message)>,
    /// What has come of a message that is not whole, on each lane.
    begun: [u64; 2],
    budget: HeldBudget,
}

impl Hold {
    pub(super) fn new(budget: HeldBudget) -> Self {
        Self {
            messages: VecDeque::new(),
            begun: [0; 2],
            budget,
        }
    }

    /// An empty one with what has come of messages that are not whole, which is not counted here any more.
    pub(super) fn successor(&mut self) -> Self {
        Self {
            messages: VecDeque::new(),
            begun: core::mem::take(&mut self.begun),
            budget: self.budget.clone(),
        }
    }

    pub(super) fn push(&mut self, lane: Lane, message: Message) -> Result<(), HoldFull> {
        // What was begun there is this message.
        self.begun(lane, 0)?;
        self.budget.take(1, message.held_bytes())?;
        self.messages.push_back((lane, message));
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<(Lane, Message)> {
        let (lane, message) = self.messages.pop_front()?;
        self.budget.give_back(1, message.held_bytes());
        Some((lane, message))
    }

    /// Half a message has grown, or is whole or gone.
    pub(super) fn begun(&mut self, lane: Lane, bytes: u64) -> Result<(), HoldFull> {
        let [application, completion] = &mut self.begun;
        let begun = match lane {
            Lane::Application => application,
            Lane::Completion => completion,
        };
        match bytes.checked_sub(*begun) {
            Some(more) => self.budget.take(0, more)?,
            None => self.budget.give_back(0, begun.saturating_sub(bytes)),
        }
        *begun = bytes;
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        while self.pop().is_some() {}
        for bytes in self.begun {
            self.budget.give_back(0, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmp::Frames;

    fn message(bytes: usize) -> Message {
        let mut frames = Frames::default();
        frames.push(vec![0; bytes].into());
        Message::Plain(frames)
    }

    /// TR-80: what was begun counts until it is whole or gone, also when the pair becomes ready meanwhile, and once.
    #[test]
    fn half_a_message_counts_once() {
        let budget = HeldBudget::default();
        let mut hold = Hold::new(budget.clone());
        hold.begun(Lane::Application, 1000).unwrap();
        hold.begun(Lane::Completion, HELD_BYTES_MAX - 2000).unwrap();
        let over = hold.begun(Lane::Application, 2001);
        assert!(over.is_err() && budget.bytes() == HELD_BYTES_MAX - 1000);
        let mut next = hold.successor();
        drop(hold);
        assert_eq!(budget.bytes(), HELD_BYTES_MAX - 1000);
        next.push(Lane::Application, message(1936)).unwrap();
        assert_eq!((budget.records(), budget.bytes()), (1, HELD_BYTES_MAX));
        next.begun(Lane::Completion, 7).unwrap();
        assert_eq!(budget.bytes(), 2007);
        drop(next);
        assert_eq!((budget.records(), budget.bytes()), (0, 0));
    }
}
