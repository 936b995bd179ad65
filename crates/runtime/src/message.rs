//! One application message on its way to a handler, with its way back.

use std::fmt;
use std::sync::OnceLock;

use spotlane_types::count::{HopCount, ReplyRouteId};
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::{NodeRid, OperationId, PacketName};
use spotlane_wire::command::message::BoundSessionTail;
use spotlane_wire::frozen::FrozenSource;
use spotlane_wire::payload::MetadataFrame;
use spotlane_wire::reference::ActorRef as WireActorRef;
use tokio::sync::oneshot;

use crate::core::Core;
use crate::error::Error;
use crate::inbound::MeshAnswer;
use crate::payload::Payload;
use crate::registry::Wants;

/// The name of a message of an application. Names of the framework are refused (SB-39).
pub(crate) fn application_name(name: &str) -> Result<PacketName, Error> {
    if name.starts_with(RESERVED) {
        let text = format!("the name {name:?} begins with {RESERVED:?}; choose another");
        return Err(Error::invalid(text));
    }
    Ok(PacketName::new(name)?)
}

/// What names of the framework begin with.
const RESERVED: &str = "$zlink.";

/// How a request ends: exactly one of these, once (EX-269).
pub(crate) type Outcome = Result<Payload, Error>;

/// A message that was accepted for an Actor and is not decoded yet. It owns its payload, which is released with it or after its
/// handler (EX-322).
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) name: PacketName,
    pub(crate) payload: Payload,
    /// Kept byte for byte when the message is relayed or frozen (WR-9).
    pub(crate) metadata: Option<MetadataFrame>,
    pub(crate) from: Origin,
    pub(crate) reply: ReplyTo,
    /// The session that relays it, until somebody has judged that (SB-33).
    pub(crate) tail: Option<Box<BoundSessionTail>>,
    /// What a message of this host is called, once it has to travel with its object.
    name_abroad: OnceLock<(OperationId, ReplyRouteId)>,
}

impl Message {
    #[inline]
    pub(crate) fn new(
        name: PacketName,
        payload: Payload,
        metadata: Option<MetadataFrame>,
        from: Origin,
        reply: ReplyTo,
    ) -> Self {
        Self {
            name,
            payload,
            metadata,
            from,
            reply,
            tail: None,
            name_abroad: OnceLock::new(),
        }
    }

    /// Where it stays until its handler runs.
    #[inline]
    pub(crate) fn boxed(
        name: PacketName,
        payload: Payload,
        metadata: Option<MetadataFrame>,
        from: Origin,
        reply: ReplyTo,
        tail: Option<Box<BoundSessionTail>>,
    ) -> Box<Self> {
        Box::new(Self {
            name,
            payload,
            metadata,
            from,
            reply,
            tail,
            name_abroad: OnceLock::new(),
        })
    }

    /// The session that relays it.
    pub(crate) fn of_session(mut self, tail: Option<BoundSessionTail>) -> Self {
        self.tail = tail.map(Box::new);
        self
    }

    fn name_abroad(&self, core: &Core) -> (OperationId, ReplyRouteId) {
        *self
            .name_abroad
            .get_or_init(|| (core.ids.operation(), core.ids.reply_route()))
    }

    /// What deduplicates it, the same each time (RL-261).
    pub(crate) fn operation(&self, core: &Core) -> OperationId {
        match &self.from {
            Origin::Local { .. } => self.name_abroad(core).0,
            Origin::Peer(peer) => peer.operation,
            Origin::Frozen { operation, .. } => *operation,
        }
    }

    /// The way back to its caller at its source; `None` when nobody waits.
    pub(crate) fn reply_route(&self, core: &Core) -> Option<ReplyRouteId> {
        match &self.reply.0 {
            None => None,
            Some(Route::Local(_)) => Some(self.name_abroad(core).1),
            Some(Route::Mesh(answer)) => Some(answer.route()),
            Some(Route::Remote(answer)) => Some(answer.route()),
        }
    }

    /// Whether this host is the source of the request, whoever has caused it.
    pub(crate) fn comes_back(&self) -> bool {
        matches!(&self.reply.0, Some(Route::Remote(answer)) if answer.comes_back())
    }

    pub(crate) fn wants(&self) -> Wants {
        if self.reply.is_wanted() {
            Wants::Answer
        } else {
            Wants::Nothing
        }
    }

    /// What the lane charges besides its fixed cost (EX-93).
    pub(crate) fn payload_bytes(&self) -> u64 {
        u64::try_from(self.payload.len()).unwrap_or(u64::MAX)
    }
}

/// Who sent a message.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// This host: a handle, or one of its Actors.
    Local {
        /// The Actor.
        actor: Option<Box<WireActorRef>>,
    },
    /// Another node.
    Peer(PeerOrigin),
    /// It came with its object.
    Frozen {
        source: Box<FrozenSource>,
        operation: OperationId,
    },
}

