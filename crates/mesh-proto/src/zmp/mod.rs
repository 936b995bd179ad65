//! ZMP v1: frames, handshake and messages of one TCP connection.

mod connection;
mod control;
mod decoder;
mod encoder;
mod frames;
mod header;
mod message;
mod refusal;
mod scan;

pub use connection::{
    Accepts, Connection, ConnectionEffect, ConnectionEnd, ConnectionEvent, ConnectionSettings, Cut,
    Dropped, PeerReady,
};
pub use control::{
    Flow, FlowState, Generation, Hello, Lane, PairId, PairKey, Pairing, Ready, SocketType,
    error_frame, flow_frame, hello_frame, ready_frame,
};
pub use decoder::{Decoder, Expect, Frame};
pub use encoder::{Parts, Sink, Size, encode_frames, encode_record, size_of};
pub(crate) use encoder::{record_buffer, write_in_room};
pub use frames::Frames;
pub use header::{Edition, Flags, Header, Kind, Opening};
pub use message::{Assembler, Envelope, Mark, Message, Overlong, Sequence};
pub use refusal::Refusal;
pub use scan::{NotCommon, Whole};
