//! Moves that the application signals: a Spot of that mode is sealed only at a boundary that one of its turns has marked,
//! and is told what came of the mark before its next application job (EX-203, RL-205 to RL-207).

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::core::{ATTENTION, Admission, After, Core};
use crate::error::{AskError, InvalidOperation};
use crate::kind::Kind;
use crate::owner::Owner;
use crate::policy::Spot;
use crate::turn::{Turn, TurnKind};

/// When a Spot may be sealed for a move; fixed when its type is registered (RL-205).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Boundaries {
    /// At the end of any turn.
    #[default]
    FrameworkManaged,
    /// At those that the application marks.
    ApplicationSignaled,
}

/// What came of a marked boundary (RL-49, RL-207).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-49")]
pub enum RelocationReady {
    /// The Spot goes on where it is: no move was prepared, or it was given up before the boundary.
    Continued,
    /// The Spot was moved, and this is the target, before its application dispatch opens.
    Relocated,
}

/// The mark of a Spot's lane. One completion for each mark.
#[derive(Debug, Default)]
pub(crate) enum Mark {
    #[default]
    None,
    /// The turn that marked has ended; this is its boundary, or the seal was taken at it.
    Set,
    /// The completion is the next turn of application code; whoever waits for its end.
    Due(RelocationReady, Option<oneshot::Sender<()>>),
}

impl Mark {
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// A seal was given back: the source continues (RL-207).
    pub(crate) fn given_back(&mut self) {
        if matches!(self, Self::Set) {
            *self = Self::Due(RelocationReady::Continued, None);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtBoundary {
    GoOn,
    Seal,
    /// The mark completes as continued.
    Complete,
}

/// What a turn boundary is for a move. `suspended` says whether turns of the gate are (EX-202).
pub(crate) fn at_boundary(
    boundaries: Boundaries,
    marked: bool,
    requested: bool,
    suspended: bool,
) -> AtBoundary {
    let offered = marked || boundaries == Boundaries::FrameworkManaged;
    if requested && !suspended && offered {
        AtBoundary::Seal
    } else if marked {
        AtBoundary::Complete
    } else {
        AtBoundary::GoOn
    }
}

impl<O: Owner<Policy = Spot>> Kind<O> {
    /// Lanes of this kind are sealed for a move only at boundaries that their turns mark (RL-205). For `SpotWide` User
    /// Spots: where the gate is not shared it changes nothing.
    #[must_use]
    pub fn application_signaled(self) -> Self {
        self.with_boundaries(Boundaries::ApplicationSignaled)
    }
}

impl<O: Owner<Policy = Spot>> Turn<'_, O> {
    /// Marks the boundary right after this turn as one at which the Spot may be moved (RL-206). It asks for no move and
    /// waits for nothing. If the handler ends well, [`Owner::on_relocation_ready`] is called once, before the next
    /// application job; a handler that fails takes its mark back (EX-45).
    ///
    /// It is the last operation of its turn: others are refused after it.
    ///
    /// # Errors
    /// [`InvalidOperation::ReadyNotOffered`], and nothing changed, for Spots of another mode and outside of application
    /// turns; [`InvalidOperation::AfterReady`] the second time in a turn.
    ///
    /// ```
    /// use spotlane_lane::{HandlerError, Owner, RelocationReady, Spot, Turn, Yielding};
    /// struct Match { rounds: u32 }
    /// impl Owner for Match {
    ///     type Policy = Spot;
    ///     type Waits = Yielding;
    ///     type Item = u32;
    ///     type Reply = ();
    ///     async fn handle(turn: &mut Turn<'_, Self>, rounds: u32) -> Result<(), HandlerError> {
    ///         turn.state().rounds += rounds;
    ///         // Between two rounds the match may move.
    ///         turn.defer_relocation_ready().map_err(HandlerError::new)
    ///     }
    ///     async fn on_relocation_ready(
    ///         turn: &mut Turn<'_, Self>,
    ///         outcome: RelocationReady,
    ///     ) -> Result<(), HandlerError> {
    ///         if outcome == RelocationReady::Relocated {
    ///             turn.state().rounds = 0;
    ///         }
    ///         Ok(())
    ///     }
    /// }
    /// ```
    pub fn defer_relocation_ready(&mut self) -> Result<(), InvalidOperation> {
        let offered = self.core.kind.boundaries() == Boundaries::ApplicationSignaled
            && matches!(self.kind, TurnKind::Application | TurnKind::Tick);
        if !offered {
            return Err(InvalidOperation::ReadyNotOffered);
        }
        self.check_unmarked()?;
        self.marked = true;
        Ok(())
    }
}

impl<O: Owner> Core<O> {
    /// The turn that marked ended well; its gate is still held, so the boundary comes next.
    pub(crate) fn mark(&self) {
        let mut inner = self.lock();
        if let Some(spot) = inner.spot() {
            spot.mark = Mark::Set;
        }
        drop(inner);
        self.signal(ATTENTION);
    }

    /// At the target, while application dispatch is closed (RL-207).
    pub(crate) async fn relocated(self: &Arc<Self>) -> Result<(), AskError> {
        let ended = self.owe_completion()?;
        // A handler that failed or panicked has had its turn; a lane that ended has not.
        ended.await.map_err(|_| AskError::Unavailable)
    }

    fn owe_completion(self: &Arc<Self>) -> Result<oneshot::Receiver<()>, AskError> {
        let mut after = After::default();
        let (done, ended) = oneshot::channel();
        let mut inner = self.lock();
        if inner.admission == Admission::Ended {
            return Err(AskError::Unavailable);
        }
        match inner.spot() {
            Some(spot) if spot.mark.is_none() => {
                spot.mark = Mark::Due(RelocationReady::Relocated, Some(done));
            }
            _ => {
                return Err(AskError::InvalidOperation(InvalidOperation::AfterReady));
            }
        }
        self.signal(ATTENTION);
        after.schedule = self.make_ready_if_any(&mut inner);
        drop(inner);
        after.run(self);
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EX-202, EX-203, RL-205: every case of a boundary.
    #[test]
    fn a_boundary_is_for_a_move_when_it_is_marked() {
        use AtBoundary::{Complete, GoOn, Seal};
        use Boundaries::{ApplicationSignaled, FrameworkManaged};
        for (boundaries, marked, requested, suspended, expected) in [
            (FrameworkManaged, false, false, false, GoOn),
            (FrameworkManaged, false, true, false, Seal),
            (FrameworkManaged, false, true, true, GoOn),
            (ApplicationSignaled, false, true, false, GoOn),
            (ApplicationSignaled, true, true, false, Seal),
            (ApplicationSignaled, true, true, true, Complete),
            (ApplicationSignaled, true, false, false, Complete),
            (ApplicationSignaled, false, false, true, GoOn),
        ] {
            let found = at_boundary(boundaries, marked, requested, suspended);
            assert_eq!(
                found, expected,
                "{boundaries:?} {marked} {requested} {suspended}"
            );
        }
    }
}
