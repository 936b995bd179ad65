//! The client's end: connections, attempts, pending requests and heartbeat (sections 13 to 15).
//!
//! | state | event | next |
//! |---|---|---|
//! | `Created`, `Disconnected` | connect | `Connecting`; from `Disconnected` `Reconnecting` |
//! | `Connecting`, `Reconnecting` | attempt succeeded | `Connected` |
//! | `Connecting`, `Reconnecting` | attempt failed, some are left | `Reconnecting`, waits |
//! | `Connecting`, `Reconnecting` | attempt failed, none is left | `Disconnected` |
//! | `Connected` | loss, silence, bad bytes, notice of the server | `Reconnecting` or `Disconnected` |
//! | all | close | `Closed` |

mod event;
mod link;
mod settings;

use std::collections::BTreeMap;

use spotlane_types::time::Monotonic;

use crate::control::CloseReason;
use crate::frame::{Payload, Sequence};
use crate::machine::Machine;

pub use event::{
    AttemptError, CallId, ConnectError, ConnectorEffect, ConnectorEvent, ConnectorState,
    LinkGeneration, Push, RequestError, StrayError,
};
pub use settings::{Compression, ConnectorSettings, Heartbeat, Reconnect, SettingError};

type Effects = Vec<ConnectorEffect>;

/// A connector: one connection at a time, and what waits for it.
#[derive(Debug)]
pub struct Connector {
    settings: ConnectorSettings,
    stage: Stage,
    /// ST-165
    next_link: u64,
    /// ST-166: across connections.
    next_sequence: u64,
    /// The correlation id of the next request.
    next_correlation: u64,
    pending: BTreeMap<Sequence, Pending>,
    /// ST-163: attempts since the last connection that proved itself.
    attempts: u32,
    /// ST-175: of the last connection.
    close_reason: Option<CloseReason>,
}

#[derive(Debug)]
struct Pending {
    call: CallId,
    deadline: Monotonic,
}

#[derive(Debug)]
enum Stage {
    Created,
    Attempting(Attempting),
    Connected(Link),
    Disconnected,
    Closed,
}

#[derive(Debug)]
struct Attempting {
    phase: Phase,
    /// What the application sees.
    shown: ConnectorState,
    waiting: Vec<CallId>,
    cause: Cause,
}

/// Who wants the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The application: once it is there, the automatic attempts have all their tries.
    Asked,
    /// The loss of one before.
    Loss,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Running {
        link: LinkGeneration,
        deadline: Monotonic,
    },
    Waiting {
        until: Monotonic,
    },
}

#[derive(Debug)]
struct Link {
    generation: LinkGeneration,
    next_ping: Option<Monotonic>,
    last_frame: Monotonic,
    /// A frame other than a closing notice came (ST-163).
    proved: Proved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proved {
    No,
    Yes,
}

impl Connector {
    /// A connector that is not connected.
    #[must_use]
    pub const fn new(settings: ConnectorSettings) -> Self {
        Self {
            settings,
            stage: Stage::Created,
            next_link: 1,
            next_sequence: 1,
            next_correlation: 1,
            pending: BTreeMap::new(),
            attempts: 0,
            close_reason: None,
        }
    }

    /// The state.
    pub const fn state(&self) -> ConnectorState {
        match &self.stage {
            Stage::Created => ConnectorState::Created,
            Stage::Attempting(attempting) => attempting.shown,
            Stage::Connected(_) => ConnectorState::Connected,
            Stage::Disconnected => ConnectorState::Disconnected,
            Stage::Closed => ConnectorState::Closed,
        }
    }

    /// Why the last connection ended; cleared by the next one (ST-175).
    pub const fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason
    }

