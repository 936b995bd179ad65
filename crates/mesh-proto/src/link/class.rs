//! Which way a record travels (TR-66).

use spotlane_types::count::Correlation;
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::Record;
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
pub const fn class_of(record: &Record) -> Class {
    match record {
        Record::NodeSend(_)
        | Record::ChannelSend(_)
        | Record::SpotSend(_)
        | Record::LogicalMulticast(_)
        | Record::ActorSend(_)
        | Record::ActorLeft(_)
        | Record::RelocationData(_)
        | Record::RelocationCutover(_)
        | Record::BoundSessionSend(_)
        | Record::ActorJoined(_)
        | Record::InstanceSpot(_)
        | Record::SessionRelocationRoute(_)
        | Record::MessageFollow(_)
        | Record::BoundSessionReplaced(_)
        | Record::RelocationState(_) => Class::OneWay,
        Record::NodeRequest(_)
        | Record::ChannelRequest(_)
        | Record::SpotRequest(_)
        | Record::ActorRequest(_)
        | Record::ActorLookup(_)
        | Record::ActorDestroy(_)
        | Record::ActorJoin(_)
        | Record::BoundSessionBind(_)
        | Record::UserSpotCreate(_)
        | Record::UserSpotClose(_)
        | Record::ActorCreate(_) => Class::Request,
        Record::Reply(_) => Class::Reply,
        Record::Hello(_) | Record::Admit(_) | Record::Reject(_) | Record::Update(_) => {
            Class::Admission
        }
        Record::LivenessProbe(_) | Record::LivenessAck(_) => Class::Liveness,
        Record::RelocationReady(_)
        | Record::RelocationPrepare(_)
        | Record::SessionRelocationSeal(_)
        | Record::SessionRelocationSealed(_)
        | Record::RelocationFailed(_)
        | Record::ReplyRelay(_)
        | Record::ReplyRelayAck(_) => Class::Relocation,
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
pub const fn question_of(record: &Record) -> Option<Question> {
    let (correlation, kind) = match record {
        Record::NodeRequest(it) => (it.correlation, MeshOperationKind::NodeRequest),
        Record::ChannelRequest(it) => (it.correlation, MeshOperationKind::ChannelRequest),
        Record::SpotRequest(it) => (it.correlation, MeshOperationKind::SpotRequest),
        Record::ActorRequest(it) => (it.correlation, MeshOperationKind::ActorRequest),
        Record::ActorLookup(it) => (it.correlation, MeshOperationKind::ActorLookup),
        Record::ActorDestroy(it) => (it.correlation, MeshOperationKind::ActorDestroy),
        Record::ActorJoin(it) => (it.correlation, MeshOperationKind::ActorJoin),
        Record::BoundSessionBind(it) => match it.binding {
            BindingTransition::Active { .. } => (it.correlation, MeshOperationKind::StreamBind),
            // SB-61: answered without tail.
            BindingTransition::Tombstone { .. } => {
                (it.correlation, MeshOperationKind::StreamUnbind)
            }
        },
        Record::UserSpotCreate(it) => (it.correlation, MeshOperationKind::UserSpotCreate),
        Record::UserSpotClose(it) => (it.correlation, MeshOperationKind::UserSpotClose),
        Record::ActorCreate(it) => (it.correlation, MeshOperationKind::ActorCreate),
        Record::Hello(_)
        | Record::Admit(_)
        | Record::Reject(_)
        | Record::Update(_)
        | Record::LivenessProbe(_)
        | Record::LivenessAck(_)
        | Record::NodeSend(_)
        | Record::ChannelSend(_)
        | Record::Reply(_)
        | Record::SpotSend(_)
        | Record::LogicalMulticast(_)
        | Record::ActorSend(_)
        | Record::ActorLeft(_)
        | Record::RelocationReady(_)
        | Record::RelocationData(_)
        | Record::ReplyRelay(_)
        | Record::RelocationCutover(_)
        | Record::BoundSessionSend(_)
        | Record::ActorJoined(_)
        | Record::InstanceSpot(_)
        | Record::RelocationPrepare(_)
        | Record::SessionRelocationSeal(_)
        | Record::SessionRelocationSealed(_)
        | Record::SessionRelocationRoute(_)
        | Record::ReplyRelayAck(_)
        | Record::MessageFollow(_)
        | Record::BoundSessionReplaced(_)
        | Record::RelocationState(_)
        | Record::RelocationFailed(_) => return None,
    };
    Some(Question { correlation, kind })
}

/// The command byte of the head frame of a record, whatever the rest of it is.
pub(super) fn command_of(frames: &[bytes::Bytes]) -> Option<u8> {
    frames.first()?.get(3).copied()
}
