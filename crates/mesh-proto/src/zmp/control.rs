//! HELLO, READY and ERROR.

use core::num::NonZeroU64;

use bytes::{BufMut as _, Bytes, BytesMut};
use spotlane_types::id::NodeRid;

use super::header::{Edition, Flags, Header, Opening};
use super::refusal::Refusal;

/// Types of control frames.
pub(super) const HELLO: u8 = 0x01;
pub(super) const READY: u8 = 0x04;
pub(super) const ERROR: u8 = 0x05;
/// TR-20: the control frame without a type byte.
pub(super) const WEIGHT: &[u8] = b"WEIGHT";

const SOCKET_TYPE: &[u8] = b"Socket-Type";
const ROUTING_ID: &[u8] = b"Routing-Id";
const MAX_MESSAGE_SIZE: &[u8] = b"Zlink-Max-Message-Size";
const PAIR_ID: &[u8] = b"Zlink-Pair-Id";
const PAIR_GENERATION: &[u8] = b"Zlink-Pair-Generation";
const LANE: &[u8] = b"Zlink-Lane";
const LANE_COUNT: &[u8] = b"Zlink-Lane-Count";
const ROUTER_NAME: &[u8] = b"ROUTER";
/// Between two routers.
const LANES: u8 = 2;
/// TR-46: the flow control frame of E2, which has no type byte either.
const FLOW_STATE: &[u8] = b"FLOWSTATE";
const FLOW_VERSION: u8 = 1;

/// A type of socket that a HELLO names and a router may accept (TR-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by TR-10: any other is refused"
)]
pub enum SocketType {
    /// What we are.
    Router,
    /// What a mesh node refuses although a router may accept it.
    Dealer,
}

/// A connection of a pair (TR-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-15")]
pub enum Lane {
    /// Carries messages and requests.
    Application,
    /// Carries replies and completion controls.
    Completion,
}

impl Lane {
    /// Both lanes.
    pub const ALL: [Self; 2] = [Self::Application, Self::Completion];

    const fn wire(self) -> u8 {
        match self {
            Self::Application => 0,
            Self::Completion => 1,
        }
    }

    const fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Application),
            1 => Some(Self::Completion),
            _ => None,
        }
    }

    /// The other one.
    #[must_use]
    pub const fn sister(self) -> Self {
        match self {
            Self::Application => Self::Completion,
            Self::Completion => Self::Application,
        }
    }
}

/// Names the intent of a dialler to connect; random, and fixed while the intent lives (TR-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairId(NonZeroU64);

impl PairId {
    /// Takes a random number; zero never names a pair.
    pub const fn new(random: NonZeroU64) -> Self {
        Self(random)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

/// Counts the losses of one intent: the first pair is 1 (TR-57).
///
/// An acceptor compares it for equality only (TR-59).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(NonZeroU64);

impl Generation {
    /// The generation of a new intent.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Takes a number that is not zero.
    pub const fn new(number: NonZeroU64) -> Self {
        Self(number)
    }

    /// The one after a loss.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

/// What joins two connections to one pair (TR-24).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "closed by TR-24")]
pub struct PairKey {
    /// The intent.
    pub pair: PairId,
    /// How often it was lost.
    pub generation: Generation,
}

/// The first frame of each direction (TR-10).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hello {
    /// The type of the peer's socket.
    pub socket: SocketType,
    /// The identity of the peer; `None` when it named none (TR-11).
    pub id: Option<NodeRid>,
}

impl Hello {
    /// Reads the body of the first frame.
    ///
    /// # Errors
    /// It is no HELLO, or of a type that no router accepts.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let Some(([kind, socket, length], id)) = body.split_first_chunk() else {
            return Err(Refusal::HelloTooShort);
        };
        if *kind != HELLO {
            return Err(Refusal::MissingHello);
        }
        if usize::from(*length) != id.len() {
            return Err(Refusal::HelloIdentityMismatch);
        }
        let socket = match socket {
            6 => SocketType::Router,
            5 => SocketType::Dealer,
            _ => return Err(Refusal::SocketTypeMismatch),
        };
        Ok(Self {
            socket,
            id: NodeRid::new(id).ok(),
        })
    }
}

/// How the two connections of a link find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-1 and TR-2")]
pub enum Pairing {
    /// E1: both name the pair.
    ByKey(PairKey),
    /// E2: they have the same identity.
    ByIdentity,
    /// What a dialler says that speaks either edition: the acceptor picks one (TR-2).
    Either(PairKey),
}

