//! A record: a command with its frames (WR-1).

use bytes::Bytes;
use spotlane_types::kind::MeshOperationKind;

use crate::command::admission::{Admit, Hello, Reject, Update};
use crate::command::creation::{ActorCreate, UserSpotClose, UserSpotCreate};
use crate::command::follow::MessageFollow;
use crate::command::liveness::{LivenessAck, LivenessProbe};
use crate::command::membership::{ActorDestroy, ActorJoin, ActorJoined, ActorLeft, ActorLookup};
use crate::command::message::{
    ActorRequest, ActorSend, ChannelRequest, ChannelSend, InstanceSpot, LogicalMulticast,
    NodeRequest, NodeSend, SpotRequest, SpotSend,
};
use crate::command::relocation::{
    RelocationCutover, RelocationData, RelocationFailed, RelocationPrepare, RelocationReady,
    RelocationState,
};
use crate::command::reply::{Reply, ReplyRelay, ReplyRelayAck};
use crate::command::session::{
    BoundSessionBind, BoundSessionReplaced, BoundSessionSend, SessionRelocationRoute,
    SessionRelocationSeal, SessionRelocationSealed,
};
use crate::command::{
    BOUND_SESSION, Command, Frames, METADATA, PayloadRule, SOURCE_SPOT_ID, ViewCommand,
};
use crate::error::{DecodeError, EncodeError, ErrorKind, Reason};
use crate::frame_buffer::FrameBuffer;
use crate::frame_slice::{FrameSlice, with_slices};
#[cfg(feature = "serde")]
use crate::json::{self, JsonError, Node};
use crate::layout::Layout;
use crate::payload::{ApplicationPayload, MetadataFrame};
use crate::reader::{Read, Reader};
use crate::width::wide;
use crate::writer::Writer;

/// `Z`, `M`, major version, command, flags.
pub(crate) const HEADER_BYTES: usize = 5;
const MAGIC: [u8; 2] = *b"ZM";
const MAJOR: u8 = 1;

/// What an error names as its record while no command is known.
const ANY_RECORD: &str = "record";

/// The judged header of a record.
#[derive(Clone, Copy, Debug)]
struct Header {
    command: u8,
    flags: u8,
}

#[cold]
pub(crate) fn frame_count(expected: usize, actual: usize) -> DecodeError {
    let reason = Reason::Expected {
        expected: wide(expected),
        actual: wide(actual),
    };
    DecodeError::new(ErrorKind::FrameCount, 0, reason)
}

#[cold]
fn bad_header(frame: &[u8]) -> DecodeError {
    let expected = [
        (0, MAGIC[0], "magic"),
        (1, MAGIC[1], "magic"),
        (2, MAJOR, "major"),
    ];
    for (at, byte, field) in expected {
        match frame.get(at) {
            Some(found) if *found == byte => {}
            Some(found) => {
                let reason = Reason::Expected {
                    expected: u64::from(byte),
                    actual: u64::from(*found),
                };
                return Reader::invalid(at, reason)
                    .within(field)
                    .of_record(ANY_RECORD, 0);
            }
            None => return short_header(frame, field).of_record(ANY_RECORD, 0),
        }
    }
    let field = if frame.len() == 3 { "command" } else { "flags" };
    short_header(frame, field).of_record(ANY_RECORD, 0)
}

fn short_header(frame: &[u8], field: &'static str) -> DecodeError {
    let missing = HEADER_BYTES.saturating_sub(frame.len());
    DecodeError::new(
        ErrorKind::TruncatedField,
        frame.len(),
        Reason::Missing(missing),
    )
    .within(field)
}

#[inline]
fn read_header(frame: &[u8]) -> Read<Header> {
    match frame.first_chunk::<HEADER_BYTES>() {
        Some([b'Z', b'M', MAJOR, command, flags]) => Ok(Header {
            command: *command,
            flags: *flags,
        }),
        _ => Err(bad_header(frame)),
    }
}

