//! What an application writes: an Actor, and what it says about its creation.

use std::fmt;
use std::future::Future;

use spotlane_types::generation::ObjectGeneration;
use spotlane_types::id::{ActorId, MeshName, NodeRid};

use crate::context::Context;
use crate::error::Error;
use crate::handlers::Handlers;
use crate::join::JoinOutcome;
use crate::payload::{IntoReply, Payload};

/// A stateful object that handles its messages one at a time and keeps its address wherever it moves.
///
/// The value is the state. Its handlers are registered once, in [`Actor::configure`]; they borrow the state for the time
/// of one turn, awaits included, and nothing else of this Actor runs meanwhile (EX-3, EX-30).
///
/// ```
/// use spotlane_runtime::{Actor, Context, Error, Handlers, Payload};
///
/// #[derive(Default)]
/// struct Counter { total: u64 }
///
/// impl Counter {
///     async fn add(&mut self, _: &mut Context, by: String) -> Result<String, Error> {
///         let by: u64 = by.parse().map_err(|_| Error::rejected("a number, please"))?;
///         self.total += by;
///         Ok(self.total.to_string())
///     }
/// }
///
/// impl Actor for Counter {
///     const TYPE: &'static str = "counter";
///
///     fn configure(handlers: &mut Handlers<Self>) {
///         handlers.request("add", Self::add);
///     }
/// }
/// ```
pub trait Actor: Send + Sized + 'static {
    /// The stable name of the type, the same on every node and in every language; never a class name (RL-2).
    const TYPE: &'static str;

    /// Registers the handlers (RL-40). Called once per host, before anything runs.
    fn configure(handlers: &mut Handlers<Self>);

    /// Decides about a new Actor (RL-43): called once, after its factory, before it is ready and before any message.
    /// Not called for an Actor that exists or moves here.
    ///
    /// # Errors
    /// The creation fails with the error's kind.
    fn on_create(
        &mut self,
        context: &mut Context,
        request: Option<Payload>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        drop(request);
        let _ = context;
        std::future::ready(Ok(Decision::accept()))
    }

    /// Says what became of a Join that a handler has deferred (RL-50): once, before any other work of this Actor, at the
    /// target when it was accepted, and here otherwise.
    ///
    /// At the target a callback that panics is run again, and nothing else runs until it has ended well (RL-77).
    fn on_join_completed(
        &mut self,
        context: &mut Context,
        outcome: JoinOutcome,
    ) -> impl Future<Output = ()> + Send {
        drop(outcome);
        let _ = context;
        std::future::ready(())
    }

    /// Says that the session that was bound to this Actor has left: its connection ended, or its handler took leave
    /// (SB-61). Once for each binding, between two messages, wherever the Actor is by then (SB-65); the Actor lives on, and
    /// a session that takes the Actor over is no reason.
    ///
    /// A callback that panics is not run again, and the binding ends all the same (SB-62).
    fn on_disconnected(&mut self, context: &mut Context) -> impl Future<Output = ()> + Send {
        let _ = context;
        std::future::ready(())
    }
}

/// Whether a new Actor may come into being, and what its creator is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub(crate) accepted: bool,
    pub(crate) reply: Option<Payload>,
}

impl Decision {
    /// It may.
    pub const fn accept() -> Self {
        Self {
            accepted: true,
            reply: None,
        }
    }

    /// It may not: the address stays free (RL-85).
    pub const fn reject() -> Self {
        Self {
            accepted: false,
            reply: None,
        }
    }

    /// Adds an answer for the creator.
    ///
    /// # Errors
    /// The value has no encoding.
    pub fn with_reply(mut self, reply: impl IntoReply) -> Result<Self, Error> {
        self.reply = Some(reply.into_reply()?);
        Ok(self)
    }
}

/// Names one incarnation of an Actor, with the place where it was found (RL-8).
///
/// Good for destroying exactly that incarnation; messages go to the bare id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ActorRef {
    pub(crate) id: ActorId,
    pub(crate) generation: ObjectGeneration,
    pub(crate) mesh: MeshName,
    pub(crate) node: NodeRid,
}

impl ActorRef {
    /// The address.
    pub fn id(&self) -> &ActorId {
        &self.id
    }

    /// The incarnation.
    pub fn generation(&self) -> ObjectGeneration {
        self.generation
    }

    /// The mesh of its node at look-up time.
    pub fn mesh(&self) -> &MeshName {
        &self.mesh
    }

    /// Its node at look-up time; it may have moved since.
    pub fn node(&self) -> &NodeRid {
        &self.node
    }
}

impl fmt::Display for ActorRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{} at {}", self.id, self.generation, self.node)
    }
}
