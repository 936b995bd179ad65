//! The only source of chance: ids, generations, and the spread of pauses.

use ring::rand::{SecureRandom, SystemRandom};
use spotlane_types::bound::GENERATION_MAX;

fn fill<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The system's source fails only where no process could start; a fixed value would be found as a conflict.
    let filled = SystemRandom::new().fill(&mut bytes);
    debug_assert!(filled.is_ok(), "the system has no source of random numbers");
    bytes
}

/// What an id of a node is drawn from (TR-12).
pub(crate) fn id_bytes() -> [u8; 16] {
    fill()
}

/// Any number.
pub(crate) fn u64() -> u64 {
    u64::from_be_bytes(fill())
}

/// A number that a generation or an id may have: 1 to 2^63 - 1.
pub(crate) fn positive() -> u64 {
    (u64() % GENERATION_MAX).saturating_add(1)
}

/// A UUID of version 4 in lower case (RL-30).
pub(crate) fn uuid() -> String {
    let mut bytes: [u8; 16] = fill();
    bytes[6] = (bytes[6] & 0x0F) | 0x40;
    bytes[8] = (bytes[8] & 0x3F) | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 0x0F] {
            text.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RL-30
    #[test]
    fn a_uuid_has_its_form_and_is_never_twice_the_same() {
        let (one, other) = (uuid(), uuid());
        assert_ne!(one, other);
        assert_eq!(one.len(), 36);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(positive() > 0);
    }
}