/// WR-1, WR-2: flags and number of frames against what the command allows.
#[inline]
fn judge<'a, C: Command>(frames: &[FrameSlice<'a>], flags: u8) -> Read<Frames<'a>> {
    let pair = flags & (BOUND_SESSION | SOURCE_SPOT_ID);
    if flags & !C::FLAGS != 0 || (pair != 0 && pair != (BOUND_SESSION | SOURCE_SPOT_ID)) {
        let reason = Reason::Text("a flag that the command does not list, or half of a pair");
        return Err(DecodeError::new(ErrorKind::InvalidFlags, 4, reason).within("flags"));
    }
    let (body, rest) = frames.split_first().ok_or_else(|| frame_count(1, 0))?;
    let (metadata, rest) = if flags & METADATA == 0 {
        (None, rest)
    } else {
        let (metadata, rest) = rest
            .split_first()
            .ok_or_else(|| frame_count(2, frames.len()))?;
        (Some(*metadata), rest)
    };
    let payload = match (C::PAYLOAD, rest) {
        (PayloadRule::Forbidden | PayloadRule::Optional, []) => None,
        (PayloadRule::Required | PayloadRule::Optional, [payload]) => Some(*payload),
        (rule, _) => {
            let head = 1_usize.saturating_add(usize::from(metadata.is_some()));
            let most = head.saturating_add(usize::from(rule != PayloadRule::Forbidden));
            return Err(frame_count(most, frames.len()));
        }
    };
    Ok(Frames {
        body: *body,
        metadata,
        payload,
    })
}

#[inline(always)]
fn read_command<C: Command>(
    frames: &[FrameSlice<'_>],
    flags: u8,
    pending: MeshOperationKind,
) -> Read<C> {
    let frames = judge::<C>(frames, flags)?;
    let mut r = Reader::of_body(frames.body, flags, pending);
    C::read(&mut r, &frames)
}

/// Views a record that has to be of one command: everything is checked and nothing is copied.
///
/// This is the short way in for code that compares an address and a few fences before it decides
/// whether to keep the message; [`ViewCommand::from_view`] makes the command of it then.
///
/// # Errors
/// As [`decode_command`].
///
/// ```
/// use bytes::Bytes;
/// use spotlane_wire::command::message::NodeSend;
/// use spotlane_wire::view_command;
///
/// let frames =
///     [Bytes::from_static(b"ZM\x01\x10\x00"), Bytes::from_static(b"\x01\0\0\0\x0a\x01p\x01c\0\0\0\x02hi")];
/// let view = view_command::<NodeSend>(&frames)?;
/// assert_eq!(view.payload.packet_name.as_bytes(), b"p");
/// assert_eq!(view.payload.payload.as_bytes(), b"hi");
/// # Ok::<(), spotlane_wire::DecodeError>(())
/// ```
#[inline]
pub fn view_command<C: ViewCommand>(frames: &[Bytes]) -> Result<C::View<'_>, DecodeError> {
    match with_slices(frames, read_view::<C>) {
        Ok(view) => Ok(view),
        Err(error) => Err(named::<C>(error)),
    }
}

/// As [`view_command`], of frames that lie in a larger buffer.
///
/// # Errors
/// As there.
#[inline]
pub fn view_command_slices<'a, C: ViewCommand>(
    frames: &[FrameSlice<'a>],
) -> Result<C::View<'a>, DecodeError> {
    match read_view::<C>(frames) {
        Ok(view) => Ok(view),
        Err(error) => Err(named::<C>(error)),
    }
}

#[inline]
fn read_view<'a, C: ViewCommand>(frames: &[FrameSlice<'a>]) -> Read<C::View<'a>> {
    let header = expect_command::<C>(frames)?;
    let frames = judge::<C>(frames, header.flags)?;
    let mut r = Reader::of_body(frames.body, header.flags, MeshOperationKind::None);
    C::view(&mut r, &frames)
}

#[cold]
fn named<C: Command>(error: DecodeError) -> DecodeError {
    if !error.record().is_empty() {
        return error;
    }
    let frame = error.frame();
    error.of_record(C::NAME, frame)
}

/// Decodes a record that has to be of one command.
///
/// Payloads are slices of the frames (WR-7). `pending` as in [`Record::decode`].
///
/// # Errors
/// As [`Record::decode`]; a record of another command is [`ErrorKind::UnknownCommand`] here.
pub fn decode_command<C: Command>(
    frames: &[Bytes],
    pending: MeshOperationKind,
) -> Result<C, DecodeError> {
    with_slices(frames, |frames| decode_command_slices(frames, pending))
}

