//! What others ask of the task of a connection.

use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use spotlane_stream_proto::server::ServerClose;
use spotlane_types::id::ActorId;

/// A mailbox of facts: each of them is there once or not at all.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// Protects the facts; a leaf, held for a copy.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: Asked,
    waker: Option<Waker>,
}

/// What was asked since it was last looked at.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// To close the connection.
    pub(crate) close: Option<ServerClose>,
    /// To run the replaced callback as the last application turn, and to dispatch nothing more.
    pub(crate) replaced: Option<ActorId>,
    /// To look at deadlines again.
    pub(crate) look: bool,
}

impl Signal {
    pub(crate) fn close(&self, close: ServerClose) {
        self.post(|asked| {
            asked.close.get_or_insert(close);
        });
    }

    pub(crate) fn replaced(&self, actor_id: ActorId) {
        self.post(|asked| asked.replaced = Some(actor_id));
    }

    pub(crate) fn look(&self) {
        self.post(|asked| asked.look = true);
    }

    fn post(&self, change: impl FnOnce(&mut Asked)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state.asked);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes what was asked; remembers whom to wake for more.
    pub(crate) fn take(&self, waker: &Waker) -> Asked {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        std::mem::take(&mut state.asked)
    }
}
