//! Messages of applications: commands 16 to 19, 21 to 25 and 39.

use spotlane_types::count::{Correlation, HopCount, SessionSequence};
use spotlane_types::generation::{BindingGeneration, NodeGeneration};
use spotlane_types::id::{ChannelName, NodeRid, OperationId, SessionRid, SpotId, Topic};

use super::{BOUND_SESSION, SOURCE_SPOT_ID, wire_command};
use crate::frozen::{InstanceCall, InstanceRoute};
#[cfg(feature = "serde")]
use crate::json::{JsonError, Node};
use crate::layout::{Layout, wire_struct};
use crate::reader::{Read, Reader};
use crate::reference::{ActorRef, ActorRouteFence, SpotRouteFence};
use crate::view::Viewed;
use crate::writer::{Writer, Written};

wire_struct! {
    /// Which client session a message came from, and its place in the order of that session.
    "optional-bound-session-tail" struct BoundSessionTail view BoundSessionTailView {
        /// The session.
        source_session_rid: SessionRid = "sourceSessionRid",
        /// Its binding to the Actor.
        source_binding_generation: BindingGeneration = "sourceBindingGeneration",
        /// The place of the message.
        source_session_sequence: SessionSequence = "sourceSessionSequence",
    }
}

impl Viewed for Option<BoundSessionTail> {
    type View<'a> = Option<BoundSessionTailView<'a>>;

    #[inline]
    fn view<'a>(r: &mut Reader<'a>) -> Read<Option<BoundSessionTailView<'a>>> {
        if r.flags() & (BOUND_SESSION | SOURCE_SPOT_ID) == 0 {
            return Ok(None);
        }
        BoundSessionTail::view(r).map(Some)
    }

    #[inline(always)]
    fn from_view(view: &Option<BoundSessionTailView<'_>>) -> Self {
        view.as_ref().map(BoundSessionTail::from_view)
    }
}

/// WR-2: the tail is there exactly with both flags, which are set together or not at all.
impl Layout for Option<BoundSessionTail> {
    const MIN: usize = 0;

    #[inline]
    fn read(r: &mut Reader<'_>) -> Read<Self> {
        Self::view(r).map(|view| Self::from_view(&view))
    }

    #[inline]
    fn write(&self, w: &mut Writer<'_>) -> Written {
        self.as_ref().map_or(Ok(()), |tail| tail.write(w))
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        self.as_ref().map_or(Node::Null, Layout::to_json)
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        BoundSessionTail::from_json(node).map(Some)
    }
}

wire_command! {
    /// A message to a node.
    16 "nodeSend" command NodeSend frames [metadata payload] view NodeSendView {}

    /// A request to a node.
    17 "nodeRequest" command NodeRequest frames [metadata payload] view NodeRequestView {
        /// What the reply repeats.
        correlation: Correlation = "correlation",
    }

    /// A message on a channel.
    18 "channelSend" command ChannelSend frames [metadata payload] view ChannelSendView {
        /// The channel.
        channel_name: ChannelName = "channelName",
    }

    /// A request on a channel.
    19 "channelRequest" command ChannelRequest frames [metadata payload] view ChannelRequestView {
        /// What the reply repeats.
        correlation: Correlation = "correlation",
        /// The channel.
        channel_name: ChannelName = "channelName",
    }

    /// A message to a Spot.
    21 "spotSend" command SpotSend frames [metadata payload] view SpotSendView {
        /// What deduplicates it.
        operation: OperationId = "operation",
        /// How often it was forwarded.
        message_follow_hop_count: HopCount = "messageFollowHopCount",
        /// The Spot that sent it.
        source_spot_id: SpotId = "sourceSpotId",
        /// The Spot that it is for, in its tenure.
        target_spot: SpotRouteFence = "targetSpot",
    }

    /// A request to a Spot.
    22 "spotRequest" command SpotRequest frames [metadata payload] view SpotRequestView {
        /// What the reply repeats.
        correlation: Correlation = "correlation",
        /// What deduplicates it.
        operation: OperationId = "operation",
        /// How often it was forwarded.
        message_follow_hop_count: HopCount = "messageFollowHopCount",
        /// The Spot that sent it.
        source_spot_id: SpotId = "sourceSpotId",
        /// The Spot that it is for, in its tenure.
        target_spot: SpotRouteFence = "targetSpot",
    }

    /// A message to all subscribers of a topic.
    23 "logicalMulticast" command LogicalMulticast frames [metadata payload] view LogicalMulticastView {
        /// The channel.
        channel_name: ChannelName = "channelName",
        /// The topic.
        topic: Topic = "topic",
        /// The Spot that sent it.
        source_spot_id: SpotId = "sourceSpotId",
    }

    /// A message to an Actor.
    24 "actorSend" command ActorSend frames [metadata payload] view ActorSendView
        flags 0x06 from bound_session_tail
    {
        /// What deduplicates it.
        operation: OperationId = "operation",
        /// How often it was forwarded.
        message_follow_hop_count: HopCount = "messageFollowHopCount",
        /// The Actor that sent it, if it was one.
        source_actor: Option<ActorRef> = "sourceActor",
        /// The Actor that it is for, in its tenure.
        target_actor: ActorRouteFence = "targetActor",
        /// The client session that it came from, if it was one.
        bound_session_tail: Option<BoundSessionTail> = (by_flags "boundSessionTail"),
    }

    /// A request to an Actor.
    25 "actorRequest" command ActorRequest frames [metadata payload] view ActorRequestView
        flags 0x06 from bound_session_tail
    {
        /// What the reply repeats.
        correlation: Correlation = "correlation",
        /// What deduplicates it.
        operation: OperationId = "operation",
        /// How often it was forwarded.
        message_follow_hop_count: HopCount = "messageFollowHopCount",
        /// The Actor that sent it, if it was one.
        source_actor: Option<ActorRef> = "sourceActor",
        /// The Actor that it is for, in its tenure.
        target_actor: ActorRouteFence = "targetActor",
        /// The client session that it came from, if it was one.
        bound_session_tail: Option<BoundSessionTail> = (by_flags "boundSessionTail"),
    }

    /// A message to an Instance Spot, which may have to be activated first.
    39 "instanceSpot" command InstanceSpot frames [metadata payload] {
        /// Where it goes.
        route: InstanceRoute = "route",
        /// The run of the node that sent it.
        source_node_generation: NodeGeneration = "sourceNodeGeneration",
        /// The node that sent it.
        source_node_rid: NodeRid = "sourceNodeRid",
        /// The Spot that sent it, if it was one.
        source_spot_id: Option<SpotId> = "sourceSpotId",
        /// What names it, and the way back.
        call: InstanceCall = (flat),
    }
}