/// The second frame of each direction, as far as a router needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "says all there is")]
pub struct Ready {
    /// The pair; what is read is never [`Pairing::Either`].
    pub pairing: Pairing,
    /// Which connection of the pair this is.
    pub lane: Lane,
    /// The largest message that the sender takes; `None` when it has no limit (TR-17).
    pub receive_limit: Option<NonZeroU64>,
}

/// The properties that we know, as they were found.
#[derive(Default)]
struct Found<'a> {
    socket: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
    limit: Option<&'a [u8]>,
    pair: Option<&'a [u8]>,
    generation: Option<&'a [u8]>,
    lane: Option<&'a [u8]>,
    lane_count: Option<&'a [u8]>,
}

impl Ready {
    /// Reads the properties of a READY of the peer that has named itself `peer` in HELLO; `None` when
    /// there are none at all, which is no answer and no error (TR-15). The order is free and unknown
    /// names are passed over (TR-13, TR-14).
    ///
    /// # Errors
    /// A property is malformed, or one that the edition needs is missing or not legal.
    pub fn parse(
        opening: Opening,
        peer: &NodeRid,
        properties: &[u8],
    ) -> Result<Option<Self>, Refusal> {
        if properties.is_empty() {
            return Ok(None);
        }
        let found = Found::parse(properties)?;
        let receive_limit = match found.limit {
            Some(value) => NonZeroU64::new(word(value).ok_or(Refusal::MaxSizeMetadataInvalid)?),
            None => None,
        };
        let lane = match found.lane {
            Some([byte]) => Lane::from_wire(*byte),
            Some(_) | None => None,
        };
        let lane = lane.ok_or(Refusal::PairMetadataInvalid)?;
        let pairing = match (opening, found.names_pair()) {
            (Opening::Fixed(Edition::E1), _) => found.by_key()?,
            // TR-2: pair properties mean E1, a lane count without them means E2.
            (Opening::Neutral, true) => found.by_key()?,
            (Opening::Fixed(Edition::E2), _) | (Opening::Neutral, false) => {
                found.by_identity(peer)?
            }
        };
        Ok(Some(Self {
            pairing,
            lane,
            receive_limit,
        }))
    }
}

impl<'a> Found<'a> {
    fn parse(mut rest: &'a [u8]) -> Result<Self, Refusal> {
        let mut found = Self::default();
        while !rest.is_empty() {
            let (name, value, behind) = property(rest).ok_or(Refusal::ReadyMetadataInvalid)?;
            let place = match name {
                SOCKET_TYPE => Some(&mut found.socket),
                ROUTING_ID => Some(&mut found.id),
                MAX_MESSAGE_SIZE => Some(&mut found.limit),
                PAIR_ID => Some(&mut found.pair),
                PAIR_GENERATION => Some(&mut found.generation),
                LANE => Some(&mut found.lane),
                LANE_COUNT => Some(&mut found.lane_count),
                _ => None,
            };
            // Two values of one name: no reading of them is safer than another, so neither is taken.
            if place.is_some_and(|place| place.replace(value).is_some()) {
                return Err(Refusal::ReadyMetadataInvalid);
            }
            rest = behind;
        }
        Ok(found)
    }

    const fn names_pair(&self) -> bool {
        self.pair.is_some() || self.generation.is_some()
    }

    /// TR-15: what E1 needs.
    fn by_key(&self) -> Result<Pairing, Refusal> {
        let number = |value: Option<&[u8]>| value.and_then(word).and_then(NonZeroU64::new);
        match (number(self.pair), number(self.generation)) {
            (Some(pair), Some(generation)) => Ok(Pairing::ByKey(PairKey {
                pair: PairId(pair),
                generation: Generation(generation),
            })),
            _ => Err(Refusal::PairMetadataInvalid),
        }
    }

    /// What E2 needs: a router that says the same of itself as in HELLO, with two lanes.
    fn by_identity(&self, peer: &NodeRid) -> Result<Pairing, Refusal> {
        if self.lane_count != Some(&[LANES]) {
            return Err(Refusal::PairMetadataInvalid);
        }
        if self.socket != Some(ROUTER_NAME) || self.id != Some(peer.as_bytes()) {
            return Err(Refusal::ReadyMetadataInvalid);
        }
        Ok(Pairing::ByIdentity)
    }
}

