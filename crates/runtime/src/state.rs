//! The state of a host: one value, from which everything else is derived (EX-310).

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use spotlane_types::kind::RuntimeState;
use tokio::sync::watch;

/// What a host is doing (RL-181, EX-310). The numbers are those of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-181")]
#[repr(u8)]
pub enum HostState {
    /// It starts.
    Preparing = 0,
    /// It takes everything. The only state in which it is ready.
    Serving = 1,
    /// Its objects are moving away.
    Relocating = 2,
    /// Its objects have moved away.
    Relocated = 3,
    /// It shuts down.
    Draining = 4,
    /// It has ended.
    Stopped = 5,
    /// It cannot go on; shut it down.
    Error = 6,
}

impl HostState {
    /// Whether the host is ready (EX-310).
    pub const fn is_ready(self) -> bool {
        matches!(self, Self::Serving)
    }

    /// How other nodes see it (EX-311, D-27): what moves away is not selected any more.
    pub(crate) const fn on_the_wire(self) -> RuntimeState {
        match self {
            Self::Preparing => RuntimeState::Preparing,
            Self::Serving => RuntimeState::Serving,
            Self::Relocating | Self::Relocated | Self::Draining => RuntimeState::Draining,
            Self::Stopped => RuntimeState::Stopped,
            Self::Error => RuntimeState::Error,
        }
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Serving => "serving",
            Self::Relocating => "relocating",
            Self::Relocated => "relocated",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::Error => "error",
        }
    }

    /// RL-181: which step may follow.
    pub(crate) const fn may_become(self, next: Self) -> bool {
        // One line per state reads better than fewer patterns.
        #[expect(clippy::unnested_or_patterns, reason = "a line per state")]
        let legal = matches!(
            (self, next),
            (
                Self::Preparing,
                Self::Serving | Self::Error | Self::Draining
            ) | (
                Self::Serving,
                Self::Relocating | Self::Draining | Self::Error
            ) | (
                Self::Relocating,
                Self::Relocated | Self::Serving | Self::Draining | Self::Error
            ) | (Self::Relocated, Self::Draining)
                | (Self::Draining, Self::Stopped)
                | (Self::Error, Self::Draining)
        );
        legal
    }
}

impl fmt::Display for HostState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The one place that holds the state.
#[derive(Debug)]
pub(crate) struct StateCell {
    holds: watch::Sender<HostState>,
    /// The state once more, for the message path, which takes no lock for it. Written under that of `holds`.
    number: AtomicU8,
}

impl StateCell {
    pub(crate) fn new() -> Self {
        Self {
            holds: watch::Sender::new(HostState::Preparing),
            number: AtomicU8::new(HostState::Preparing as u8),
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> HostState {
        match self.number.load(Ordering::Acquire) {
            0 => HostState::Preparing,
            1 => HostState::Serving,
            2 => HostState::Relocating,
            3 => HostState::Relocated,
            4 => HostState::Draining,
            5 => HostState::Stopped,
            _ => HostState::Error,
        }
    }

    /// Takes a legal step; `false` when it is none (RL-181).
    pub(crate) fn advance(&self, next: HostState) -> bool {
        let mut before = next;
        let stepped = self.holds.send_if_modified(|state| {
            let legal = state.may_become(next);
            if legal {
                self.number.store(next as u8, Ordering::Release);
                before = std::mem::replace(state, next);
            }
            legal
        });
        if stepped {
            // RL-338: one for the state that holds, zero for the others.
            metrics::gauge!("zlink.host.state", "state" => before.name()).set(0.0);
            metrics::gauge!("zlink.host.state", "state" => next.name()).set(1.0);
            tracing::info!(
                target: "spotlane::runtime::host",
                state = next.name(),
                "zlink.runtime.mesh_node.state_changed"
            );
        }
        stepped
    }

    pub(crate) fn watch(&self) -> watch::Receiver<HostState> {
        self.holds.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [HostState; 7] = [
        HostState::Preparing,
        HostState::Serving,
        HostState::Relocating,
        HostState::Relocated,
        HostState::Draining,
        HostState::Stopped,
        HostState::Error,
    ];

    /// EX-311: discovery has a word for each state, and selects only a host that serves.
    #[test]
    fn others_see_what_retires() {
        use RuntimeState as Seen;
        let seen = ALL.map(HostState::on_the_wire);
        let (retiring, ended) = (Seen::Draining, [Seen::Stopped, Seen::Error]);
        assert_eq!(seen[..2], [Seen::Preparing, Seen::Serving]);
        assert_eq!(seen[2..5], [retiring; 3]);
        assert_eq!(seen[5..], ended);
    }

    /// RL-181, EX-310
    #[test]
    fn a_host_is_ready_only_while_it_serves_and_never_comes_back() {
        for (number, state) in ALL.iter().enumerate() {
            assert_eq!(usize::from(*state as u8), number);
            assert_eq!(state.is_ready(), *state == HostState::Serving);
            assert!(!HostState::Stopped.may_become(*state));
            assert!(!state.may_become(HostState::Preparing));
        }
        for state in ALL {
            let cell = StateCell::new();
            cell.number.store(state as u8, Ordering::Release);
            assert_eq!(cell.get(), state);
        }
        let cell = StateCell::new();
        assert!(!cell.advance(HostState::Stopped));
        assert!(cell.advance(HostState::Serving));
        assert!(cell.advance(HostState::Relocating));
        assert!(cell.advance(HostState::Serving));
        assert!(cell.advance(HostState::Draining));
        assert_eq!(cell.get(), *cell.watch().borrow());
        assert!(!cell.advance(HostState::Serving));
    }
}
