//! A peer that takes no new messages (TR-46), and what goes out all the same.

use spotlane_mesh_proto::zmp::{FlowState, Parts};

use super::{CONTROL_CHARGE_MAX, Full, LaneOut, Phase, Segment, State};

impl LaneOut {
    /// The peer takes no new messages, or takes them again. What is queued stays queued: a paused peer
    /// costs its own queue, and a sender that finds it full is held back as by any slow peer (TR-51).
    pub(crate) fn set_flow(&self, flow: FlowState) {
        let mut state = self.lock();
        state.flow = flow;
        match flow {
            FlowState::Paused => state.hold_back(),
            FlowState::Running => self.wake(&mut state),
        }
    }

    /// Queues a message of the link itself, whose caller flushes. It goes out at the next message
    /// boundary, ahead of what waits there, and a pause of the peer is not for it (TR-85, TR-88).
    ///
    /// # Errors
    /// The peer lets too many of them pile up.
    pub(crate) fn push_control(&self, parts: &Parts) -> Result<(), Full> {
        let mut state = self.lock();
        let (charge, max) = (state.control_charge, CONTROL_CHARGE_MAX);
        if charge > max {
            return Err(Full { charge, max });
        }
        if state.phase == Phase::Open {
            let message = Segment::of_shared(parts.as_slice(), None);
            state.control.push_back(message);
            state.control_charge = charge.saturating_add(parts.charge());
        }
        Ok(())
    }
}

impl State {
    /// Takes back what is about to be written behind the next message boundary.
    pub(super) fn hold_back(&mut self) {
        let mut back = self.batch.take_back();
        // Twice paused within one batch: what was held back before comes behind it.
        back.append(&mut self.held);
        self.held = back;
    }

    /// Begins a batch with what goes before everything else: control records, then what was held back.
    /// False when nothing else may follow.
    pub(super) fn gather_first(&mut self) -> bool {
        self.control_charge = 0;
        self.batch.push_control(&mut self.control);
        if self.flow == FlowState::Paused {
            return false;
        }
        self.batch.append(&mut self.held);
        true
    }
}
