//! The bytes of a record's member (ST-32), read without trust.

use bytes::Bytes;
use spotlane_store::{Failure, StoreError, StoreKey, StoreTime, StoreValue, StoreVersion};

const FORMAT_TAG: u8 = 0x01;
const ARRAY_OF_FIVE: u8 = 0x95;

/// One member of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) value: StoreValue,
    pub(crate) version: StoreVersion,
    pub(crate) expires_at: Option<StoreTime>,
    pub(crate) is_tombstone: bool,
}

impl Member {
    /// ST-6: whether it was there at this time of the server.
    pub(crate) fn is_live(&self, now: StoreTime) -> bool {
        !self.is_tombstone && self.expires_at.is_none_or(|at| now < at)
    }

    /// Reads a member of the record of `key`.
    ///
    /// # Errors
    /// Permanent, naming the key: another format tag, not five fields, a string outside the str family, text that is
    /// not UTF-8, a bound broken, another key, bytes left over.
    pub(crate) fn decode(key: &StoreKey, bytes: &Bytes) -> Result<Self, StoreError> {
        parse(key, bytes).map_err(|problem| {
            StoreError::Permanent(
                Failure::new(format!("stored record is malformed: {problem}")).at_key(key.as_str()),
            )
        })
    }
}

fn parse(key: &StoreKey, bytes: &Bytes) -> Result<Member, &'static str> {
    let mut rest = Reader {
        bytes: bytes.clone(),
    };
    if rest.byte("it is empty")? != FORMAT_TAG {
        return Err("unknown format tag");
    }
    if rest.byte("it ends after the format tag")? != ARRAY_OF_FIVE {
        return Err("not an array of five");
    }
    if rest.text("key is not a string")?.as_ref() != key.as_str().as_bytes() {
        return Err("it is the record of another key");
    }
    let value = rest.text("value is not a string")?;
    let value = StoreValue::new(value).map_err(|_| "value is longer than 1 MiB")?;
    let version = rest.text("version is not a string")?;
    let version = std::str::from_utf8(&version).map_err(|_| "version is not utf-8")?;
    let version = StoreVersion::new(version).map_err(|_| "version is empty or too long")?;
    let expiry = rest.uint()?;
    let is_tombstone = match rest.byte("it ends before the tombstone")? {
        0xc2 => false,
        0xc3 => true,
        _ => return Err("tombstone is not a boolean"),
    };
    if !rest.bytes.is_empty() {
        return Err("bytes are left over");
    }
    let expires_at = (expiry != 0).then(|| StoreTime::from_unix_millis(expiry));
    Ok(Member {
        value,
        version,
        expires_at,
        is_tombstone,
    })
}

struct Reader {
    bytes: Bytes,
}

impl Reader {
    fn byte(&mut self, problem: &'static str) -> Result<u8, &'static str> {
        Ok(*self.take(1, problem)?.first().ok_or(problem)?)
    }

    fn take(&mut self, size: usize, problem: &'static str) -> Result<Bytes, &'static str> {
        if self.bytes.len() < size {
            return Err(problem);
        }
        Ok(self.bytes.split_to(size))
    }

    fn number(&mut self, size: usize) -> Result<u64, &'static str> {
        let bytes = self.take(size, "it ends within a number")?;
        Ok(bytes
            .iter()
            .fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    /// A string of the str family; bin and everything else is refused.
    fn text(&mut self, problem: &'static str) -> Result<Bytes, &'static str> {
        let size = match self.byte(problem)? {
            tag @ 0xa0..=0xbf => u64::from(tag & 0x1f),
            0xd9 => self.number(1)?,
            0xda => self.number(2)?,
            0xdb => self.number(4)?,
            _ => return Err(problem),
        };
        let size = usize::try_from(size).map_err(|_| "a string ends after the record")?;
        self.take(size, "a string ends after the record")
    }

    fn uint(&mut self) -> Result<u64, &'static str> {
        match self.byte("it ends before the expiry")? {
            tag @ 0..=0x7f => Ok(u64::from(tag)),
            0xcc => self.number(1),
            0xcd => self.number(2),
            0xce => self.number(4),
            0xcf => self.number(8),
            _ => Err("expiry is not an unsigned number"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(key: &str, value: &[u8], version: &str, expiry: u64, is_tombstone: bool) -> Vec<u8> {
        let mut bytes = vec![FORMAT_TAG, ARRAY_OF_FIVE];
        for part in [key.as_bytes(), value, version.as_bytes()] {
            match part.len() {
                size @ 0..=31 => bytes.push(0xa0 | u8::try_from(size).unwrap()),
                size @ 32..=255 => bytes.extend([0xd9, u8::try_from(size).unwrap()]),
                size => {
                    bytes.push(0xda);
                    bytes.extend(u16::try_from(size).unwrap().to_be_bytes());
                }
            }
            bytes.extend(part);
        }
        bytes.push(0xcf);
        bytes.extend(expiry.to_be_bytes());
        bytes.push(if is_tombstone { 0xc3 } else { 0xc2 });
        bytes
    }

    proptest! {
        /// ST-32: what was written is read, every byte of it.
        #[test]
        fn members_are_read_as_written(
            key in "\\PC{1,300}",
            value in proptest::collection::vec(any::<u8>(), 0..600),
            version in "[0-9]{1,40}",
            expiry: u64,
            is_tombstone: bool,
        ) {
            let bytes = encode(&key, &value, &version, expiry, is_tombstone);
            let member = Member::decode(&StoreKey::new(&key).unwrap(), &bytes.into()).unwrap();
            prop_assert_eq!(member.value.as_bytes(), &value);
            prop_assert_eq!(member.version.as_str(), version);
            prop_assert_eq!(member.is_tombstone, is_tombstone);
            prop_assert_eq!(member.expires_at.map_or(0, StoreTime::as_unix_millis), expiry);
        }

        /// ST-32: anything else is an error and never a panic; each cut of a member is one.
        #[test]
        fn other_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80), cut in 0..25_usize) {
            let key = StoreKey::new("a").unwrap();
            drop(Member::decode(&key, &bytes.into()));
            let mut whole = encode("a", b"value", "12", 7, false);
            whole.truncate(whole.len().saturating_sub(cut + 1));
            prop_assert!(Member::decode(&key, &whole.into()).is_err());
        }
    }
}
