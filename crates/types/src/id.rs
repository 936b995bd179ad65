//! One type per id.

use crate::bound;
use crate::error::{ValueError, ValueFault};
use crate::text::{bytes_type, text_type};

text_type! {
    /// Names an Actor; unique in the namespace of the Location Store.
    ActorId 1..=bound::SHORT_TEXT_BYTES;
    /// Names a Spot of any kind; entry, user and instance Spots share one space of ids.
    SpotId 1..=bound::SHORT_TEXT_BYTES;
    /// Names the holder of an owner lease: one host process.
    OwnerId 1..=bound::SHORT_TEXT_BYTES;
    /// Names a mesh: a placement attribute, never part of an object's identity.
    MeshName 1..=bound::SHORT_TEXT_BYTES;
    /// Names a channel.
    ChannelName 1..=bound::SHORT_TEXT_BYTES;
    /// Names a topic of a logical multicast.
    Topic 1..=bound::SHORT_TEXT_BYTES;
    /// Names the type of an Actor or Spot in every language; never a class name.
    StableType 1..=bound::SHORT_TEXT_BYTES;
    /// What a node presents as its identity to the security layer.
    SecurityIdentity 1..=bound::SHORT_TEXT_BYTES;
    /// Names one reservation of an object that is being created.
    ReservationId 1..=bound::SHORT_TEXT_BYTES;
    /// The version of a node descriptor as the store gave it.
    DescriptorVersion 1..=bound::SHORT_TEXT_BYTES;
    /// Names a timer of one object.
    TimerName 1..=bound::SHORT_TEXT_BYTES;
    /// Names the handler of a timer in every language.
    HandlerType 1..=bound::SHORT_TEXT_BYTES;
    /// Names the maintenance wave that a node belongs to.
    MaintenanceWave 1..=bound::SHORT_TEXT_BYTES;
    /// Names a capability of the protocol that a node announces.
    ProtocolCapability 1..=bound::SHORT_TEXT_BYTES;
    /// The key of one metadata entry.
    MetadataKey 1..=bound::SHORT_TEXT_BYTES;
    /// Names the stored intent to activate an Instance Spot. Contract: `recovery-reference`.
    RecoveryReference 1..=bound::SHORT_TEXT_BYTES;
    /// Names the message type of an application payload.
    PacketName 1..=bound::PACKET_NAME_BYTES;
    /// The media type of an application payload.
    ContentType 1..=bound::CONTENT_TYPE_BYTES;
    /// The address that a node advertises to its peers.
    Endpoint 1..=bound::ENDPOINT_BYTES;
    /// The opaque version of a store record: a token to compare, nothing else.
    StoreVersion 1..=bound::AUTHORITY_STORE_VERSION_BYTES;
    /// Names the stored content of a creation request.
    CreationContentReference 1..=bound::CREATION_CONTENT_REFERENCE_BYTES;
    /// Names a stored root or chunk of a relocation.
    RelocationReference 1..=bound::RELOCATION_REFERENCE_BYTES;
}

bytes_type! {
    /// The routing id of a node in its mesh. Opaque bytes.
    NodeRid 1..=bound::RID_BYTES;
    /// The routing id of a client session at its session owner. Opaque bytes.
    SessionRid 1..=bound::RID_BYTES;
    /// The routing id of a server of a client-server channel. Opaque bytes.
    ServerRid 1..=bound::RID_BYTES;
}

macro_rules! wide_id {
    ($($(#[$meta:meta])* $name:ident;)+) => {$(
        $(#[$meta])*
        ///
        /// 128 bits, sent as two words of which at least one is not zero.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            high: u64,
            low: u64,
        }

        impl $name {
            /// Joins the two words.
            ///
            /// # Errors
            /// Both words are zero, which never names anything.
            #[inline]
            pub const fn new(high: u64, low: u64) -> Result<Self, ValueError> {
                if high == 0 && low == 0 {
                    return Err(ValueError::new(stringify!($name), ValueFault::Zero));
                }
                Ok(Self { high, low })
            }

            /// The more significant word.
            #[inline]
            pub const fn high(self) -> u64 {
                self.high
            }

            /// The less significant word.
            #[inline]
            pub const fn low(self) -> u64 {
                self.low
            }
        }

        impl core::fmt::Display for $name {
            /// 32 lower-case hex digits, the form that stored references use.
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{:016x}{:016x}", self.high, self.low)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    )+};
}

wide_id! {
    /// Names one move of one unit (RL-5).
    RelocationId;
    /// Names one operation of one run of its source; what deduplicates a repeated message.
    OperationId;
    /// Names one aggregate of a `SpotWide` unit.
    AggregateId;
}

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// Takes the 32 bytes of a digest.
    pub const fn new(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl core::fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Sha256(")?;
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RL-1
    #[test]
    fn a_text_id_refuses_what_the_contract_refuses() {
        assert!(matches!(
            ActorId::new("").unwrap_err().fault(),
            ValueFault::Length {
                bytes: 0,
                min: 1,
                max: 255
            }
        ));
        assert!(ActorId::new(&"a".repeat(255)).is_ok());
        assert_eq!(
            ActorId::new(&"a".repeat(256)).unwrap_err().to_string(),
            "ActorId: 256 bytes are outside 1 to 255 bytes"
        );
        assert!(matches!(
            ActorId::new("a\0b").unwrap_err().fault(),
            ValueFault::Nul { at: 1 }
        ));
        assert!(matches!(
            ActorId::from_bytes(b"ab\xff").unwrap_err().fault(),
            ValueFault::NotUtf8 { valid_up_to: 2 }
        ));
    }

    /// RL-1
    #[test]
    fn ids_are_compared_by_byte_without_normalisation() {
        let composed = ActorId::new("\u{e9}").unwrap();
        let decomposed = ActorId::new("e\u{301}").unwrap();
        assert_ne!(composed, decomposed);
        assert_ne!(ActorId::new("a").unwrap(), ActorId::new("A").unwrap());
    }

    #[test]
    fn non_ascii_text_is_accepted_wherever_the_length_allows_it() {
        let text = "\u{1F680}".repeat(60);
        let id = SpotId::new(&text).unwrap();
        assert_eq!(id.as_str(), text);
        assert_eq!(format!("{id}"), text);
    }

    #[test]
    fn a_prefix_is_judged_by_length_before_the_input_is() {
        assert!(ActorId::borrow_prefix(b"abc", 0).is_err());
        assert_eq!(ActorId::borrow_prefix(b"abc", 4).unwrap(), None);
        let found = ActorId::borrow_prefix(b"abc", 2).unwrap().unwrap();
        assert_eq!(ActorId::from_borrowed(found), ActorId::new("ab").unwrap());
    }

    /// RL-1
    #[test]
    fn a_bad_byte_is_found_wherever_it_stands() {
        for len in 1..=40 {
            for at in 0..len {
                for bad in [0x00, 0x80, 0xFF] {
                    let mut text = vec![b'a'; len];
                    assert!(ActorId::from_bytes(&text).is_ok());
                    text[at] = bad;
                    assert!(
                        ActorId::from_bytes(&text).is_err(),
                        "{bad:#x} at {at} of {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_wide_id_needs_one_word_that_is_not_zero() {
        assert!(RelocationId::new(0, 0).is_err());
        let id = RelocationId::new(1, 0).unwrap();
        assert_eq!(id.to_string(), "00000000000000010000000000000000");
    }
}
