//! The shape of every machine of this crate.

use spotlane_types::time::Monotonic;

/// A decision procedure: events and time in, effects out, nothing else.
pub trait Machine {
    /// What can happen to it: input of a peer, an answer to an effect, a command of the host.
    type Event;
    /// What its driver must do, in this order. An effect that has an answer carries an id.
    type Effect;

    /// Takes one event. On return `out` holds everything the event asks for.
    fn on_event(&mut self, now: Monotonic, event: Self::Event, out: &mut Vec<Self::Effect>);
    /// When to call [`Machine::on_deadline`]; `None` when nothing is pending.
    fn next_deadline(&self) -> Option<Monotonic>;
    /// Acts on every deadline at or before `now`. Early and repeated calls change nothing.
    fn on_deadline(&mut self, now: Monotonic, out: &mut Vec<Self::Effect>);
}
