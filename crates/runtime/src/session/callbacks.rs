//! Disconnect callbacks that have not begun: how many, and of which binding.

use spotlane_session::BindingIdentity;

/// The disconnect callbacks of one Actor that were accepted and have not begun, in their order.
///
/// An Actor that hangs may be bound and left as often as its clients like. What waits for it takes the same room however
/// often: a callback says nothing of its session, so that only the last one, whose binding may still stand, has an identity,
/// and the others are a number. Their turns are items of the Actor's lane; one is there, or on its way, while any waits.
#[derive(Debug, Default)]
pub(super) struct Callbacks {
    /// Those whose binding has ended, or gave way to a later one. They come first.
    earlier: u64,
    /// The one whose binding stands until it has run (SB-61).
    last: Option<BindingIdentity>,
    /// Turns in the lane, or on their way there, that have not begun.
    turns: u64,
    /// How many there were when the Actor was captured, until it has left or stays.
    captured: Option<u64>,
    /// The Actor has left: what still comes follows it.
    gone: bool,
}

impl Callbacks {
    /// How many have not begun.
    pub(super) fn len(&self) -> u64 {
        self.earlier.saturating_add(u64::from(self.last.is_some()))
    }

    /// One more, of this binding.
    pub(super) fn accept(&mut self, binding: BindingIdentity) {
        if self.last.replace(binding).is_some() {
            self.earlier = self.earlier.saturating_add(1);
        }
    }

    /// One more, of a binding that has ended. It comes before the last one, which is the order of their bindings.
    pub(super) fn accept_ended(&mut self) {
        self.earlier = self.earlier.saturating_add(1);
    }

    /// Whether the lane needs one more turn; the caller brings it there.
    pub(super) fn wants_turn(&mut self) -> bool {
        let wants = self.turns == 0 && self.len() > 0;
        self.turns = self.turns.saturating_add(u64::from(wants));
        wants
    }

    /// One more turn, whether or not one is there: it marks a place among what an Actor on its way holds (SB-65).
    pub(super) fn add_turn(&mut self) {
        self.turns = self.turns.saturating_add(1);
    }

    /// A turn has begun.
    pub(super) fn turn_begins(&mut self) -> Option<Callback> {
        self.turns = self.turns.saturating_sub(1);
        if let Some(left) = self.earlier.checked_sub(1) {
            self.earlier = left;
            return Some(Callback { binding: None });
        }
        let binding = self.last.take()?;
        Some(Callback {
            binding: Some(binding),
        })
    }

    /// The lane takes no turn. The Actor has ended, and its callbacks with it (EX-306): gives the binding that stood for one.
    /// While it is captured that says nothing: they leave with it, or it stays.
    pub(super) fn end(&mut self) -> Option<BindingIdentity> {
        if self.captured.is_some() {
            return None;
        }
        self.earlier = 0;
        self.turns = 0;
        self.last.take()
    }

    /// The Actor was captured: all that wait now travel as its saved work.
    pub(super) fn capture(&mut self) -> u64 {
        let captured = self.len();
        self.captured = Some(captured);
        captured
    }

    /// The move did not happen. Says whether the lane needs a turn: those that found no place in it are not there.
    pub(super) fn stay(&mut self) -> bool {
        let wants = self.captured.take().is_some() && self.len() > 0;
        self.turns = self.turns.saturating_add(u64::from(wants));
        wants
    }

    /// How many travel as saved work.
    pub(super) fn captured(&self) -> u64 {
        self.captured.unwrap_or(0)
    }

    /// The Actor crosses the boundary: gives how many were accepted since its capture. No more are accepted here.
    pub(super) fn cross(&mut self) -> u64 {
        let since = self.len().saturating_sub(self.captured());
        *self = Self {
            gone: true,
            ..Self::default()
        };
        since
    }

    /// Whether the Actor has left.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }
}

/// A callback whose turn has come.
#[derive(Debug)]
pub(super) struct Callback {
    /// The binding that ends with it, if it may still stand.
    pub(super) binding: Option<BindingIdentity>,
}

#[cfg(test)]
mod tests {
    use spotlane_types::generation::{BindingGeneration, NodeGeneration};
    use spotlane_types::id::NodeRid;

    use super::*;

    fn binding(number: u64) -> BindingIdentity {
        BindingIdentity {
            owner_rid: NodeRid::new(b"g").unwrap(),
            lifecycle: NodeGeneration::new(1).unwrap(),
            generation: BindingGeneration::new(number).unwrap(),
        }
    }

    fn run(callbacks: &mut Callbacks) -> Option<BindingIdentity> {
        callbacks.turn_begins().expect("one waits").binding
    }

    /// SB-62: each once, in order; only the last may have a binding that stands
    #[test]
    fn each_runs_once_and_one_turn_waits_for_all() {
        let mut callbacks = Callbacks::default();
        for number in 1..=1_000 {
            callbacks.accept(binding(number));
            assert_eq!(callbacks.wants_turn(), number == 1);
        }
        assert_eq!(callbacks.len(), 1_000);
        for number in 1..=1_000 {
            let ended = run(&mut callbacks);
            assert_eq!(ended, (number == 1_000).then(|| binding(1_000)));
            assert_eq!(callbacks.wants_turn(), number < 1_000);
        }
        assert!(callbacks.turn_begins().is_none());
        callbacks.accept(binding(1_001));
        assert!(callbacks.wants_turn());
    }

    /// SB-65: what was accepted before the capture is saved work, what comes after it is sent on
    #[test]
    fn a_capture_tells_what_is_saved_from_what_follows() {
        let mut callbacks = Callbacks::default();
        callbacks.accept(binding(1));
        callbacks.accept(binding(2));
        assert_eq!(callbacks.capture(), 2);
        callbacks.accept(binding(3));
        assert_eq!((callbacks.captured(), callbacks.cross()), (2, 1));
        assert!(callbacks.is_gone());
        assert_eq!(callbacks.len(), 0);
        assert!(callbacks.turn_begins().is_none());
    }

    /// SB-65: a lane that takes no turn any more ends no callback of an Actor that is on its way, and one that stays has a turn
    /// for it.
    #[test]
    fn a_captured_actor_keeps_its_callbacks() {
        let mut callbacks = Callbacks::default();
        callbacks.accept(binding(1));
        assert_eq!(callbacks.capture(), 1);
        callbacks.accept(binding(2));
        callbacks.add_turn();
        assert_eq!((callbacks.end(), callbacks.len()), (None, 2));
        assert!(callbacks.stay());
        assert_eq!(
            (run(&mut callbacks), run(&mut callbacks)),
            (None, Some(binding(2)))
        );
        assert!(!callbacks.stay(), "once");
        callbacks.accept(binding(3));
        callbacks.capture();
        callbacks.accept(binding(4));
        callbacks.end();
        assert_eq!(callbacks.cross(), 1);
    }

    /// EX-306
    #[test]
    fn callbacks_end_with_their_actor() {
        let mut callbacks = Callbacks::default();
        callbacks.accept(binding(1));
        callbacks.accept(binding(2));
        assert_eq!(callbacks.end(), Some(binding(2)));
        assert_eq!(callbacks.len(), 0);
    }
}
