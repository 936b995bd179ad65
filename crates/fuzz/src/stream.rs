//! What the fuzz target of the client wire does with its bytes. Plain functions, so that tests replay
//! the corpus.

use bytes::{Bytes, BytesMut};
use spotlane_stream_proto::ws::{Mask, Side};
use spotlane_stream_proto::{
    Carrier, CarrierError, FlowRule, Frame, Packing, SizeBound, Step, decompress, to_bytes,
};

/// The bound of the connection that is fuzzed.
const BOUND: u32 = 65_536;

/// A connection: one byte for the carrier (0 plain, 1 read by a server, 2 by a client, over WebSocket)
/// and the size of the pieces, then what the peer sends.
pub fn stream(data: &[u8]) {
    let Some((how, input)) = data.split_first() else {
        return;
    };
    let reader = match how % 3 {
        0 => None,
        1 => Some(Side::Server),
        _ => Some(Side::Client),
    };
    let once = run(reader, input, input.len().max(1));
    let pieces = run(reader, input, usize::from(how / 3).max(1));
    assert_eq!(once, pieces, "how a stream is cut changes nothing (ST-102)");
    for frame in &once.0 {
        same_again(frame);
    }
}

fn run(reader: Option<Side>, input: &[u8], size: usize) -> (Vec<Frame>, Option<CarrierError>) {
    let (bound, flow) = (SizeBound::Whole(BOUND), FlowRule::Judge);
    let mut carrier = match reader {
        None => Carrier::plain(bound, flow),
        Some(reader) => Carrier::websocket(reader, BytesMut::new(), bound, flow),
    };
    let mask = || (reader == Some(Side::Client)).then(|| Mask::new([1, 2, 3, 4]));
    let (mut frames, mut out) = (Vec::new(), BytesMut::new());
    for piece in input.chunks(size) {
        carrier.input().extend_from_slice(piece);
        loop {
            match carrier.advance(mask, &mut out) {
                Err(error) => return (frames, Some(error)),
                Ok(Step::End) => return (frames, None),
                Ok(Step::Read) => break,
                Ok(Step::Control | Step::Packet) => match carrier.take() {
                    Ok(frame) => frames.extend(frame),
                    Err(error) => return (frames, Some(error)),
                },
            }
        }
        assert!(carrier.buffered() <= size + usize::try_from(BOUND).expect("small") + 6);
        // A carrier answers pings and a close, and nothing longer than it was asked (ST-132).
        assert!(out.len() <= 2 * input.len() + 8);
    }
    (frames, None)
}

/// ST-112: what was accepted encodes to what decodes to the same.
fn same_again(frame: &Frame) {
    let bytes = to_bytes(frame).expect("what was decoded can be encoded");
    let (again, error) = run(None, &bytes, bytes.len());
    assert_eq!(
        (again.as_slice(), error),
        (std::slice::from_ref(frame), None)
    );
    let (Frame::Send { payload, .. }
    | Frame::Request { payload, .. }
    | Frame::Response { payload, .. }
    | Frame::Error { payload, .. }) = frame
    else {
        return;
    };
    if payload.packing == Packing::Compressed
        && let Ok(plain) = decompress(&payload.bytes, u64::from(BOUND))
    {
        assert!(plain.len() <= 65_536, "ST-123");
        let packed = spotlane_stream_proto::compress(&plain);
        assert_eq!(
            decompress(&packed, u64::from(BOUND)),
            Ok(Bytes::clone(&plain))
        );
    }
}
