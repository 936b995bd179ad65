//! Random bytes and the time of day, for masks, keys and flows.

use std::time::{SystemTime, UNIX_EPOCH};

use ring::rand::{SecureRandom as _, SystemRandom};
use spotlane_stream_proto::ws::Mask;
use spotlane_stream_proto::{Flow, FlowOrigin};

/// Random bytes of the system. Without any it gives zeros: a mask hides nothing from the peer, and what
/// a WebSocket key proves is only that the answer is fresh.
#[derive(Clone, Debug)]
pub(crate) struct Random(SystemRandom);

impl Random {
    pub(crate) fn new() -> Self {
        Self(SystemRandom::new())
    }

    pub(crate) fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        if self.0.fill(&mut bytes).is_err() {
            bytes = [0; N];
        }
        bytes
    }

    pub(crate) fn mask(&self) -> Mask {
        Mask::new(self.bytes())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place of the client that reads the time of day, which a version 7 uuid begins with"
    )]
    pub(crate) fn flow(&self) -> Flow {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
        Flow::new(millis, self.bytes(), FlowOrigin::Application)
    }
}
