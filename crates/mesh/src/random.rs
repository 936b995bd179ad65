//! Random numbers: for pair ids, probe ids and jitter from a seed, for ids of nodes from the system.

use rustls::crypto::ring;

/// The generator of `SplitMix64`: every seed is a good one.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Sixteen bytes that no other node draws; `None` when the system gives none.
pub(crate) fn drawn() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let source = ring::default_provider().secure_random;
    source.fill(&mut bytes).ok().map(|()| bytes)
}
