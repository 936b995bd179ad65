//! The ids that nodes draw when nobody gives them one (TR-12). Once drawn, no part of an id is ever
//! interpreted.

use spotlane_types::ValueError;
use spotlane_types::hex;
use spotlane_types::id::NodeRid;
use thiserror::Error;

/// The characters of a prefix.
const PREFIX_MAX: usize = 64;

/// What the id of a node begins with: 1 to 64 of `A-Z a-z 0-9 . _ -` (TR-12).
///
/// ```
/// use spotlane_mesh_proto::name::IdPrefix;
///
/// let prefix = IdPrefix::new("lobby")?;
/// let id = prefix.id([0xAB; 16])?;
/// assert_eq!(id.as_bytes(), b"lobby-abababab-abab-4bab-abab-abababababab");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdPrefix(String);

/// A text that cannot begin the id of a node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{prefix:?} is no prefix of a node id; use 1 to 64 of A-Z a-z 0-9 . _ -")]
#[expect(clippy::exhaustive_structs, reason = "says all there is")]
pub struct BadPrefix {
    /// The text.
    pub prefix: String,
}

impl IdPrefix {
    /// Takes a prefix.
    ///
    /// # Errors
    /// It is empty, too long or has another character.
    pub fn new(prefix: impl Into<String>) -> Result<Self, BadPrefix> {
        let prefix = prefix.into();
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if (1..=PREFIX_MAX).contains(&prefix.len()) && prefix.bytes().all(legal) {
            Ok(Self(prefix))
        } else {
            Err(BadPrefix { prefix })
        }
    }

    /// The id that the framework gives a node: the prefix, then a UUID of version 4 in lower case.
    ///
    /// # Errors
    /// None: the longest prefix leaves room.
    pub fn id(&self, random: [u8; 16]) -> Result<NodeRid, ValueError> {
        let mut text = self.0.clone();
        let digits = hex::encode(&version_4(random));
        for (at, digit) in digits.chars().enumerate() {
            if matches!(at, 0 | 8 | 12 | 16 | 20) {
                text.push('-');
            }
            text.push(digit);
        }
        NodeRid::new(text.as_bytes())
    }
}

/// The id of a socket that was given none: 16 random bytes in the layout of a UUID of version 4.
///
/// # Errors
/// None: 16 bytes are an id.
pub fn unnamed(random: [u8; 16]) -> Result<NodeRid, ValueError> {
    NodeRid::new(&version_4(random))
}

fn version_4(mut bytes: [u8; 16]) -> [u8; 16] {
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
    *version = (*version & 0x0F) | 0x40;
    *variant = (*variant & 0x3F) | 0x80;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-12
    #[test]
    fn a_drawn_id_is_a_prefix_and_a_uuid_of_version_4() {
        let id = IdPrefix::new("a.B_9-").unwrap().id([0xFF; 16]).unwrap();
        assert_eq!(
            id.as_bytes(),
            b"a.B_9--ffffffff-ffff-4fff-bfff-ffffffffffff"
        );
        let longest = IdPrefix::new("x".repeat(64)).unwrap().id([0; 16]).unwrap();
        let uuid = &longest.as_bytes()[65..];
        assert_eq!(uuid, b"00000000-0000-4000-8000-000000000000");
    }

    /// TR-12
    #[test]
    fn a_prefix_has_1_to_64_of_the_allowed_characters() {
        for legal in ["a", "Z", "0", ".", "_", "-", &"x".repeat(64)] {
            assert!(IdPrefix::new(legal).is_ok(), "{legal}");
        }
        for prefix in ["", "a b", "a/b", "é", "a\0", &"x".repeat(65)] {
            let prefix = prefix.to_owned();
            assert_eq!(IdPrefix::new(prefix.clone()), Err(BadPrefix { prefix }));
        }
    }

    /// TR-12
    #[test]
    fn a_socket_without_an_id_draws_sixteen_bytes() {
        let id = unnamed([0xFF; 16]).unwrap();
        let mut expected = [0xFF; 16];
        (expected[6], expected[8]) = (0x4F, 0xBF);
        assert_eq!(id.as_bytes(), expected);
    }
}
