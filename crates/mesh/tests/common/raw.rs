//! A peer that speaks ZMP v1 as a ROUTER, written by hand from the contract: none of our framing is in it.

use std::net::SocketAddr;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use spotlane_types::kind::{MeshOperationKind, RejectReason};
use spotlane_wire::command::admission::{Admit, Hello};
use spotlane_wire::command::liveness::LivenessAck;
use spotlane_wire::descriptor::{RouteMeshAdmission, ServiceAdmission};
use spotlane_wire::{FrameBuffer, Record};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{Node, PATIENCE, descriptor};

pub const MORE: u8 = 1;
pub const CONTROL: u8 = 2;
pub const APPLICATION: u8 = 0;
pub const COMPLETION: u8 = 1;

/// One frame: `5A 01 flags 00`, length, body.
pub fn frame(flags: u8, body: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_slice(&[0x5A, 1, flags, 0]);
    bytes.put_u32(body.len().try_into().unwrap());
    bytes.put_slice(body);
    bytes.freeze()
}

/// TR-10
pub fn hello(id: &str) -> Bytes {
    let mut body = vec![1, 6, id.len().try_into().unwrap()];
    body.extend(id.as_bytes());
    frame(CONTROL, &body)
}

/// What both lanes of a pair have in common.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub id: u64,
    pub generation: u64,
}

impl Pair {
    /// The pair of a peer of that name.
    pub fn of(name: &str) -> Self {
        Self {
            id: name.bytes().map(u64::from).sum(),
            generation: 1,
        }
    }
}

/// TR-13
pub fn ready(id: &str, pair: Pair, lane: u8) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(4);
    let mut property = |name: &str, value: &[u8]| {
        body.put_u8(name.len().try_into().unwrap());
        body.put_slice(name.as_bytes());
        body.put_u32(value.len().try_into().unwrap());
        body.put_slice(value);
    };
    property("Socket-Type", b"ROUTER");
    property("Routing-Id", id.as_bytes());
    property("Zlink-Max-Message-Size", &[0; 8]);
    property("Zlink-Pair-Id", &pair.id.to_be_bytes());
    property("Zlink-Pair-Generation", &pair.generation.to_be_bytes());
    property("Zlink-Lane", &[lane]);
    frame(CONTROL, &body)
}

/// The frames of a message, all but the last with MORE.
pub fn message(frames: &[Bytes]) -> Bytes {
    let mut bytes = BytesMut::new();
    for (at, body) in frames.iter().enumerate() {
        let flags = if at + 1 < frames.len() { MORE } else { 0 };
        bytes.put_slice(&frame(flags, body));
    }
    bytes.freeze()
}

/// The four frames in front of a payload (TR-40).
pub fn envelope(kind: u8, sequence: u64) -> Vec<Bytes> {
    let mut frames: Vec<_> = [1, 1, kind].map(|byte| Bytes::from(vec![byte])).into();
    frames.push(Bytes::copy_from_slice(&sequence.to_be_bytes()));
    frames
}

pub fn frames_of(record: &Record) -> Vec<Bytes> {
    let mut buffer = FrameBuffer::default();
    record.encode(&mut buffer).unwrap();
    buffer.to_frames()
}

/// A frame as it came.
#[derive(Debug)]
pub struct RawFrame {
    pub flags: u8,
    /// 0 in the first edition.
    pub kind: u8,
    /// 0 without a kind.
    pub sequence: u64,
    pub body: Bytes,
}

/// One connection.
#[derive(Debug)]
pub struct Raw {
    pub stream: TcpStream,
    buffer: BytesMut,
}

impl Raw {
    pub async fn connect(to: SocketAddr) -> Self {
        Self::of(TcpStream::connect(to).await.unwrap())
    }

    pub fn of(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
        }
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next frame of the first edition; `None` at the end of the stream, however it ends.
    pub async fn frame(&mut self) -> Option<(u8, Bytes)> {
        let frame = self.any_frame().await?;
        assert_eq!(frame.kind, 0, "reserved");
        Some((frame.flags, frame.body))
    }

    /// The next frame of either edition.
    pub async fn any_frame(&mut self) -> Option<RawFrame> {
        loop {
            if let Some(head) = self.buffer.first_chunk::<8>() {
                assert_eq!((head[0], head[1]), (0x5A, 1), "magic, version");
                let (flags, kind) = (head[2], head[3]);
                let length = u32::from_be_bytes(head[4..].try_into().unwrap());
                let length = usize::try_from(length).unwrap();
                let start = if kind == 0 { 8 } else { 16 };
                if self.buffer.len() >= start + length {
                    let mut start = self.buffer.split_to(start).split_off(8);
                    let sequence = if kind == 0 { 0 } else { start.get_u64() };
                    let body = self.buffer.split_to(length).freeze();
                    return Some(RawFrame {
                        flags,
                        kind,
                        sequence,
                        body,
                    });
                }
            }
            let read = self.stream.read_buf(&mut self.buffer);
            let read = tokio::time::timeout(PATIENCE, read)
                .await
                .expect("bytes in time");
            if !matches!(read, Ok(1..)) {
                return None;
            }
        }
    }

    /// The next message.
    pub async fn message(&mut self) -> Option<Vec<Bytes>> {
        let mut frames = Vec::new();
        loop {
            let (flags, body) = self.frame().await?;
            assert_eq!(flags & !MORE, 0, "data");
            frames.push(body);
            if flags == 0 {
                return Some(frames);
            }
        }
    }