/// Whether a side takes new messages (TR-46).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-46")]
pub enum FlowState {
    /// It does.
    #[default]
    Running,
    /// None from the next message boundary on.
    Paused,
}

/// The flow control frame of E2. Absolute: the one of the highest epoch holds (TR-46).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by TR-46")]
pub struct Flow {
    /// The state of the sender.
    pub state: FlowState,
    /// Counts the frames of a connection from 1.
    pub epoch: NonZeroU64,
}

impl Flow {
    /// Whether a control frame is one, legal or not.
    pub(super) fn is_named(body: &[u8]) -> bool {
        body.starts_with(FLOW_STATE)
    }

    /// Reads the body; `None` for everything that is consumed and ignored.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let (&[version, state], epoch) = body.strip_prefix(FLOW_STATE)?.split_first_chunk()?;
        let state = match (version, state) {
            (FLOW_VERSION, 0) => FlowState::Running,
            (FLOW_VERSION, 1) => FlowState::Paused,
            _ => return None,
        };
        let epoch = NonZeroU64::new(word(epoch)?)?;
        Some(Self { state, epoch })
    }
}

/// The frame that says whether we take new messages (TR-46).
pub fn flow_frame(flow: Flow) -> Bytes {
    control(|body| {
        body.put_slice(FLOW_STATE);
        body.put_u8(FLOW_VERSION);
        body.put_u8(match flow.state {
            FlowState::Running => 0,
            FlowState::Paused => 1,
        });
        body.put_u64(flow.epoch.get());
    })
}

/// Name, value and what follows.
fn property(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (value, rest) = rest.split_at_checked(length)?;
    Some((name, value, rest))
}

fn word(value: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(value.try_into().ok()?))
}

/// Our HELLO (TR-10).
pub fn hello_frame(id: &NodeRid) -> Bytes {
    control(|body| {
        body.put_slice(&[HELLO, 6, small(id.as_bytes().len())]);
        body.put_slice(id.as_bytes());
    })
}

/// Our READY, with the properties of its edition in the order of the contract (TR-13).
pub fn ready_frame(id: &NodeRid, ready: &Ready) -> Bytes {
    let limit = ready.receive_limit.map_or(0, NonZeroU64::get);
    control(|body| {
        body.put_u8(READY);
        put_property(body, SOCKET_TYPE, ROUTER_NAME);
        put_property(body, ROUTING_ID, id.as_bytes());
        put_property(body, MAX_MESSAGE_SIZE, &limit.to_be_bytes());
        if let Pairing::ByKey(key) | Pairing::Either(key) = ready.pairing {
            put_property(body, PAIR_ID, &key.pair.get().to_be_bytes());
            put_property(body, PAIR_GENERATION, &key.generation.get().to_be_bytes());
        }
        put_property(body, LANE, &[ready.lane.wire()]);
        if let Pairing::ByIdentity | Pairing::Either(_) = ready.pairing {
            put_property(body, LANE_COUNT, &[LANES]);
        }
    })
}

/// The ERROR that goes out before the close (TR-18).
pub fn error_frame(refusal: Refusal) -> Bytes {
    let reason = refusal.to_string();
    control(|body| {
        body.put_slice(&[ERROR, refusal.code(), small(reason.len())]);
        body.put_slice(reason.as_bytes());
    })
}

fn put_property(body: &mut BytesMut, name: &[u8], value: &[u8]) {
    body.put_u8(small(name.len()));
    body.put_slice(name);
    body.put_u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
    body.put_slice(value);
}

/// The length of something that has 255 bytes at most by its type.
fn small(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(u8::MAX)
}

