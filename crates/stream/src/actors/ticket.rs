//! The answers that are still to come: each is reported once, and dropping a ticket reports that there is none.

use spotlane_session::{BindAnswer, NoticeEnd, RelayError, SessionEvent};
use spotlane_stream_proto::RemoteError;
use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::ActorId;
use spotlane_wire::payload::ApplicationPayload;
use tokio::sync::oneshot;

use super::SessionActors;
use super::convert::from_application;
use crate::session::Replier;

/// Reports the answer to a bind. Dropped, there was none (SB-27).
#[derive(Debug)]
pub struct BindTicket {
    pub(super) actors: SessionActors,
    pub(super) generation: BindingGeneration,
    pub(super) answer: Option<BindAnswer>,
}

impl BindTicket {
    /// The binding that it is for.
    pub const fn generation(&self) -> BindingGeneration {
        self.generation
    }

    /// The answer.
    pub fn answer(mut self, answer: BindAnswer) {
        self.answer = Some(answer);
    }
}

impl Drop for BindTicket {
    fn drop(&mut self) {
        let answer = self.answer.take().unwrap_or(BindAnswer::Unanswered);
        let generation = self.generation;
        self.actors
            .on(SessionEvent::BindAnswered { generation, answer });
    }
}

/// Reports the end of a disconnect notice. Dropped, it failed.
#[derive(Debug)]
pub struct NoticeTicket {
    pub(super) actors: SessionActors,
    pub(super) generation: BindingGeneration,
    pub(super) end: NoticeEnd,
}

impl NoticeTicket {
    /// The binding that it is for.
    pub const fn generation(&self) -> BindingGeneration {
        self.generation
    }

    /// How it ended.
    pub fn ended(mut self, end: NoticeEnd) {
        self.end = end;
    }
}

impl Drop for NoticeTicket {
    fn drop(&mut self) {
        let (generation, end) = (self.generation, self.end);
        self.actors
            .on(SessionEvent::NoticeEnded { generation, end });
    }
}

/// Reports what became of a relay. Dropped before it was accepted, the call fails; dropped later, the client that waits
/// is told so.
#[derive(Debug)]
pub struct RelayTicket {
    pub(super) actor_id: ActorId,
    pub(super) accepted: Option<oneshot::Sender<Result<(), RelayError>>>,
    pub(super) replier: Option<Replier>,
}

impl RelayTicket {
    /// The local queue took the record (EX-264): the call completes.
    pub fn accepted(&mut self) {
        if let Some(accepted) = self.accepted.take() {
            // The caller may be gone; the record goes out all the same.
            drop(accepted.send(Ok(())));
        }
    }

    /// It was not taken: the caller hears of it, or the client when the call was complete already (SES-3).
    pub fn refused(mut self, error: &RelayError) {
        self.end(error);
    }

    fn end(&mut self, error: &RelayError) {
        match (self.accepted.take(), self.replier.take()) {
            // The handler answers its client.
            (Some(accepted), _) => drop(accepted.send(Err(error.clone()))),
            (None, Some(replier)) => {
                let error = RemoteError {
                    code: format!("{:?}", error.kind()),
                    message: error.to_string(),
                };
                drop(replier.fail_now(&error));
            }
            (None, None) => {}
        }
    }

    /// Whether the client waits for an answer.
    pub const fn wants_reply(&self) -> bool {
        self.replier.is_some()
    }

    /// The Actor's answer completes the request of the client, once (EX-281).
    pub fn reply(mut self, payload: &ApplicationPayload) {
        self.accepted();
        if let Some(replier) = self.replier.take() {
            // A session that is over, or a client that does not read: the reply goes nowhere (SB-35).
            drop(replier.reply_now(from_application(payload)));
        }
    }

    /// The request failed; the client learns the kind.
    pub fn fail(mut self, error: &RemoteError) {
        self.accepted();
        if let Some(replier) = self.replier.take() {
            drop(replier.fail_now(error));
        }
    }
}

impl Drop for RelayTicket {
    fn drop(&mut self) {
        let actor_id = self.actor_id.clone();
        self.end(&RelayError::BindingEnded { actor_id });
    }
}