    /// The code of the ERROR that the stream ends with; `None` when it ends without.
    pub async fn error(&mut self) -> Option<u8> {
        let mut last = None;
        while let Some((flags, body)) = self.frame().await {
            last = (flags == CONTROL && body[0] == 5).then(|| body[1]).or(last);
        }
        last
    }
}

/// Both lanes.
#[derive(Debug)]
pub struct RawPeer {
    pub application: Raw,
    pub completion: Raw,
    pub descriptor: RouteMeshAdmission,
}

pub fn address(node: &Node) -> SocketAddr {
    let endpoint = node.mesh.advertised_endpoint().as_str().to_owned();
    endpoint.strip_prefix("tcp://").unwrap().parse().unwrap()
}

impl RawPeer {
    /// Opens both lanes; not admitted yet.
    pub async fn dial(node: &Node, id: &str, pair: Pair) -> Self {
        let mut lanes = Vec::new();
        for lane in [APPLICATION, COMPLETION] {
            let mut raw = Raw::connect(address(node)).await;
            // TR-22: a dialler sends both in one go.
            raw.write(&[hello(id), ready(id, pair, lane)].concat())
                .await;
            let (flags, body) = raw.frame().await.unwrap();
            assert_eq!((flags, body[0]), (CONTROL, 1), "HELLO");
            let (flags, body) = raw.frame().await.unwrap();
            assert_eq!((flags, body[0]), (CONTROL, 4), "READY");
            lanes.push(raw);
        }
        let completion = lanes.pop().unwrap();
        Self {
            application: lanes.pop().unwrap(),
            completion,
            descriptor: descriptor(77),
        }
    }

    /// Opens both lanes, says hello and is admitted.
    pub async fn admitted(node: &Node, id: &str) -> Self {
        let mut peer = Self::dial(node, id, Pair::of(id)).await;
        peer.say_hello().await;
        peer
    }

    /// TR-70: what a hello is answered with.
    async fn hello(&mut self) -> Record {
        let hello = Hello {
            admission: self.own(),
        };
        self.application
            .write(&message(&frames_of(&hello.into())))
            .await;
        let answer = self.application.message().await.unwrap();
        Record::decode(&answer, MeshOperationKind::None).unwrap()
    }

    /// Says hello and is admitted.
    pub async fn say_hello(&mut self) {
        let answer = self.hello().await;
        assert!(matches!(answer, Record::Admit(_)), "{answer:?}");
    }

    /// Says hello and is refused.
    pub async fn refused(&mut self) -> RejectReason {
        match self.hello().await {
            Record::Reject(reject) => reject.reason,
            other => panic!("{other:?} is no reject"),
        }
    }

    fn own(&self) -> ServiceAdmission {
        ServiceAdmission::RouteMesh {
            route_mesh: self.descriptor.clone(),
        }
    }

    /// Takes both lanes of a node that dials, without an answer to its hello.
    pub async fn accept(listener: &TcpListener, id: &str) -> Self {
        let mut lanes = [None, None];
        for _ in 0..2 {
            let (stream, _) = listener.accept().await.unwrap();
            let mut raw = Raw::of(stream);
            raw.write(&hello(id)).await;
            let (_, theirs) = raw.frame().await.unwrap();
            // TR-32: whatever the dialler calls the link, it says who it is.
            assert_eq!(theirs[..], b"\x01\x06\x04node"[..], "HELLO");
            let (_, theirs) = raw.frame().await.unwrap();
            assert_eq!(theirs[0], 4, "READY");
            let lane = *theirs.last().unwrap();
            let pair = |name: &str| {
                let at = theirs
                    .windows(name.len())
                    .position(|it| it == name.as_bytes());
                let value = &theirs[at.unwrap() + name.len() + 4..];
                u64::from_be_bytes(value[..8].try_into().unwrap())
            };
            let pair = Pair {
                id: pair("Zlink-Pair-Id"),
                generation: pair("Zlink-Pair-Generation"),
            };
            // TR-23: the acceptor repeats pair id, generation and lane.
            raw.write(&ready(id, pair, lane)).await;
            lanes[usize::from(lane)] = Some(raw);
        }
        let [application, completion] = lanes.map(Option::unwrap);
        Self {
            application,
            completion,
            descriptor: descriptor(77),
        }
    }

    /// Answers the hello of a node that dials.
    pub async fn admit(&mut self, endpoint: &str) {
        self.descriptor.advertised_endpoint = spotlane_types::id::Endpoint::new(endpoint).unwrap();
        let hello = self.application.message().await.unwrap();
        let hello = Record::decode(&hello, MeshOperationKind::None).unwrap();
        assert!(matches!(hello, Record::Hello(_)), "{hello:?}");
        let admit = Admit {
            admission: self.own(),
        };
        self.application
            .write(&message(&frames_of(&admit.into())))
            .await;
    }

    /// Answers the next probe.
    pub async fn acknowledge(&mut self) {
        let probe = self.completion.message().await.unwrap();
        self.answer_probe(&probe).await;
    }

    pub async fn answer_probe(&mut self, probe: &[Bytes]) {
        assert_eq!(probe[..4], envelope(4, 0), "completion control");
        let record = Record::decode(&probe[4..], MeshOperationKind::None).unwrap();
        let Record::LivenessProbe(probe) = record else {
            panic!("{record:?} is no probe");
        };
        let ack = LivenessAck {
            probe_id: probe.probe_id,
        };
        let frames = [envelope(4, 0), frames_of(&ack.into())].concat();
        self.completion.write(&message(&frames)).await;
    }
}