/// As [`decode_command`], of frames that lie in a larger buffer.
///
/// # Errors
/// As [`decode_command`].
pub fn decode_command_slices<C: Command>(
    frames: &[FrameSlice<'_>],
    pending: MeshOperationKind,
) -> Result<C, DecodeError> {
    let header = expect_command::<C>(frames)?;
    match read_command(frames, header.flags, pending) {
        Ok(command) => Ok(command),
        Err(error) => Err(named::<C>(error)),
    }
}

#[inline]
fn expect_command<C: Command>(frames: &[FrameSlice<'_>]) -> Read<Header> {
    let header = first_header(frames)?;
    if header.command != C::ID {
        return Err(other_command::<C>(header.command));
    }
    Ok(header)
}

#[cold]
fn other_command<C: Command>(command: u8) -> DecodeError {
    let reason = Reason::Expected {
        expected: u64::from(C::ID),
        actual: u64::from(command),
    };
    DecodeError::new(ErrorKind::UnknownCommand, 3, reason)
        .within("command")
        .of_record(C::NAME, 0)
}

#[inline]
fn first_header(frames: &[FrameSlice<'_>]) -> Read<Header> {
    match frames.first() {
        Some(frame) => read_header(frame.as_bytes()),
        None => Err(frame_count(1, 0).of_record(ANY_RECORD, 0)),
    }
}

/// Encodes one command into `out`, which is cleared before.
///
/// # Errors
/// The record breaks a rule over several fields or a bound of its encoding; `out` is empty then.
pub fn encode_command<C: Command>(command: &C, out: &mut FrameBuffer) -> Result<(), EncodeError> {
    out.clear();
    write_command(command, out).map_err(|e| {
        out.clear();
        e.of_record(C::NAME)
    })
}

#[inline]
fn write_command<C: Command>(command: &C, out: &mut FrameBuffer) -> Result<(), EncodeError> {
    write_frame(out, |w| {
        w.put(&[b'Z', b'M', MAJOR, C::ID, command.flags()]);
        command.write_body(w)
    })?;
    if let Some(metadata) = command.metadata_frame() {
        write_frame(out, |w| metadata.write(w))?;
    }
    if let Some(payload) = command.payload_frame() {
        write_frame(out, |w| payload.write(w)).map_err(|e| e.within("payload"))?;
    }
    Ok(())
}

#[inline]
fn write_frame(
    out: &mut FrameBuffer,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.next_start();
    let mut w = Writer::split(out.buf(), start);
    write(&mut w)?;
    let (end, payload) = w.into_tail();
    out.push(start, end, payload);
    Ok(())
}

/// What a variant of [`Record`] holds: the command itself or a box of it.
macro_rules! held {
    ($name:ident) => {
        $name
    };
    ($name:ident boxed) => {
        Box<$name>
    };
}

/// A command as a variant of [`Record`].
macro_rules! into_record {
    ($name:ident) => {
        impl From<$name> for Record {
            #[inline(always)]
            fn from(command: $name) -> Self {
                Self::$name(command)
            }
        }
    };
    ($name:ident boxed) => {
        impl From<$name> for Record {
            #[inline(always)]
            fn from(command: $name) -> Self {
                Self::$name(Box::new(command))
            }
        }

        impl From<Box<$name>> for Record {
            #[inline(always)]
            fn from(command: Box<$name>) -> Self {
                Self::$name(command)
            }
        }
    };
}

macro_rules! records {
    ($($name:ident $($boxed:ident)?,)+) => {
        $(into_record!($name $($boxed)?);)+

        /// Any record of service-wire v1.
        ///
        /// Commands of more than 232 bytes are held in a box: a record is moved several times on its way, whatever it carries.
        /// `Record::from` makes one of any command; a command that has to be of one kind is decoded without a box by
        /// [`decode_command`], and looked at without any copy by [`view_command`].
        ///
        /// ```
        /// use spotlane_types::kind::MeshOperationKind;
        /// use spotlane_wire::Record;
        ///
        /// let frames = [bytes::Bytes::from_static(b"ZM\x01\x05\x00\0\0\0\0\0\0\0\x07")];
        /// let record = Record::decode(&frames, MeshOperationKind::None)?;
        /// assert!(matches!(record, Record::LivenessProbe(probe) if probe.probe_id.get() == 7));
        /// # Ok::<(), spotlane_wire::DecodeError>(())
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(clippy::exhaustive_enums, reason = "the commands of service-wire v1 are closed")]
        #[expect(missing_docs, reason = "each variant is documented as the command it holds")]
        pub enum Record {
            $($name(held!($name $($boxed)?)),)+
        }

        /// Any record, where it lies: what is encoded and sent need not be moved into a [`Record`] first.
        #[derive(Clone, Copy, Debug)]
        #[expect(clippy::exhaustive_enums, reason = "the commands of service-wire v1 are closed")]
        #[expect(missing_docs, reason = "each variant is documented as the command it holds")]
        pub enum RecordRef<'a> {
            $($name(&'a $name),)+
        }

        $(impl<'a> From<&'a $name> for RecordRef<'a> {
            #[inline]
            fn from(command: &'a $name) -> Self {
                Self::$name(command)
            }
        })+

        impl<'a> From<&'a Record> for RecordRef<'a> {
            #[inline]
            fn from(record: &'a Record) -> Self {
                record.by_ref()
            }
        }

        impl RecordRef<'_> {
            /// As [`Record::encode`].
            ///
            /// # Errors
            /// As there.
            pub fn encode(self, out: &mut FrameBuffer) -> Result<(), EncodeError> {
                match self {
                    $(Self::$name(command) => encode_command(command, out),)+
                }
            }
        }

        impl Record {
            /// The record where it lies.
            #[inline]
            pub const fn by_ref(&self) -> RecordRef<'_> {
                match self {
                    $(Self::$name(command) => RecordRef::$name(command),)+
                }
            }

            /// The command bytes in use; every other one is reserved (WR-3).
            pub const COMMAND_IDS: &'static [u8] = &[$($name::ID,)+];

            /// Decodes the frames of one record.
            ///
            /// `pending` is the kind of the operation that a reply answers, from the table of pending
            /// requests; it decides the tail of command 20 (WR-21) and nothing else.
            ///
            /// For an application message whose ids have at most 38 bytes, allocates nothing but the one box of a message to an
            /// Actor or a Spot (commands 21 to 25); [`decode_command`] does without that one too. Longer ids, vectors, frozen
            /// records and rare large cases take memory in proportion to the input (WR-4). Payloads and chunks are slices of
            /// the frames (WR-7).
            ///
            /// # Errors
            /// The frames are not a legal record: a violation by the peer that sent them. The error
            /// says what, where and which of the six kinds (WR-5).
            pub fn decode(
                frames: &[Bytes],
                pending: MeshOperationKind,
            ) -> Result<Self, DecodeError> {
                with_slices(frames, |frames| Self::decode_slices(frames, pending))
            }

            /// As [`Self::decode`], of frames that lie in a larger buffer.
            ///
            /// # Errors
            /// As [`Self::decode`].
            pub fn decode_slices(
                frames: &[FrameSlice<'_>],
                pending: MeshOperationKind,
            ) -> Result<Self, DecodeError> {
                let Header { command, flags } = first_header(frames)?;
                match command {
                    $($name::ID => {
                        let frames = match judge::<$name>(frames, flags) {
                            Ok(frames) => frames,
                            Err(error) => return Err(named::<$name>(error)),
                        };
                        let mut r = Reader::of_body(frames.body, flags, pending);
                        match $name::read_record(&mut r, &frames) {
                            Ok(record) => Ok(record),
                            Err(error) => Err(named::<$name>(error)),
                        }
                    })+
                    // WR-3: before the body is looked at.
                    other => Err(unknown_command(other)),
                }
            }

            /// Encodes the record into `out`, which is cleared before.
            ///
            /// # Errors
            /// The record breaks a rule over several fields or a bound of its encoding (WR-6); `out`
            /// is empty then.
            pub fn encode(&self, out: &mut FrameBuffer) -> Result<(), EncodeError> {
                self.by_ref().encode(out)
            }

            /// The command byte.
            pub const fn command(&self) -> u8 {
                match self {
                    $(Self::$name(_) => $name::ID,)+
                }
            }

            /// The contract name of the command.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $name::NAME,)+
                }
            }

            /// The flags of frame 0.
            pub fn flags(&self) -> u8 {
                match self {
                    $(Self::$name(command) => command.flags(),)+
                }
            }

            /// The metadata frame, if there is one.
            pub fn metadata(&self) -> Option<&MetadataFrame> {
                match self {
                    $(Self::$name(command) => command.metadata_frame(),)+
                }
            }

            /// The payload, if there is one.
            pub fn payload(&self) -> Option<&ApplicationPayload> {
                match self {
                    $(Self::$name(command) => command.payload_frame(),)+
                }
            }

            /// The contract name of a command byte, if it is in use.
            pub const fn name_of(command: u8) -> Option<&'static str> {
                match command {
                    $($name::ID => Some($name::NAME),)+
                    _ => None,
                }
            }

            #[cfg(feature = "serde")]
            fn body_to_json(&self) -> Node {
                json::object(|m| match self {
                    $(Self::$name(command) => command.body_to_members(m),)+
                })
            }

            #[cfg(feature = "serde")]
            fn body_from_json(
                command: u8,
                body: Node,
                pending: MeshOperationKind,
                metadata: Option<MetadataFrame>,
                payload: Option<ApplicationPayload>,
            ) -> Result<Self, JsonError> {
                json::read_object_with(body, pending, |body| match command {
                    $($name::ID => {
                        $name::from_members(body, metadata, payload).map(Self::from)
                    })+
                    other => Err(JsonError::new(format!("command {other} is reserved"))),
                })
            }
        }
    };
}

