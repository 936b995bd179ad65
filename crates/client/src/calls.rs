//! What the application asks of the task of a client.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use spotlane_stream_proto::connector::{CallId, ConnectError, RequestError};
use spotlane_stream_proto::{Extras, Name, Payload};
use tokio::sync::{Semaphore, oneshot};

/// Calls that wait for the task of the client; more wait for room.
const CALLS_MAX: usize = 64;

/// A call of the application.
#[derive(Debug)]
pub(crate) enum Call {
    Connect(oneshot::Sender<Result<(), ConnectError>>),
    Close(oneshot::Sender<()>),
    Send {
        name: Name,
        payload: Payload,
        extras: Extras,
        ended: oneshot::Sender<Result<(), RequestError>>,
    },
    Request {
        call: CallId,
        name: Name,
        payload: Payload,
        extras: Extras,
        timeout: Option<Duration>,
        ended: oneshot::Sender<Result<Payload, RequestError>>,
    },
    /// The caller of a request is gone.
    Forgotten(CallId),
}

/// The way from handles to the task.
#[derive(Debug)]
pub(crate) struct Calls {
    /// Protects the queue; a leaf, held for a push or a pop.
    state: Mutex<State>,
    room: Semaphore,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Call>,
    waker: Option<Waker>,
    next_call: u64,
    /// The task is gone.
    closed: bool,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::default(),
            room: Semaphore::new(CALLS_MAX),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fresh(&self) -> CallId {
        let mut state = self.lock();
        state.next_call = state.next_call.saturating_add(1);
        CallId::new(state.next_call)
    }

    /// Waits for room. Without a task the call is dropped, which its caller takes for an answer.
    ///
    /// Cancel safe: dropped before it completed, the call is not made.
    pub(crate) async fn put(&self, call: Call) {
        if let Ok(room) = self.room.acquire().await {
            room.forget();
            self.push(call);
        }
    }

    /// The end of a call that has its room already: takes none.
    pub(crate) fn forget(&self, call: CallId) {
        self.push(Call::Forgotten(call));
    }

    /// Takes no more calls and ends those that wait.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let ended = std::mem::take(&mut state.queue);
        drop(state);
        self.room.close();
        drop(ended);
    }

    fn push(&self, call: Call) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return drop(call);
        }
        state.queue.push_back(call);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next call, and remembers whom to wake when there is none.
    pub(crate) fn take(&self, waker: &Waker) -> Option<Call> {
        let mut state = self.lock();
        let Some(call) = state.queue.pop_front() else {
            if !state.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
                state.waker = Some(waker.clone());
            }
            return None;
        };
        drop(state);
        if !matches!(call, Call::Forgotten(_)) {
            self.room.add_permits(1);
        }
        Some(call)
    }
}
