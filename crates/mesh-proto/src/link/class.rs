//! Which way a record travels (TR-66).

use spotlane_types::count::Correlation;
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::RecordRef;
use spotlane_wire::reference::BindingTransition;

/// The class of a command: what it is wrapped in and which lane it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-66")]
pub enum Class {
    /// A plain message on the Application lane.
    OneWay,
    /// A request envelope on the Application lane.
    Request,
    /// A reply envelope on the Completion lane.
    Reply,
    /// A plain message on the Application lane; also taken as completion control.
    Admission,
    /// A completion control; also taken as a plain message (TR-68).
    Liveness,
    /// A plain message on the Application lane (TR-67); also taken as completion control.
    Relocation,
}

/// The class of a record.
pub const fn class_of(record: RecordRef<'_>) -> Class {
    match record {
        RecordRef::NodeSend(_)
        | RecordRef::ChannelSend(_)
        | RecordRef::SpotSend(_)
        | RecordRef::LogicalMulticast(_)
        | RecordRef::ActorSend(_)
        | RecordRef::ActorLeft(_)
        | RecordRef::RelocationData(_)
        | RecordRef::RelocationCutover(_)
        | RecordRef::BoundSessionSend(_)
        | RecordRef::ActorJoined(_)
        | RecordRef::InstanceSpot(_)
        | RecordRef::SessionRelocationRoute(_)
        | RecordRef::MessageFollow(_)
        | RecordRef::BoundSessionReplaced(_)
        | RecordRef::RelocationState(_) => Class::OneWay,
        RecordRef::NodeRequest(_)
        | RecordRef::ChannelRequest(_)
        | RecordRef::SpotRequest(_)
        | RecordRef::ActorRequest(_)
        | RecordRef::ActorLookup(_)
        | RecordRef::ActorDestroy(_)
        | RecordRef::ActorJoin(_)
        | RecordRef::BoundSessionBind(_)
        | RecordRef::UserSpotCreate(_)
        | RecordRef::UserSpotClose(_)
        | RecordRef::ActorCreate(_) => Class::Request,
        RecordRef::Reply(_) => Class::Reply,
        RecordRef::Hello(_) | RecordRef::Admit(_) | RecordRef::Reject(_) | RecordRef::Update(_) => {
            Class::Admission
        }
        RecordRef::LivenessProbe(_) | RecordRef::LivenessAck(_) => Class::Liveness,
        RecordRef::RelocationReady(_)
        | RecordRef::RelocationPrepare(_)
        | RecordRef::SessionRelocationSeal(_)
        | RecordRef::SessionRelocationSealed(_)
        | RecordRef::RelocationFailed(_)
        | RecordRef::ReplyRelay(_)
        | RecordRef::ReplyRelayAck(_) => Class::Relocation,
    }
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "says all there is")]
pub struct Question {
    /// The correlation that the reply has to repeat (TR-69).
    pub correlation: Correlation,
    /// What the tail of the reply is read by (WR-21).
    pub kind: MeshOperationKind,
}

/// What a record asks; `None` for every record whose answer is not the generic reply (TR-66).
pub const fn question_of(record: RecordRef<'_>) -> Option<Question> {
    let (correlation, kind) = match record {
        RecordRef::NodeRequest(it) => (it.correlation, MeshOperationKind::NodeRequest),
        RecordRef::ChannelRequest(it) => (it.correlation, MeshOperationKind::ChannelRequest),
        RecordRef::SpotRequest(it) => (it.correlation, MeshOperationKind::SpotRequest),
        RecordRef::ActorRequest(it) => (it.correlation, MeshOperationKind::ActorRequest),
        RecordRef::ActorLookup(it) => (it.correlation, MeshOperationKind::ActorLookup),
        RecordRef::ActorDestroy(it) => (it.correlation, MeshOperationKind::ActorDestroy),
        RecordRef::ActorJoin(it) => (it.correlation, MeshOperationKind::ActorJoin),
        RecordRef::BoundSessionBind(it) => match it.binding {
            BindingTransition::Active { .. } => (it.correlation, MeshOperationKind::StreamBind),
            // SB-61: answered without tail.
            BindingTransition::Tombstone { .. } => {
                (it.correlation, MeshOperationKind::StreamUnbind)
            }
        },
        RecordRef::UserSpotCreate(it) => (it.correlation, MeshOperationKind::UserSpotCreate),
        RecordRef::UserSpotClose(it) => (it.correlation, MeshOperationKind::UserSpotClose),
        RecordRef::ActorCreate(it) => (it.correlation, MeshOperationKind::ActorCreate),
        RecordRef::Hello(_)
        | RecordRef::Admit(_)
        | RecordRef::Reject(_)
        | RecordRef::Update(_)
        | RecordRef::LivenessProbe(_)
        | RecordRef::LivenessAck(_)
        | RecordRef::NodeSend(_)
        | RecordRef::ChannelSend(_)
        | RecordRef::Reply(_)
        | RecordRef::SpotSend(_)
        | RecordRef::LogicalMulticast(_)
        | RecordRef::ActorSend(_)
        | RecordRef::ActorLeft(_)
        | RecordRef::RelocationReady(_)
        | RecordRef::RelocationData(_)
        | RecordRef::ReplyRelay(_)
        | RecordRef::RelocationCutover(_)
        | RecordRef::BoundSessionSend(_)
        | RecordRef::ActorJoined(_)
        | RecordRef::InstanceSpot(_)
        | RecordRef::RelocationPrepare(_)
        | RecordRef::SessionRelocationSeal(_)
        | RecordRef::SessionRelocationSealed(_)
        | RecordRef::SessionRelocationRoute(_)
        | RecordRef::ReplyRelayAck(_)
        | RecordRef::MessageFollow(_)
        | RecordRef::BoundSessionReplaced(_)
        | RecordRef::RelocationState(_)
        | RecordRef::RelocationFailed(_) => return None,
    };
    Some(Question { correlation, kind })
}

/// Where the command byte stands in the head frame of a record.
pub(super) const COMMAND_AT: usize = 3;

/// The command byte of the head frame of a record, whatever the rest of it is.
pub(super) fn command_of(frames: &[bytes::Bytes]) -> Option<u8> {
    frames.first()?.get(COMMAND_AT).copied()
}
