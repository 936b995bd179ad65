//! Messages that came before they could be handed up (TR-25, TR-80).

use std::collections::VecDeque;

use crate::bound::{HELD_BYTES_MAX, HELD_RECORDS_MAX};
use crate::zmp::{Lane, Message};

/// A bounded queue. Full means that the link ends: leaving one message out would break the order.
#[derive(Debug, Default)]
pub(super) struct Hold {
    messages: VecDeque<(Lane, Message)>,
    bytes: u64,
}

/// The bound would be passed.
#[derive(Debug)]
pub(super) struct HoldFull;

impl Hold {
    pub(super) fn push(&mut self, lane: Lane, message: Message) -> Result<(), HoldFull> {
        let bytes = self.bytes.saturating_add(message.held_bytes());
        if self.messages.len() >= HELD_RECORDS_MAX || bytes > HELD_BYTES_MAX {
            return Err(HoldFull);
        }
        self.bytes = bytes;
        self.messages.push_back((lane, message));
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<(Lane, Message)> {
        let (lane, message) = self.messages.pop_front()?;
        self.bytes = self.bytes.saturating_sub(message.held_bytes());
        Some((lane, message))
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }
}
