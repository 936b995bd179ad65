//! What waits for the driver of one moving unit.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::message::Message;

/// One thing that a driver takes, in the order in which it came.
pub(crate) enum Input<T> {
    /// A message for the object (RL-170).
    Arrived(Box<Message>),
    /// Everything else.
    Other(T),
}

/// The inbox of one driver.
///
/// Nothing limits it: the contract forbids a cap on the records of a move (RL-317). What bounds it is what bounds each
/// message: permits before receipt, size, and the deadline of its caller.
pub(crate) struct Inbox<T> {
    /// A leaf lock; nothing is dropped or awaited under it.
    state: Mutex<State<T>>,
    wake: Notify,
}

struct State<T> {
    queue: VecDeque<Input<T>>,
    arrivals: Arrivals,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrivals {
    Taken,
    Closed,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                arrivals: Arrivals::Taken,
            }),
            wake: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, input: T) {
        self.lock().queue.push_back(Input::Other(input));
        self.wake.notify_one();
    }

    /// Puts something in front of everything that waits.
    pub(crate) fn push_first(&self, input: T) {
        self.lock().queue.push_front(Input::Other(input));
        self.wake.notify_one();
    }

    /// Takes a message, or gives it back when the object's messages go elsewhere by now.
    pub(crate) fn hold(&self, message: Box<Message>) -> Result<(), Box<Message>> {
        let mut state = self.lock();
        if state.arrivals == Arrivals::Closed {
            return Err(message);
        }
        state.queue.push_back(Input::Arrived(message));
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Takes no message any more and gives those that wait, in order: one half of the switch to another place, which the
    /// caller makes in the same exclusive step (EX-212).
    #[expect(
        clippy::vec_box,
        reason = "messages are boxed where they wait, before and after"
    )]
    pub(crate) fn close_arrivals(&self) -> Vec<Box<Message>> {
        let mut state = self.lock();
        state.arrivals = Arrivals::Closed;
        let mut arrived = Vec::new();
        let mut others = VecDeque::with_capacity(state.queue.len());
        for input in state.queue.drain(..) {
            match input {
                Input::Arrived(message) => arrived.push(message),
                other @ Input::Other(_) => others.push_back(other),
            }
        }
        state.queue = others;
        arrived
    }

    /// Takes messages again: the object is coming once more.
    pub(crate) fn open_arrivals(&self) {
        self.lock().arrivals = Arrivals::Taken;
    }

    /// Whether it takes messages.
    pub(crate) fn takes_arrivals(&self) -> bool {
        self.lock().arrivals == Arrivals::Taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().queue.is_empty()
    }

    pub(crate) fn try_pop(&self) -> Option<Input<T>> {
        self.lock().queue.pop_front()
    }

    /// Waits for the next one. One driver only.
    pub(crate) async fn pop(&self) -> Input<T> {
        loop {
            self.ready().await;
            if let Some(input) = self.try_pop() {
                return input;
            }
        }
    }

    /// Waits until there is one. One driver only.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(crate) async fn ready(&self) {
        loop {
            let woken = self.wake.notified();
            if !self.is_empty() {
                return;
            }
            woken.await;
        }
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("len", &self.lock().queue.len())
            .finish_non_exhaustive()
    }
}
