//! How the fields of a row stand in JSON: generations, revisions and times as decimal strings, routing ids and digests
//! as lower-case hex, payloads as base64, members of closed enumerations by their contract name (ST-50).

use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
use spotlane_types::count::ApplicationVersion;
use spotlane_types::generation::{
    AuthorityOwnerGeneration, DescriptorRevision, NodeGeneration, ObjectGeneration,
    OwnerLeaseGeneration,
};
use spotlane_types::time::UnixMillis;

/// The greatest number that a counter ever issues; one more marks an exhausted counter (ST-52).
pub(crate) const ISSUED_MAX: u64 = spotlane_types::bound::GENERATION_MAX.saturating_sub(1);

/// The number of a decimal text without sign and leading zero, and of nothing else.
pub(crate) fn canonical_decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let leading_zero = text.len() > 1 && text.starts_with('0');
    (digits && !leading_zero)
        .then(|| text.parse().ok())
        .flatten()
}

/// A number that stands as string.
pub(crate) trait Decimal: Copy {
    fn number(self) -> u64;
    fn of(number: u64) -> Option<Self>;
}

macro_rules! decimal {
    ($($name:ident $most:expr;)+) => {$(
        impl Decimal for $name {
            fn number(self) -> u64 {
                self.get()
            }

            fn of(number: u64) -> Option<Self> {
                Self::new(number).ok().filter(|_| number <= $most)
            }
        }
    )+};
}

decimal! {
    ObjectGeneration ISSUED_MAX;
    AuthorityOwnerGeneration ISSUED_MAX;
    OwnerLeaseGeneration ISSUED_MAX;
    NodeGeneration u64::MAX;
    DescriptorRevision u64::MAX;
    UnixMillis u64::MAX;
}

impl Decimal for ApplicationVersion {
    fn number(self) -> u64 {
        self.get().unsigned_abs()
    }

    fn of(number: u64) -> Option<Self> {
        i64::try_from(number).ok().and_then(|n| Self::new(n).ok())
    }
}

pub(crate) mod decimal {
    use super::*;

    pub(crate) fn serialize<T: Decimal, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&value.number())
    }

    pub(crate) fn deserialize<'de, T: Decimal, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
        let text = String::deserialize(d)?;
        canonical_decimal(&text)
            .and_then(T::of)
            .ok_or_else(|| D::Error::custom("expected a number of its range as decimal string"))
    }
}

/// A decimal string or null.
pub(crate) mod decimal_or_null {
    use super::*;

    pub(crate) fn serialize<T: Decimal, S: Serializer>(
        value: &Option<T>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => s.collect_str(&value.number()),
            None => s.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T: Decimal, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<T>, D::Error> {
        let Some(text) = Option::<String>::deserialize(d)? else {
            return Ok(None);
        };
        canonical_decimal(&text)
            .and_then(T::of)
            .map(Some)
            .ok_or_else(|| D::Error::custom("expected a number of its range as decimal string"))
    }
}

/// A text type of the vocabulary.
pub(crate) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(d: D) -> Result<T, D::Error>
    where
        T: FromStr,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

/// A text or null.
pub(crate) mod text_or_null {
    use std::fmt::Display;
    use std::str::FromStr;

    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => s.collect_str(value),
            None => s.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T, D>(d: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        Option::<String>::deserialize(d)?
            .map(|text| text.parse().map_err(D::Error::custom))
            .transpose()
    }
}

/// Bytes as lower-case hex.
pub(crate) mod hex {
    use spotlane_types::id::{NodeRid, Sha256};

    use super::*;

    pub(crate) trait Hex: Sized {
        fn bytes(&self) -> &[u8];
        fn of(bytes: &[u8]) -> Option<Self>;
    }

    impl Hex for NodeRid {
        fn bytes(&self) -> &[u8] {
            self.as_bytes()
        }

        fn of(bytes: &[u8]) -> Option<Self> {
            Self::new(bytes).ok()
        }
    }

    impl Hex for Sha256 {
        fn bytes(&self) -> &[u8] {
            self.as_bytes()
        }

        fn of(bytes: &[u8]) -> Option<Self> {
            bytes.try_into().ok().map(Self::new)
        }
    }

    pub(crate) fn serialize<T: Hex, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&spotlane_types::hex::encode(value.bytes()))
    }

    pub(crate) fn deserialize<'de, T: Hex, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
        let text = String::deserialize(d)?;
        spotlane_types::hex::decode(&text)
            .and_then(|bytes| T::of(&bytes))
            .ok_or_else(|| D::Error::custom("expected bytes of its length as lower-case hex"))
    }
}

/// Bytes as base64 with padding.
pub(crate) mod base64 {
    use ::base64::Engine as _;
    use ::base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;

    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Bytes, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&STANDARD.encode(value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(d)?;
        STANDARD
            .decode(text)
            .map(Bytes::from)
            .map_err(D::Error::custom)
    }
}

/// A member of a closed enumeration by its contract name.
pub(crate) mod named {
    use spotlane_types::kind::{
        AuthorityObjectKind, ObjectRole, RelocationPolicyKind, RuntimeState, StatefulObjectKind,
    };

    use super::*;

    pub(crate) trait Named: Copy {
        fn text(self) -> &'static str;
        fn of(text: &str) -> Option<Self>;
    }

    macro_rules! named {
        ($($name:ident)+) => {$(
            impl Named for $name {
                fn text(self) -> &'static str {
                    self.name()
                }

                fn of(text: &str) -> Option<Self> {
                    Self::from_name(text)
                }
            }
        )+};
    }

    named!(AuthorityObjectKind ObjectRole RelocationPolicyKind RuntimeState StatefulObjectKind);

    pub(crate) fn serialize<T: Named, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(value.text())
    }

    pub(crate) fn deserialize<'de, T: Named, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
        let text = String::deserialize(d)?;
        T::of(&text).ok_or_else(|| D::Error::custom("expected a name of its enumeration"))
    }
}

/// A relocation id as 32 lower-case hex digits.
pub(crate) mod relocation_id {
    use spotlane_types::id::RelocationId;

    use super::*;

    pub(crate) fn parse(text: &str) -> Option<RelocationId> {
        let bytes: [u8; 16] = spotlane_types::hex::decode(text)?.try_into().ok()?;
        let number = u128::from_be_bytes(bytes);
        let high = u64::try_from(number >> 64).ok()?;
        let low = u64::try_from(number & u128::from(u64::MAX)).ok()?;
        RelocationId::new(high, low).ok()
    }

    pub(crate) fn serialize<S: Serializer>(value: &RelocationId, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(value)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<RelocationId, D::Error> {
        let text = String::deserialize(d)?;
        parse(&text).ok_or_else(|| D::Error::custom("expected a relocation id as 32 hex digits"))
    }
}