/// A control frame, which is the same in both editions.
fn control(write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut body = BytesMut::new();
    write(&mut body);
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut frame = BytesMut::from(&Header::encode(Flags::CONTROL, length)[..]);
    frame.extend_from_slice(&body);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> NodeRid {
        NodeRid::new(text.as_bytes()).unwrap()
    }

    fn key() -> PairKey {
        PairKey {
            pair: PairId::new(NonZeroU64::new(7).unwrap()),
            generation: Generation::FIRST.next(),
        }
    }

    const E1: Opening = Opening::Fixed(Edition::E1);
    const E2: Opening = Opening::Fixed(Edition::E2);

    /// As the dialler or acceptor of E1 reads it.
    fn parse(properties: &[u8]) -> Result<Option<Ready>, Refusal> {
        Ready::parse(E1, &id("n"), properties)
    }

    fn ready() -> Ready {
        Ready {
            pairing: Pairing::ByKey(key()),
            lane: Lane::Completion,
            receive_limit: NonZeroU64::new(65_536),
        }
    }

    /// TR-10
    #[test]
    fn a_hello_has_the_bytes_of_the_contract() {
        let frame = hello_frame(&id("node-b"));
        assert_eq!(&frame[..], b"\x5A\x01\x02\0\0\0\0\x09\x01\x06\x06node-b");
        let hello = Hello::parse(&frame[8..]).unwrap();
        assert_eq!(hello.id, Some(id("node-b")));
        assert_eq!(hello.socket, SocketType::Router);
    }

    /// TR-10
    #[test]
    fn a_hello_is_refused_for_type_length_and_kind() {
        let refused = |body: &[u8]| Hello::parse(body).unwrap_err();
        assert_eq!(refused(&[4, 6, 0]), Refusal::MissingHello);
        assert_eq!(refused(&[1, 6, 2, 9]), Refusal::HelloIdentityMismatch);
        for socket in [0, 1, 2, 9, 10, 11, 255] {
            assert_eq!(refused(&[1, socket, 0]), Refusal::SocketTypeMismatch);
        }
        assert_eq!(Hello::parse(&[1, 5, 0]).unwrap().socket, SocketType::Dealer);
    }

    /// TR-13
    #[test]
    fn a_ready_has_149_bytes_and_the_id() {
        for name in ["n", "node-b", "0123456789"] {
            let frame = ready_frame(&id(name), &ready());
            assert_eq!(frame.len(), 8 + 149 + name.len());
            assert_eq!(parse(&frame[9..]), Ok(Some(ready())));
        }
    }

    fn properties(list: &[(&[u8], &[u8])]) -> Bytes {
        let mut body = BytesMut::new();
        for (name, value) in list {
            put_property(&mut body, name, value);
        }
        body.freeze()
    }

    const PAIR: (&[u8], &[u8]) = (PAIR_ID, &[0, 0, 0, 0, 0, 0, 0, 7]);
    const FIRST: (&[u8], &[u8]) = (PAIR_GENERATION, &[0, 0, 0, 0, 0, 0, 0, 1]);
    const LANE_0: (&[u8], &[u8]) = (LANE, &[0]);

    /// TR-13, TR-14
    #[test]
    fn properties_come_in_any_order_with_unknown_ones_between() {
        let list = properties(&[LANE_0, (b"X", b"??"), FIRST, (b"", b""), PAIR]);
        let ready = parse(&list).unwrap().unwrap();
        assert_eq!((ready.lane, ready.receive_limit), (Lane::Application, None));
        for end in 1..list.len() {
            assert!(parse(&list[..end]).is_err(), "cut at {end}");
        }
        let stray = [&list[..], &[0]].concat();
        assert_eq!(parse(&stray), Err(Refusal::ReadyMetadataInvalid));
        let twice = properties(&[PAIR, FIRST, LANE_0, PAIR]);
        assert_eq!(parse(&twice), Err(Refusal::ReadyMetadataInvalid));
    }

    /// TR-15
    #[test]
    fn the_pair_properties_are_needed_and_not_zero() {
        assert_eq!(parse(&[]), Ok(None));
        let zero: &[u8] = &[0; 8];
        let bad: [&[(&[u8], &[u8])]; 8] = [
            &[FIRST, LANE_0],
            &[PAIR, LANE_0],
            &[PAIR, FIRST],
            &[(PAIR_ID, zero), FIRST, LANE_0],
            &[PAIR, (PAIR_GENERATION, zero), LANE_0],
            &[PAIR, FIRST, (LANE, &[2])],
            &[PAIR, FIRST, (LANE, &[0, 0])],
            &[(PAIR_ID, &[0, 0, 0, 7]), FIRST, LANE_0],
        ];
        for list in bad {
            let refused = parse(&properties(list));
            assert_eq!(refused, Err(Refusal::PairMetadataInvalid), "{list:?}");
        }
    }

    /// TR-17
    #[test]
    fn the_limit_has_eight_bytes() {
        let list = properties(&[PAIR, FIRST, LANE_0, (MAX_MESSAGE_SIZE, &[0, 0, 0, 5])]);
        assert_eq!(parse(&list), Err(Refusal::MaxSizeMetadataInvalid));
    }

    /// TR-18
    #[test]
    fn an_error_has_code_and_reason() {
        let frame = error_frame(Refusal::InvalidMagic);
        assert_eq!(
            &frame[..],
            b"\x5A\x01\x02\0\0\0\0\x10\x05\x01\x0dinvalid magic"
        );
    }

    /// TR-2, TR-13, TR-15: what each edition sends and what each reads from it.
    #[test]
    fn the_edition_is_read_from_the_properties() {
        let named = |pairing, name: &str| ready_frame(&id(name), &Ready { pairing, ..ready() });
        let read = |opening, pairing| {
            let frame = named(pairing, "n");
            let ready = Ready::parse(opening, &id("n"), &frame[9..]);
            ready.map(|ready| ready.unwrap().pairing)
        };
        let (by_key, by_id) = (Pairing::ByKey(key()), Pairing::ByIdentity);
        let either = Pairing::Either(key());
        let refused = Err(Refusal::PairMetadataInvalid);
        for (opening, of_key, of_id, of_either) in [
            (E1, Ok(by_key), refused, Ok(by_key)),
            (E2, refused, Ok(by_id), Ok(by_id)),
            (Opening::Neutral, Ok(by_key), Ok(by_id), Ok(by_key)),
        ] {
            assert_eq!(read(opening, by_key), of_key, "{opening:?}");
            assert_eq!(read(opening, by_id), of_id, "{opening:?}");
            assert_eq!(read(opening, either), of_either, "{opening:?}");
        }
        let other = named(by_id, "m");
        let other = Ready::parse(E2, &id("n"), &other[9..]);
        assert_eq!(
            other,
            Err(Refusal::ReadyMetadataInvalid),
            "another id than in HELLO"
        );
    }

    /// TR-15: the properties that E2 needs.
    #[test]
    fn the_second_edition_needs_socket_id_lane_and_a_count_of_two() {
        let socket: (&[u8], &[u8]) = (SOCKET_TYPE, b"ROUTER");
        let name: (&[u8], &[u8]) = (ROUTING_ID, b"n");
        let count: (&[u8], &[u8]) = (LANE_COUNT, &[2]);
        let parse = |list: &[(&[u8], &[u8])]| Ready::parse(E2, &id("n"), &properties(list));
        let ready = parse(&[count, LANE_0, name, socket]).unwrap().unwrap();
        assert_eq!(
            (ready.pairing, ready.lane),
            (Pairing::ByIdentity, Lane::Application)
        );
        let pair = Err(Refusal::PairMetadataInvalid);
        assert_eq!(parse(&[socket, name, LANE_0]), pair);
        assert_eq!(parse(&[socket, name, count]), pair);
        assert_eq!(parse(&[socket, name, LANE_0, (LANE_COUNT, &[1])]), pair);
        let metadata = Err(Refusal::ReadyMetadataInvalid);
        assert_eq!(parse(&[name, LANE_0, count]), metadata);
        assert_eq!(parse(&[socket, LANE_0, count]), metadata);
        assert_eq!(
            parse(&[(SOCKET_TYPE, b"DEALER"), name, LANE_0, count]),
            metadata
        );
    }

    /// TR-46
    #[test]
    fn a_flow_state_has_19_bytes_and_what_is_not_legal_is_ignored() {
        let flow = Flow {
            state: FlowState::Paused,
            epoch: NonZeroU64::new(258).unwrap(),
        };
        let frame = flow_frame(flow);
        assert_eq!(
            &frame[..],
            b"\x5A\x01\x02\0\0\0\0\x13FLOWSTATE\x01\x01\0\0\0\0\0\0\x01\x02"
        );
        let body = &frame[8..];
        assert_eq!(Flow::parse(body), Some(flow));
        for end in 0..body.len() {
            assert_eq!(Flow::parse(&body[..end]), None);
        }
        assert_eq!(Flow::parse(&[body, b"x"].concat()), None);
        let with = |at: usize, byte: u8| {
            let mut body = body.to_vec();
            body[at] = byte;
            Flow::parse(&body)
        };
        assert_eq!((with(9, 2), with(10, 2)), (None, None), "version, state");
        assert_eq!(
            Flow::parse(b"FLOWSTATE\x01\x01\0\0\0\0\0\0\0\0"),
            None,
            "epoch 0"
        );
        assert_eq!(with(10, 0).unwrap().state, FlowState::Running);
    }
}
