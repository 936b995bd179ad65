//! CRC-32C: Castagnoli, reflected, initial and final xor `0xFFFFFFFF` (WR-44).

/// The checksum of `bytes`.
///
/// ```
/// assert_eq!(spotlane_wire::checksum::crc32c(b"123456789"), 0xE306_9283);
/// ```
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crc32c(u32);

impl Crc32c {
    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = ::crc32c::crc32c_append(self.0, bytes);
    }

    /// The checksum of everything so far; 0 for nothing.
    pub const fn value(self) -> u32 {
        self.0
    }
}