#[cold]
fn unknown_command(command: u8) -> DecodeError {
    DecodeError::new(
        ErrorKind::UnknownCommand,
        3,
        Reason::Reserved(u64::from(command)),
    )
    .within("command")
    .of_record(ANY_RECORD, 0)
}

records! {
    Hello boxed,
    Admit boxed,
    Reject,
    Update boxed,
    LivenessProbe,
    LivenessAck,
    NodeSend,
    NodeRequest,
    ChannelSend,
    ChannelRequest,
    Reply,
    SpotSend boxed,
    SpotRequest boxed,
    LogicalMulticast boxed,
    ActorSend boxed,
    ActorRequest boxed,
    ActorLookup,
    ActorDestroy,
    ActorJoin boxed,
    ActorLeft,
    RelocationReady boxed,
    RelocationData boxed,
    ReplyRelay boxed,
    RelocationCutover boxed,
    BoundSessionSend,
    ActorJoined,
    BoundSessionBind,
    InstanceSpot boxed,
    RelocationPrepare boxed,
    SessionRelocationSeal boxed,
    SessionRelocationSealed boxed,
    SessionRelocationRoute boxed,
    ReplyRelayAck boxed,
    UserSpotCreate boxed,
    UserSpotClose,
    ActorCreate boxed,
    MessageFollow boxed,
    BoundSessionReplaced boxed,
    RelocationState boxed,
    RelocationFailed boxed,
}