    /// How many requests wait.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    fn connect(&mut self, now: Monotonic, call: CallId, out: &mut Effects) {
        let shown = match &mut self.stage {
            Stage::Created => ConnectorState::Connecting,
            Stage::Disconnected => ConnectorState::Reconnecting,
            Stage::Attempting(attempting) => return attempting.waiting.push(call),
            Stage::Connected(_) => return out.push(connected(call)),
            Stage::Closed => {
                let result = Err(ConnectError::Closed);
                return out.push(ConnectorEffect::ConnectEnded { call, result });
            }
        };
        // ST-162: the first one at once.
        self.attempts = 0;
        out.push(ConnectorEffect::State(shown));
        self.attempt(now, shown, vec![call], Cause::Asked, out);
    }

    fn attempt(
        &mut self,
        now: Monotonic,
        shown: ConnectorState,
        waiting: Vec<CallId>,
        cause: Cause,
        out: &mut Effects,
    ) {
        let link = LinkGeneration(self.next_link);
        self.next_link = self.next_link.saturating_add(1);
        self.attempts = self.attempts.saturating_add(1);
        let deadline = now.after(self.settings.connect_timeout);
        self.stage = Stage::Attempting(Attempting {
            phase: Phase::Running { link, deadline },
            shown,
            waiting,
            cause,
        });
        out.push(ConnectorEffect::Attempt(link));
    }

    fn attempted(
        &mut self,
        now: Monotonic,
        link: LinkGeneration,
        result: Result<(), AttemptError>,
        out: &mut Effects,
    ) {
        let ours = |attempting: &Attempting| matches!(attempting.phase, Phase::Running { link: running, .. } if running == link);
        let attempting = match core::mem::replace(&mut self.stage, Stage::Disconnected) {
            Stage::Attempting(attempting) if ours(&attempting) => attempting,
            other @ (Stage::Created
            | Stage::Attempting(_)
            | Stage::Connected(_)
            | Stage::Disconnected
            | Stage::Closed) => {
                // ST-164, ST-165: the late connection of an abandoned attempt is closed.
                self.stage = other;
                out.push(match result {
                    Ok(()) => ConnectorEffect::CloseLink(link),
                    Err(_) => ConnectorEffect::Ignored,
                });
                return;
            }
        };
        match result {
            Ok(()) => {
                self.close_reason = None;
                if attempting.cause == Cause::Asked {
                    self.attempts = 0;
                }
                let heartbeat = self.settings.heartbeat;
                self.stage = Stage::Connected(Link {
                    generation: link,
                    next_ping: heartbeat.map(|heartbeat| now.after(heartbeat.interval())),
                    last_frame: now,
                    proved: Proved::No,
                });
                out.push(ConnectorEffect::State(ConnectorState::Connected));
                out.extend(attempting.waiting.into_iter().map(connected));
            }
            Err(error) => self.attempt_failed(now, attempting, error, out),
        }
    }

    fn attempt_failed(
        &mut self,
        now: Monotonic,
        attempting: Attempting,
        error: AttemptError,
        out: &mut Effects,
    ) {
        if let Some(until) = self.next_attempt(now, attempting.cause) {
            if attempting.shown != ConnectorState::Reconnecting {
                out.push(ConnectorEffect::State(ConnectorState::Reconnecting));
            }
            self.stage = Stage::Attempting(Attempting {
                phase: Phase::Waiting { until },
                shown: ConnectorState::Reconnecting,
                waiting: attempting.waiting,
                cause: attempting.cause,
            });
            return;
        }
        self.close_reason = self.close_reason.or(Some(CloseReason::TransportError));
        self.stage = Stage::Disconnected;
        out.push(ConnectorEffect::State(ConnectorState::Disconnected));
        for call in attempting.waiting {
            let result = Err(ConnectError::Attempt(error.clone()));
            out.push(ConnectorEffect::ConnectEnded { call, result });
        }
    }

    /// ST-162, ST-163: when the next attempt begins, if there is one left.
    fn next_attempt(&self, now: Monotonic, cause: Cause) -> Option<Monotonic> {
        let reconnect = self.settings.reconnect.as_ref()?;
        // The first attempt of a connect had no wait before it.
        let waited = match cause {
            Cause::Asked => self.attempts.saturating_sub(1),
            Cause::Loss => self.attempts,
        };
        (self.attempts < reconnect.attempts_max).then(|| now.after(reconnect.delay_before(waited)))
    }

    /// ST-161: pending requests, connection, state, event, and then the policy.
    fn lose(&mut self, now: Monotonic, reason: CloseReason, out: &mut Effects) {
        let Stage::Connected(link) = core::mem::replace(&mut self.stage, Stage::Disconnected)
        else {
            return;
        };
        // ST-175: the first cause stays.
        let reason = *self.close_reason.get_or_insert(reason);
        self.fail_pending(reason, out);
        out.push(ConnectorEffect::CloseLink(link.generation));
        out.push(ConnectorEffect::State(ConnectorState::Disconnected));
        out.push(ConnectorEffect::Disconnected(reason));
        if link.proved == Proved::Yes {
            self.attempts = 0;
        }
        let Some(reconnect) = &self.settings.reconnect else {
            return;
        };
        if self.attempts >= reconnect.attempts_max {
            return;
        }
        let until = now.after(reconnect.delay_before(self.attempts));
        self.stage = Stage::Attempting(Attempting {
            phase: Phase::Waiting { until },
            shown: ConnectorState::Reconnecting,
            waiting: Vec::new(),
            cause: Cause::Loss,
        });
        out.push(ConnectorEffect::State(ConnectorState::Reconnecting));
    }

    fn fail_pending(&mut self, reason: CloseReason, out: &mut Effects) {
        for pending in core::mem::take(&mut self.pending).into_values() {
            out.push(ConnectorEffect::RequestEnded {
                call: pending.call,
                result: Err(RequestError::Disconnected(reason)),
            });
        }
    }

    /// ST-164
    fn close(&mut self, out: &mut Effects) {
        match core::mem::replace(&mut self.stage, Stage::Closed) {
            Stage::Closed => return out.push(ConnectorEffect::Ignored),
            Stage::Created | Stage::Disconnected => {}
            Stage::Attempting(attempting) => {
                match attempting.phase {
                    Phase::Running { link, .. } => out.push(ConnectorEffect::Abandon(link)),
                    Phase::Waiting { .. } => {}
                }
                for call in attempting.waiting {
                    let result = Err(ConnectError::Closed);
                    out.push(ConnectorEffect::ConnectEnded { call, result });
                }
            }
            Stage::Connected(link) => {
                let reason = *self.close_reason.get_or_insert(CloseReason::ClientClose);
                out.push(ConnectorEffect::CloseLink(link.generation));
                self.fail_pending(reason, out);
                out.push(ConnectorEffect::State(ConnectorState::Closed));
                return out.push(ConnectorEffect::Disconnected(reason));
            }
        }
        out.push(ConnectorEffect::State(ConnectorState::Closed));
    }

    fn attempt_deadline(&mut self, now: Monotonic, out: &mut Effects) {
        let due = match &self.stage {
            Stage::Attempting(attempting) => attempting.phase.due() <= now,
            Stage::Created | Stage::Connected(_) | Stage::Disconnected | Stage::Closed => false,
        };
        if !due {
            return;
        }
        let Stage::Attempting(attempting) =
            core::mem::replace(&mut self.stage, Stage::Disconnected)
        else {
            return;
        };
        match attempting.phase {
            Phase::Waiting { .. } => {
                let Attempting {
                    shown,
                    waiting,
                    cause,
                    ..
                } = attempting;
                self.attempt(now, shown, waiting, cause, out);
            }
            Phase::Running { link, .. } => {
                out.push(ConnectorEffect::Abandon(link));
                let error = AttemptError::Timeout(self.settings.connect_timeout);
                self.attempt_failed(now, attempting, error, out);
            }
        }
    }
}

