//! Route notices of Message Follow: command 50.

use spotlane_types::bound::MESSAGE_FOLLOW_CONTROL_ENVELOPE_BYTES;
use spotlane_types::count::HopCount;
use spotlane_types::id::OperationId;
use spotlane_types::kind::AuthorityObjectKind;

use super::wire_command;
use crate::error::Reason;
#[cfg(feature = "serde")]
use crate::json::{JsonError, Node};
use crate::layout::{Layout, wire_envelope, wire_union};
use crate::reader::{Read, Reader};
use crate::reference::{ActorRouteFence, SpotRouteFence};
use crate::writer::{Writer, Written};

wire_union! {
    /// One route of an object.
    "message-follow-route" enum FollowRoute on "objectKind" AuthorityObjectKind len u16 {
        /// To an Actor.
        Actor {
            /// The Actor in its tenure.
            actor: ActorRouteFence = "actor",
        }
        /// To a Spot.
        Spot {
            /// The Spot in its tenure.
            spot: SpotRouteFence = "spot",
        }
    }
}

/// How often the message was forwarded that a notice is about: 1 to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoticeHopCount(HopCount);

impl NoticeHopCount {
    /// Takes a hop count that is not zero.
    ///
    /// # Errors
    /// The count is zero: a message that was not forwarded needs no notice. It is given back.
    pub const fn new(hops: HopCount) -> Result<Self, HopCount> {
        match hops.get() {
            0 => Err(hops),
            _ => Ok(Self(hops)),
        }
    }

    /// The hop count.
    pub const fn get(self) -> HopCount {
        self.0
    }
}

const NOT_FORWARDED: &str = "a notice is about a message that was forwarded at least once";

impl Layout for NoticeHopCount {
    const MIN: usize = 1;

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        let at = r.offset();
        let hops = HopCount::read(r)?;
        Self::new(hops).map_err(|_| Reader::invalid(at, Reason::Text(NOT_FORWARDED)))
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        self.0.write(w)
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        self.0.to_json()
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        let hops = HopCount::from_json(node)?;
        Self::new(hops).map_err(|_| JsonError::new(NOT_FORWARDED))
    }
}

wire_envelope! {
    /// Tells a sender that an object has another route now.
    "message-follow-route-v1" envelope FollowNotice
        len u32 max MESSAGE_FOLLOW_CONTROL_ENVELOPE_BYTES,
    {
        /// The route that the message took.
        source: FollowRoute = "source",
        /// The route to take from now on.
        target: FollowRoute = "target",
        /// How often the message was forwarded.
        hop_count: NoticeHopCount = "hopCount",
        /// How many messages wait at the forwarding node.
        queued_messages: u32 = "queuedMessages",
        /// How many bytes they have.
        queued_bytes: u32 = "queuedBytes",
        /// The message that caused the notice.
        original_operation: OperationId = "originalOperation",
        /// The way back to its caller; 0 for a message without answer.
        original_reply_route_id: u64 = "originalReplyRouteId",
    }
}

wire_command! {
    /// Tells a sender that an object has another route now. Best effort.
    50 "messageFollow" command MessageFollow frames [] {
        /// The notice.
        route: FollowNotice = "route",
    }
}
