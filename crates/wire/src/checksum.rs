//! CRC-32C: Castagnoli, reflected, initial and final xor `0xFFFFFFFF` (WR-44).

use crc_fast::{CrcAlgorithm, Digest};

/// The name that the checksum library has for CRC-32C.
const ALGORITHM: CrcAlgorithm = CrcAlgorithm::Crc32Iscsi;

/// The checksum of `bytes`.
///
/// ```
/// assert_eq!(spotlane_wire::checksum::crc32c(b"123456789"), 0xE306_9283);
/// ```
pub fn crc32c(bytes: &[u8]) -> u32 {
    narrow(crc_fast::checksum(ALGORITHM, bytes))
}

/// A checksum that is taken piece by piece.
///
/// ```
/// use spotlane_wire::checksum::Crc32c;
///
/// let mut sum = Crc32c::default();
/// sum.update(b"1234");
/// sum.update(b"56789");
/// assert_eq!(sum.value(), 0xE306_9283);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(Digest);

impl Default for Crc32c {
    fn default() -> Self {
        Self(Digest::new(ALGORITHM))
    }
}

impl Crc32c {
    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Takes what another sum was made of as the next piece, without reading it again.
    ///
    /// ```
    /// use spotlane_wire::checksum::Crc32c;
    ///
    /// let (mut first, mut second) = (Crc32c::default(), Crc32c::default());
    /// first.update(b"1234");
    /// second.update(b"56789");
    /// first.append(&second);
    /// assert_eq!(first.value(), 0xE306_9283);
    /// ```
    pub fn append(&mut self, next: &Self) {
        self.0.combine(&next.0);
    }

    /// How many bytes it was made of.
    pub fn bytes(&self) -> u64 {
        self.0.get_amount()
    }

    /// The checksum of everything so far; 0 for nothing.
    pub fn value(&self) -> u32 {
        narrow(self.0.finalize())
    }
}

/// The library gives all its checksums in 64 bits; this one has 32.
fn narrow(checksum: u64) -> u32 {
    u32::try_from(checksum).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WR-44
    #[test]
    fn the_checksum_is_castagnoli_in_one_piece_and_in_many() {
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for piece in [1, 7, 64, 255, 4096] {
            let mut sum = Crc32c::default();
            bytes.chunks(piece).for_each(|piece| sum.update(piece));
            assert_eq!(sum.value(), crc32c(&bytes), "pieces of {piece}");
        }
    }

    /// WR-44
    #[test]
    fn sums_of_pieces_join_to_the_sum_of_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for at in [0, 1, 63, 64, 2500, 4999, 5000] {
            let (head, tail) = bytes.split_at(at);
            let (mut sum, mut rest) = (Crc32c::default(), Crc32c::default());
            sum.update(head);
            rest.update(tail);
            sum.append(&rest);
            assert_eq!(sum.value(), crc32c(&bytes), "split at {at}");
            assert_eq!(sum.bytes(), 5000);
            // It goes on as if it had read everything itself.
            sum.update(b"more");
            assert_eq!(sum.value(), crc32c(&[&bytes, &b"more"[..]].concat()));
        }
    }
}
