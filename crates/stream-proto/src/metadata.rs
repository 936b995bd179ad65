//! The metadata of a packet (section 3 of the stream contract).

use bytes::{BufMut, Bytes, BytesMut};

use crate::bound::{METADATA_BYTES_SENT_MAX, RESERVED_PREFIX};
use crate::error::HeaderFault;
use crate::name::ValueError;

/// Keys and values of a packet, kept as the bytes in which they travel.
///
/// ```
/// use spotlane_stream_proto::Metadata;
///
/// let metadata = Metadata::new(&[("locale", "ko-KR")])?;
/// assert_eq!(metadata.get("locale"), Some("ko-KR"));
/// # Ok::<(), spotlane_stream_proto::ValueError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Metadata(Bytes);

impl Metadata {
    /// Makes a block to send (ST-115, ST-116).
    ///
    /// # Errors
    /// A key is empty, too long, given twice, the framework's, or has a character other than printable
    /// ASCII without `=`; or the block has more than 1,024 bytes.
    pub fn new(entries: &[(&str, &str)]) -> Result<Self, ValueError> {
        for (index, (key, _)) in entries.iter().enumerate() {
            check_key(key)?;
            let earlier = entries.get(..index).unwrap_or_default();
            if earlier.iter().any(|(other, _)| other == key) {
                let key = (*key).to_owned();
                return Err(ValueError::KeyTwice { key });
            }
        }
        let bytes = entries
            .iter()
            .map(|(key, value)| key.len().saturating_add(value.len()).saturating_add(3))
            .fold(1_usize, usize::saturating_add);
        let max = METADATA_BYTES_SENT_MAX;
        // Within the bound every count and length fits its field.
        let count = u8::try_from(entries.len()).ok().filter(|_| bytes <= max);
        let Some(count) = count else {
            return Err(ValueError::MetadataTooLong { bytes, max });
        };
        let mut block = BytesMut::with_capacity(bytes);
        block.put_u8(count);
        for (key, value) in entries {
            block.put_u8(u8::try_from(key.len()).unwrap_or(u8::MAX));
            block.put_slice(key.as_bytes());
            block.put_u16(u16::try_from(value.len()).unwrap_or(u16::MAX));
            block.put_slice(value.as_bytes());
        }
        Ok(Self(block.freeze()))
    }

    /// ST-114: everything that is wrong with a received block; `None` when it has no entries (ST-112).
    pub(crate) fn received(block: Bytes) -> Result<Option<Self>, HeaderFault> {
        let (count, mut rest) = block.split_first().ok_or(HeaderFault::MetadataEmpty)?;
        let mut keys = Vec::new();
        for _ in 0..*count {
            let (key, value, tail) = entry(rest).ok_or(HeaderFault::MetadataCut)?;
            if key.is_empty() {
                return Err(HeaderFault::MetadataKeyEmpty);
            }
            let text = core::str::from_utf8(key).and_then(|_| core::str::from_utf8(value));
            text.map_err(|_| HeaderFault::NotUtf8 { field: "metadata" })?;
            keys.push(key);
            rest = tail;
        }
        if !rest.is_empty() {
            return Err(HeaderFault::MetadataSurplus);
        }
        keys.sort_unstable();
        if keys.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
            return Err(HeaderFault::MetadataKeyTwice);
        }
        Ok((!keys.is_empty()).then_some(Self(block)))
    }

    /// The block as it travels.
    pub const fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Keys and values in their order, those of the framework included.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = |bytes| core::str::from_utf8(bytes).unwrap_or_default();
        Entries(self.0.get(1..).unwrap_or_default())
            .map(move |(key, value)| (text(key), text(value)))
    }

    /// What an application may see (ST-116).
    pub fn application_entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries()
            .filter(|(key, _)| !key.starts_with(RESERVED_PREFIX))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries()
            .find_map(|(found, value)| (found == key).then_some(value))
    }
}

impl core::fmt::Debug for Metadata {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_map().entries(self.entries()).finish()
    }
}

fn check_key(key: &str) -> Result<(), ValueError> {
    let what = "metadata key";
    if key.is_empty() || key.len() > usize::from(u8::MAX) {
        let (bytes, max) = (key.len(), usize::from(u8::MAX));
        return Err(ValueError::Length { what, bytes, max });
    }
    if key.starts_with(RESERVED_PREFIX) {
        return Err(ValueError::Reserved { what });
    }
    let printable = |byte: u8| (0x20..=0x7e).contains(&byte) && byte != b'=';
    if !key.bytes().all(printable) {
        let except = " without =";
        return Err(ValueError::Character { what, except });
    }
    Ok(())
}

fn entry(block: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (len, rest) = block.split_first()?;
    let (key, rest) = rest.split_at_checked(usize::from(*len))?;
    let (len, rest) = rest.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    Some((key, value, rest))
}

/// Walks over entries that were checked.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value, rest) = entry(self.0)?;
        self.0 = rest;
        Some((key, value))
    }
}
