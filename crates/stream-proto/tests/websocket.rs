//! Our WebSocket framing beside another implementation of it.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not covered by the lint's setting"
)]

use std::io::Cursor;

use bytes::BytesMut;
use spotlane_stream_proto::ws::{self, Deframer, Event, Mask, Side, WsError};
use tungstenite::Message;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::{Role, WebSocket};

fn events(side: Side, bytes: &[u8]) -> Result<(Vec<Event>, Vec<u8>), WsError> {
    let mut deframer = Deframer::new(side);
    let (mut input, mut stream, mut events) = (BytesMut::from(bytes), BytesMut::new(), Vec::new());
    while let Some(event) = deframer.next_event(&mut input, &mut stream)? {
        events.push(event);
    }
    Ok((events, stream.to_vec()))
}

/// ST-130, ST-131
#[test]
fn the_other_implementation_reads_what_we_write() {
    for size in [0, 1, 125, 126, 65_535, 65_536] {
        let data = vec![7_u8; size];
        for (role, mask) in [
            (Role::Server, Some(Mask::new([1, 2, 3, 4]))),
            (Role::Client, None),
        ] {
            let mut out = BytesMut::new();
            ws::put_data(&data, mask, &mut out);
            ws::put_pong(b"ho", mask, &mut out);
            ws::put_close(1_000, mask, &mut out);
            let mut socket = WebSocket::from_raw_socket(Cursor::new(out.to_vec()), role, None);
            assert_eq!(socket.read().unwrap(), Message::Binary(data.clone().into()));
            assert_eq!(socket.read().unwrap(), Message::Pong("ho".into()));
            assert!(socket.read().unwrap().is_close());
        }
    }
}

fn written(frame: Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.format(&mut bytes).unwrap();
    bytes
}

/// ST-131, ST-132
#[test]
fn we_read_what_the_other_implementation_writes() {
    let part = |bytes: &'static [u8], opcode, last| {
        written(Frame::message(bytes, OpCode::Data(opcode), last))
    };
    let stream = [
        part(b"ab", Data::Binary, false),
        written(Frame::ping("hi")),
        part(b"cd", Data::Continue, false),
        part(b"", Data::Continue, true),
        part(b"ef", Data::Binary, true),
        written(Frame::close(None)),
    ]
    .concat();
    let (events, bytes) = events(Side::Client, &stream).unwrap();
    assert_eq!(bytes, b"abcdef");
    let data = events.iter().filter(|event| **event == Event::Data).count();
    assert_eq!(data, 4);
    assert!(events.contains(&Event::Ping("hi".into())));
    assert_eq!(events.last(), Some(&Event::Close(None)));
}

/// ST-130
#[test]
fn what_is_not_part_of_the_protocol_ends_the_connection() {
    let text = written(Frame::message("hi", OpCode::Data(Data::Text), true));
    let mut long = Frame::ping(vec![0; 126]);
    long.header_mut().is_final = true;
    let mut open_ping = Frame::ping("x");
    open_ping.header_mut().is_final = false;
    let part = |opcode, last| written(Frame::message("x", OpCode::Data(opcode), last));
    let cases = [
        (text, WsError::Text),
        (written(long), WsError::Control),
        (written(open_ping), WsError::Control),
        (part(Data::Continue, true), WsError::Fragments),
        (
            [part(Data::Binary, false), part(Data::Binary, true)].concat(),
            WsError::Fragments,
        ),
        (vec![0x83, 1, 1], WsError::Opcode(3)),
        (vec![0x8b, 1, 1], WsError::Opcode(11)),
        (vec![0xc2, 0], WsError::Extension),
        (vec![0x82, 0x80, 0, 0, 0, 0], WsError::Masking),
        (vec![0x82, 126, 0, 5], WsError::Length),
        (vec![0x82, 127, 0, 0, 0, 0, 0, 0, 0, 5], WsError::Length),
        (vec![0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 5], WsError::Length),
        (vec![0x88, 1, 3], WsError::Close),
    ];
    for (bytes, error) in cases {
        assert_eq!(events(Side::Client, &bytes), Err(error), "{bytes:?}");
    }
    let unmasked = part(Data::Binary, true);
    assert_eq!(events(Side::Server, &unmasked), Err(WsError::Masking));
}

/// ST-132
#[test]
fn a_message_of_any_claimed_length_is_passed_on_as_it_comes() {
    let mut deframer = Deframer::new(Side::Client);
    let mut input = BytesMut::from(&[0x82, 127, 0x7f, 0, 0, 0, 0, 0, 0, 0, b'a', b'b'][..]);
    let mut stream = BytesMut::new();
    assert_eq!(
        deframer.next_event(&mut input, &mut stream),
        Ok(Some(Event::Data))
    );
    assert_eq!(deframer.next_event(&mut input, &mut stream), Ok(None));
    assert_eq!((&stream[..], input.len()), (&b"ab"[..], 0));
    assert!(stream.capacity() < 1_024);
}