/// What a received message says of its sender.
#[derive(Clone, Debug)]
pub(crate) struct PeerOrigin {
    pub(crate) node: NodeRid,
    pub(crate) node_generation: NodeGeneration,
    pub(crate) actor: Option<WireActorRef>,
    pub(crate) operation: OperationId,
    pub(crate) hops: HopCount,
}

/// The way back to the caller of a request: used once, or it answers by itself when it is dropped (EX-94, EX-269).
pub(crate) struct ReplyTo(Option<Route>);

/// Where an answer goes.
pub(crate) enum Route {
    /// A caller on this host waits for it.
    Local(oneshot::Sender<Outcome>),
    /// A peer waits for it, on the connection of its request.
    Mesh(MeshAnswer),
    /// It goes another way: to the caller of a request that moved with its Actor, or that a hop has forwarded.
    Remote(Box<dyn Answer>),
}

/// Takes the answer of a request that came from elsewhere.
pub(crate) trait Answer: Send + Sync {
    /// Takes it. Never waits.
    fn answer(self: Box<Self>, name: Option<&PacketName>, outcome: Outcome);
    /// Says that its source believes in an old route (RL-169).
    fn stale(self: Box<Self>);
    /// Says that the request lost its object before it was handled (EX-44, EX-112).
    fn gone(self: Box<Self>);
    /// What the request is called at its source (RL-260).
    fn route(&self) -> ReplyRouteId;
    /// Whether this host is its source, whoever has caused it: when it leaves with its Actor, its answer comes back here.
    fn comes_back(&self) -> bool {
        false
    }
}

impl ReplyTo {
    /// Nobody waits.
    pub(crate) const NOBODY: Self = Self(None);

    pub(crate) fn local(sender: oneshot::Sender<Outcome>) -> Self {
        Self(Some(Route::Local(sender)))
    }

    pub(crate) fn mesh(answer: MeshAnswer) -> Self {
        Self(Some(Route::Mesh(answer)))
    }

    pub(crate) fn remote(answer: impl Answer + 'static) -> Self {
        Self(Some(Route::Remote(Box::new(answer))))
    }

    pub(crate) const fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a caller of this host waits.
    pub(crate) const fn is_here(&self) -> bool {
        matches!(self.0, Some(Route::Local(_)))
    }

    /// Whether the caller gave up before the handler began (EX-301).
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(&self.0, Some(Route::Local(sender)) if sender.is_closed())
    }

    /// Takes the route out, to hand it on with the message; nothing is answered here any more.
    pub(crate) fn take(&mut self) -> Option<Route> {
        self.0.take()
    }

    pub(crate) fn answer(mut self, name: &PacketName, outcome: Outcome) {
        if let Some(route) = self.0.take() {
            route.answer(Some(name), outcome);
        }
    }
}

impl Route {
    pub(crate) fn answer(self, name: Option<&PacketName>, outcome: Outcome) {
        match self {
            // A caller that went away does not want it.
            Self::Local(sender) => drop(sender.send(outcome)),
            Self::Mesh(answer) => answer.answer(name, outcome),
            Self::Remote(answer) => answer.answer(name, outcome),
        }
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        let Some(route) = self.0.take() else { return };
        // EX-12: a panicking handler fails its own item, and the caller is told so. Everything else that drops a message
        // took its object away from under it.
        if std::thread::panicking() {
            return route.answer(None, Err(Error::internal("the handler panicked")));
        }
        match route {
            // Whoever waits is told why by [`Core::gone`].
            Route::Local(sender) => drop(sender),
            Route::Mesh(answer) => answer.gone(),
            Route::Remote(answer) => answer.gone(),
        }
    }
}

impl fmt::Debug for ReplyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            None => "ReplyTo::NOBODY",
            Some(Route::Local(_)) => "ReplyTo::Local",
            Some(Route::Mesh(_)) => "ReplyTo::Mesh",
            Some(Route::Remote(_)) => "ReplyTo::Remote",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EX-94, EX-269
    #[tokio::test]
    async fn a_dropped_request_has_its_one_answer_all_the_same() {
        let (sender, answer) = oneshot::channel();
        drop(ReplyTo::local(sender));
        assert!(answer.await.is_err());
        let (sender, answer) = oneshot::channel();
        ReplyTo::local(sender).answer(&"name".parse().unwrap(), Ok(Payload::empty()));
        assert!(answer.await.unwrap().is_ok());
    }

    /// EX-301
    #[test]
    fn a_caller_that_went_away_is_noticed() {
        let (sender, answer) = oneshot::channel();
        let reply = ReplyTo::local(sender);
        assert!(!reply.is_abandoned());
        drop(answer);
        assert!(reply.is_abandoned());
        assert!(!ReplyTo::NOBODY.is_abandoned());
    }
}