#[cfg(feature = "serde")]
impl Record {
    /// The JSON form: `command`, `name`, `flags`, `body`, `metadata` and `payload`.
    pub fn to_json(&self) -> Node {
        json::object(|m| {
            m.push("command", Node::Number(u32::from(self.command())));
            m.push("name", Node::Text(self.name().to_owned()));
            m.push("flags", Node::Number(u32::from(self.flags())));
            m.push("body", self.body_to_json());
            m.push(
                "metadata",
                self.metadata().map_or(Node::Null, Layout::to_json),
            );
            m.push(
                "payload",
                self.payload().map_or(Node::Null, Layout::to_json),
            );
        })
    }

    /// Takes the JSON form back. `pending` as in [`Record::decode`].
    ///
    /// `name` and `flags` may be left out; where they are there, they must be right.
    ///
    /// # Errors
    /// The JSON is not the form of a legal record: a mistake of the caller.
    pub fn from_json(node: Node, pending: MeshOperationKind) -> Result<Self, JsonError> {
        // No command has a body field of these names, so they are always the frames beside it.
        const FRAMES: [&str; 2] = ["metadata", "payload"];
        json::read_object(node, |object| {
            let command = object.take::<u8>("command")?;
            let name = object.node("name").map(Node::text).transpose();
            let name = name.map_err(|e| e.within("name"))?;
            let known = Self::name_of(command).ok_or_else(|| {
                let message = format!("{command} is reserved");
                JsonError::of_kind(ErrorKind::UnknownCommand, message).within("command")
            })?;
            if name.is_some_and(|name| name != known) {
                return Err(JsonError::new(format!("command {command} is {known}")).within("name"));
            }
            let flags = object.optional::<u8>("flags")?;
            let metadata = object.nullable("metadata")?;
            let payload = object.nullable("payload")?;
            let body = object.node("body");
            let body = body.ok_or_else(|| JsonError::new("missing").within("body"))?;
            if let Some(name) = FRAMES.into_iter().find(|name| body.has(name)) {
                let error = JsonError::new("not a member of this value").within(name);
                return Err(error.within("body"));
            }
            let record = Self::body_from_json(command, body, pending, metadata, payload).map_err(
                |e| match e.field() {
                    frame if FRAMES.contains(&frame) => e,
                    _ => e.within("body"),
                },
            )?;
            if flags.is_some_and(|flags| flags != record.flags()) {
                let message = format!("the record has {}", record.flags());
                return Err(JsonError::of_kind(ErrorKind::InvalidFlags, message).within("flags"));
            }
            Ok(record)
        })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Record {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

/// A reply is read as one to an operation without a tail; use [`Record::from_json`] for others (WR-21).
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Record {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let node = Node::deserialize(deserializer)?;
        Self::from_json(node, MeshOperationKind::None).map_err(serde::de::Error::custom)
    }
}
