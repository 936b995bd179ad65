//! Clients of counters: `login` binds an Actor to the session, and everything else goes to it.
//!
//! The client stays connected while its Actor moves; nothing here notices a move.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use spotlane::session::{
    Accepted, HandlerFailure, Packet, Payload, RelayFailure, Session, SessionActor, SessionFactory,
    SessionHandler,
};
use spotlane::{Error, ErrorKind, Host};
use tokio::time::sleep;

use crate::counter::Counter;
use crate::name::node_name;

/// How often a login is tried while its Actor is being moved.
const LOGIN_TRIES: u32 = 20;
/// From one try to the next.
const LOGIN_PAUSE: Duration = Duration::from_millis(25);

/// `login`: binds the Actor of this id, which is created when it is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a message of an application")]
pub struct Login {
    /// The id of the Actor.
    pub actor: String,
}

/// The answer to `login`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a message of an application")]
pub struct LoggedIn {
    /// The id of the Actor.
    pub actor: String,
    /// The node that it lives on.
    pub node: String,
}

/// Makes a [`CounterSession`] for each client of a host.
#[derive(Clone, Debug)]
pub struct CounterSessions {
    host: Host,
}

impl CounterSessions {
    /// For the clients of this host.
    pub fn new(host: Host) -> Self {
        Self { host }
    }
}

impl SessionFactory for CounterSessions {
    type Handler = CounterSession;

    fn session(&self, _: Accepted) -> CounterSession {
        CounterSession {
            host: self.host.clone(),
            actor: None,
        }
    }
}

/// One client.
#[derive(Debug)]
pub struct CounterSession {
    host: Host,
    actor: Option<SessionActor>,
}

impl SessionHandler for CounterSession {
    async fn packet(&mut self, session: &Session, packet: Packet) -> Result<(), HandlerFailure> {
        if packet.name() == "login" {
            return self.login(session, packet).await;
        }
        let Some(actor) = &self.actor else {
            return Err(failure(
                ErrorKind::InvalidOperation,
                "log in first: login {\"actor\":\"ID\"}",
            ));
        };
        actor.relay(packet).await.map_err(not_relayed)
    }
}

impl CounterSession {
    async fn login(&mut self, session: &Session, packet: Packet) -> Result<(), HandlerFailure> {
        let Login { actor } = read(&packet)?;
        let (bound, node) = self
            .bind(session, &actor)
            .await
            .map_err(|error| failure(error.kind(), error.message()))?;
        self.actor = Some(bound);
        let answer = serde_json::to_vec(&LoggedIn { actor, node });
        let answer = answer.map_err(|_| HandlerFailure::internal())?;
        Ok(packet.reply(Payload::json(answer)).await?)
    }

    async fn bind(&self, session: &Session, id: &str) -> Result<(SessionActor, String), Error> {
        let mut tries = 0;
        loop {
            match self.try_bind(session, id).await {
                // While an Actor moves it takes no new session; a moment later it does.
                Err(error) if error.kind() == ErrorKind::Unavailable && tries < LOGIN_TRIES => {
                    tries += 1;
                }
                ended => return ended,
            }
            sleep(LOGIN_PAUSE).await;
        }
    }

    async fn try_bind(&self, session: &Session, id: &str) -> Result<(SessionActor, String), Error> {
        let creation = self.host.actors().get_or_create::<Counter>(id).await?;
        let actor = creation
            .actor()
            .ok_or_else(|| Error::rejected("the actor was refused"))?;
        let bound = self.host.bind(session, actor).await?;
        let node = bound.node().map(|node| node_name(&node));
        Ok((bound, node.unwrap_or_else(|| node_name(actor.node()))))
    }
}

fn read<T: DeserializeOwned>(packet: &Packet) -> Result<T, HandlerFailure> {
    serde_json::from_slice(&packet.payload().bytes).map_err(|error| {
        failure(
            ErrorKind::ProtocolError,
            &format!("the JSON is another: {error}"),
        )
    })
}

fn failure(kind: ErrorKind, message: &str) -> HandlerFailure {
    HandlerFailure::new(kind.name(), message)
}

fn not_relayed(refused: RelayFailure) -> HandlerFailure {
    let kind = match &refused {
        RelayFailure::Relay(error) => format!("{:?}", error.kind()),
        _ => ErrorKind::ProtocolError.name().to_owned(),
    };
    HandlerFailure::new(&kind, refused.to_string())
}