impl Phase {
    const fn due(self) -> Monotonic {
        match self {
            Self::Running { deadline, .. } => deadline,
            Self::Waiting { until } => until,
        }
    }
}

const fn connected(call: CallId) -> ConnectorEffect {
    let result = Ok(());
    ConnectorEffect::ConnectEnded { call, result }
}

impl Machine for Connector {
    type Event = ConnectorEvent;
    type Effect = ConnectorEffect;

    fn on_event(&mut self, now: Monotonic, event: ConnectorEvent, out: &mut Vec<ConnectorEffect>) {
        match event {
            ConnectorEvent::Connect(call) => self.connect(now, call, out),
            ConnectorEvent::Close => self.close(out),
            ConnectorEvent::Attempted { link, result } => self.attempted(now, link, result, out),
            ConnectorEvent::Received { link, frame } => self.received(now, link, frame, out),
            ConnectorEvent::Undecodable { link, error } => {
                if self.is_current(link) {
                    out.push(ConnectorEffect::Stray(StrayError::Undecodable(error)));
                    self.lose(now, CloseReason::TransportError, out);
                } else {
                    out.push(ConnectorEffect::Ignored);
                }
            }
            ConnectorEvent::Lost(link) => {
                if self.is_current(link) {
                    self.lose(now, CloseReason::TransportError, out);
                } else {
                    out.push(ConnectorEffect::Ignored);
                }
            }
            ConnectorEvent::Send {
                call,
                name,
                payload,
                extras,
            } => self.send(call, name, payload, extras, out),
            ConnectorEvent::Request {
                call,
                name,
                payload,
                extras,
                timeout,
            } => {
                let timeout = timeout.unwrap_or(self.settings.request_timeout);
                let deadline = now.after(timeout);
                self.request(call, name, payload, extras, deadline, out);
            }
            ConnectorEvent::Forgotten(call) => {
                self.pending.retain(|_, pending| pending.call != call);
            }
        }
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        let stage = match &self.stage {
            Stage::Attempting(attempting) => Some(attempting.phase.due()),
            Stage::Connected(link) => self.link_deadline(link),
            Stage::Created | Stage::Disconnected | Stage::Closed => None,
        };
        let pending = self.pending.values().map(|pending| pending.deadline).min();
        stage.into_iter().chain(pending).min()
    }

    fn on_deadline(&mut self, now: Monotonic, out: &mut Vec<ConnectorEffect>) {
        self.late_requests(now, out);
        self.attempt_deadline(now, out);
        self.heartbeat(now, out);
    }
}

/// What a response brings.
pub(crate) type Reply = Result<Payload, RequestError>;

#[cfg(test)]
mod tests;
