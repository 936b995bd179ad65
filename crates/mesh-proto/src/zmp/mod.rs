//! ZMP v1: frames, handshake and messages of one TCP connection.

mod connection;
mod control;
mod decoder;
mod encoder;
mod header;
mod message;
mod refusal;

pub use connection::{
    Accepts, Connection, ConnectionEffect, ConnectionEnd, ConnectionEvent, ConnectionSettings, Cut,
    Dropped, PeerReady,
};
pub use control::{
    Generation, Hello, Lane, PairId, PairKey, Ready, SocketType, error_frame, hello_frame,
    ready_frame,
};
pub use decoder::{Decoder, Expect, Frame};
pub use encoder::{Parts, encode_frames, encode_record};
pub use header::{Edition, Flags, Header};
pub use message::{Assembler, Envelope, Message, Overlong, Sequence};
pub use refusal::Refusal;
