//! Timers of execution objects.

/// One tick of a timer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tick {}

pub(crate) struct TickEnd {}

impl TickEnd {
    pub(crate) fn begin(&self, _: &Tick) -> bool {
        true
    }
    pub(crate) fn ended(self, _: bool) {}
}
