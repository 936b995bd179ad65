//! What a driver sends: into the queue of a connection at once, or in order behind what waits for room there. The driver
//! waits for neither, so its deadlines and its inbox go on.

use std::collections::VecDeque;
use std::sync::Arc;

use spotlane_mesh::{NotSubmitted, PeerLink, SendError};
use spotlane_relocation::identity::ConnectionId;
use spotlane_wire::Record;

use super::pacing::Charge;
use super::source::SourceUnit;
use crate::core::Core;

/// One record of a unit that leaves.
pub(super) struct Sending {
    pub(super) connection: ConnectionId,
    pub(super) record: Record,
    pub(super) what: What,
}

/// What has to be known when it has left.
pub(super) enum What {
    Record,
    /// It is charged until the transport is seen to release it (RL-131).
    Chunk(Option<Charge>),
    /// Its end is a point of the move (RL-133).
    Cutover,
}

/// A record that has left its driver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) connection: ConnectionId,
    pub(super) is_cutover: bool,
    /// Whether the queue of its connection took it.
    pub(super) taken: bool,
}

/// The records of one unit that wait, each for the one before it.
///
/// Nothing limits it (RL-317): the machine keeps what stands in it for a retransmission anyway.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Sending>,
    /// One waits for room beside the driver, and its end comes to the inbox.
    busy: bool,
}

impl Outbox {
    /// Takes the next record; gives it back as sent, unless it has to wait.
    pub(super) fn send(
        &mut self,
        core: &Arc<Core>,
        unit: &Arc<SourceUnit>,
        sending: Sending,
    ) -> Option<Sent> {
        if self.busy {
            self.waiting.push_back(sending);
            return None;
        }
        let sent = start(core, unit, sending);
        self.busy = sent.is_none();
        sent
    }

    /// The record that waited for room has left; gives those that could leave behind it.
    pub(super) fn go_on(&mut self, core: &Arc<Core>, unit: &Arc<SourceUnit>) -> Vec<Sent> {
        let mut gone = Vec::new();
        self.busy = false;
        while !self.busy
            && let Some(sending) = self.waiting.pop_front()
        {
            gone.extend(self.send(core, unit, sending));
        }
        gone
    }
}

/// Submits one record, pinned (TR-93); `None` when it waits for room, and its end comes to the inbox of the unit.
fn start(core: &Arc<Core>, unit: &Arc<SourceUnit>, sending: Sending) -> Option<Sent> {
    let Sending {
        connection,
        record,
        what,
    } = sending;
    let sent = Sent {
        connection,
        is_cutover: matches!(what, What::Cutover),
        taken: true,
    };
    let lost = Sent {
        taken: false,
        ..sent
    };
    let Some(link) = core.moves.links.link(connection) else {
        return Some(lost);
    };
    if let What::Chunk(charge) = what {
        let Ok(tracked) = link.submit_bulk(record) else {
            return Some(lost);
        };
        core.tasks.spawn(async move {
            tracked.await;
            drop(charge);
        });
        return Some(sent);
    }
    match try_submit(&link, record) {
        Ok(taken) => Some(Sent { taken, ..sent }),
        Err(record) => {
            let unit = Arc::clone(unit);
            core.tasks.spawn(async move {
                let taken = wait_for_room(&link, record).await;
                unit.sent(Sent { taken, ..sent });
            });
            None
        }
    }
}

/// Whether the queue took the record; gives it back when there is no room now.
fn try_submit(link: &PeerLink, record: Record) -> Result<bool, Box<Record>> {
    match link.submit(record) {
        Ok(()) => Ok(true),
        Err(refused) if matches!(refused.why, NotSubmitted::Full { .. }) => Err(refused.record),
        Err(refused) => {
            tracing::debug!(target: "spotlane::runtime::relocation", why = %refused.why, "a record was not sent");
            Ok(false)
        }
    }
}

/// Waits as long as the connection lives; `false` when it is over.
async fn wait_for_room(link: &PeerLink, mut record: Box<Record>) -> bool {
    loop {
        match link.send(*record, None).await {
            Ok(()) => return true,
            Err(SendError::DeadlineExceeded { record: again, .. }) => record = again,
            Err(_) => return false,
        }
    }
}

/// The same for who has nothing behind it: `lost` is called when the connection is over before the record has left.
pub(super) fn send_beside(
    core: &Arc<Core>,
    link: Option<PeerLink>,
    record: Record,
    lost: impl FnOnce() + Send + 'static,
) {
    let Some(link) = link else { return lost() };
    match try_submit(&link, record) {
        Ok(true) => {}
        Ok(false) => lost(),
        Err(record) => core.tasks.spawn(async move {
            if !wait_for_room(&link, record).await {
                lost();
            }
        }),
    }
}
