//! WebSocket as a carrier of the stream: its framing and its upgrade, and nothing of its messages.
//!
//! The stream is cut into messages and fragments in whatever way (ST-131), so that messages are never
//! collected: data goes on as it comes, and nothing is kept for the length that a header claims
//! (ST-132). Text, extensions and subprotocols do not exist here (ST-130).

mod deframer;
mod upgrade;

pub use deframer::{Deframer, Event, Mask, Side, WsError, put_close, put_data, put_pong};
pub use upgrade::{
    Request, Response, UpgradeError, bad_request, client_request, parse_request, parse_response,
    server_response,
};
