//! A peer that takes no new messages (TR-46), and what goes out all the same.

use spotlane_mesh_proto::zmp::{FlowState, Parts};

use super::{Batch, CONTROL_CHARGE_MAX, Ends, Full, LaneOut, Phase, Piece, State};

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
            state.control.extend(Piece::of_message(parts, None));
            state.control_charge = charge.saturating_add(parts.charge());
        }
        Ok(())
    }
}

impl State {
    /// Takes back what is about to be written behind the next message boundary.
    pub(super) fn hold_back(&mut self) {
        let Batch {
            pieces,
            offset,
            inside,
            control,
            ..
        } = &mut self.batch;
        let begun = *offset > 0 || *inside;
        let keep = if begun {
            let end = pieces
                .iter()
                .position(|piece| piece.ends == Ends::BetweenMessages);
            end.map_or(pieces.len(), |end| end.saturating_add(1))
        } else {
            0
        };
        let keep = keep.max(*control).min(pieces.len());
        let mut back = pieces.split_off(keep);
        // Twice paused within one batch: what was held back before comes behind it.
        back.append(&mut self.held);
        self.held = back;
    }

    /// Begins a batch with what goes before everything else: control records, then what was held back.
    /// False when nothing else may follow.
    pub(super) fn gather_first(&mut self) -> bool {
        self.batch.control = self.control.len();
        self.control_charge = 0;
        self.batch.pieces.append(&mut self.control);
        if self.flow == FlowState::Paused {
            return false;
        }
        self.batch.pieces.append(&mut self.held);
        true
    }
}
