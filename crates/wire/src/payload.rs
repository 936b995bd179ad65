//! What an application sends: metadata, and a payload in its envelope.

use bytes::Bytes;
use spotlane_types::bound::{COMPLETE_MESSAGE_BYTES, METADATA_BYTES};
use spotlane_types::id::{ContentType, MetadataKey, PacketName};
use spotlane_types::text::{MetadataValue, check_text};

use crate::blob::PayloadBytes;
use crate::error::{DecodeError, EncodeError, Reason};
#[cfg(feature = "serde")]
use crate::json::{self, JsonError, Node};
use crate::layout::{Layout, read_version, standalone, wire_envelope, wire_struct};
use crate::reader::{Read, Reader};
use crate::width::wide;
use crate::writer::{Writer, Written};

wire_envelope! {
    /// An application's payload with the name of its type.
    "application-payload-envelope-v1" envelope ApplicationPayload len u32 max COMPLETE_MESSAGE_BYTES, {
        /// The type of the message.
        packet_name: PacketName = "packetName",
        /// The media type of the payload.
        content_type: ContentType = "contentType",
        /// The payload itself, at most 4,294,966,774 bytes.
        payload: PayloadBytes = "payload",
    }
}

wire_struct! {
    /// One entry of a metadata frame.
    "metadata-entry" struct MetadataEntry {
        /// Unique within its frame.
        key: MetadataKey = "key",
        /// May be empty.
        value: MetadataValue = "value",
    }
}

/// The metadata of a message: unique keys with values, at most 1,024 encoded bytes (WR-9).
///
/// Kept as the bytes in which it came, because it travels unchanged when a record is relayed or
/// frozen. The order of the entries is the sender's.
///
/// Contract: `metadata-frame`.
///
/// ```
/// use spotlane_wire::payload::{MetadataEntry, MetadataFrame};
///
/// let frame = MetadataFrame::new(&[MetadataEntry { key: "trace".parse()?, value: "7f".parse()? }])?;
/// assert_eq!(frame.get("trace"), Some("7f"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataFrame(Bytes);

impl MetadataFrame {
    /// Encodes entries in the given order.
    ///
    /// # Errors
    /// A key occurs twice, there are more than 255 entries, or they take more than 1,024 bytes.
    pub fn new(entries: &[MetadataEntry]) -> Result<Self, EncodeError> {
        let mut buf = Vec::new();
        let mut w = Writer::joined(&mut buf, 0);
        w.u8(1);
        let too_many = |_| crate::writer::too_long(entries.len(), 255);
        w.u8(u8::try_from(entries.len()).map_err(too_many)?);
        for (index, entry) in entries.iter().enumerate() {
            let earlier = entries.get(..index).unwrap_or_default();
            if earlier.iter().any(|other| other.key == entry.key) {
                let error = EncodeError::new(Reason::Text(KEY_TWICE)).within("key");
                return Err(error.at_element(index));
            }
            entry.write(&mut w)?;
        }
        let end = w.at();
        if end > METADATA_BYTES {
            return Err(crate::writer::too_long(end, wide(METADATA_BYTES)));
        }
        buf.truncate(end);
        Ok(Self(Bytes::from(buf)))
    }

    /// Takes a frame that was judged by [`Self::check`].
    pub(crate) const fn from_checked(frame: Bytes) -> Self {
        Self(frame)
    }

    /// Checks a frame at the cursor and allocates nothing.
    pub(crate) fn check(r: &mut Reader<'_>) -> Read<Bytes> {
        let start = r.offset();
        read_version(r)?;
        let count_at = r.offset();
        let count = usize::from(r.u8()?);
        r.count(count_at, count, MetadataEntry::MIN)?;
        let entries_at = r.offset();
        for index in 0..count {
            let at = r.offset();
            let read = read_entry(r).map_err(|e| e.at_element(index));
            let before = RawEntries(r.bytes_since(entries_at)).take(index);
            match read {
                Ok(key) if index < FEW && before.clone().any(|(other, _)| other == key) => {
                    return Err(key_twice(at, index));
                }
                Ok(_) => {}
                // A repeated key comes before what is wrong behind it.
                Err(error) => return Err(first_repeat(before, entries_at).unwrap_or(error)),
            }
        }
        if count > FEW {
            let entries = RawEntries(r.bytes_since(entries_at)).take(count);
            first_repeat(entries, entries_at).map_or(Ok(()), Err)?;
        }
        let frame = r.since(start);
        if frame.len() > METADATA_BYTES {
            let reason = Reason::Above {
                bound: wide(METADATA_BYTES),
                actual: wide(frame.len()),
            };
            return Err(Reader::invalid(start, reason));
        }
        Ok(frame)
    }

    /// The encoded frame.
    pub const fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Keys and values in the order in which they came.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        // The text was checked when the frame was read or made.
        let text = |bytes| core::str::from_utf8(bytes).unwrap_or_default();
        RawEntries(self.0.get(2..).unwrap_or_default())
            .map(move |(key, value)| (text(key), text(value)))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries()
            .find_map(|(found, value)| (found == key).then_some(value))
    }
}

const KEY_TWICE: &str = "the key occurs twice";

/// So many keys are compared one by one; with more, sorting them is faster.
const FEW: usize = 8;

#[cold]
fn key_twice(at: usize, index: usize) -> DecodeError {
    let error = Reader::invalid(at, Reason::Text(KEY_TWICE)).within("key");
    error.at_element(index)
}

/// The first entry whose key an entry before it has, in `n log n` steps: a peer chooses the keys.
#[cold]
fn first_repeat<'a>(
    entries: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    entries_at: usize,
) -> Option<DecodeError> {
    let mut sorted = [(&[][..], 0_usize); 255];
    let mut count = 0_usize;
    for (place, (index, (key, _))) in sorted.iter_mut().zip(entries.clone().enumerate()) {
        *place = (key, index);
        count = index.saturating_add(1);
    }
    let keys = sorted.get_mut(..count)?;
    keys.sort_unstable();
    let repeats = keys.windows(2).filter_map(|pair| match pair {
        [(key, _), (same, index)] if key == same => Some(*index),
        _ => None,
    });
    let index = repeats.min()?;
    let before = entries
        .take(index)
        .map(|(key, value)| key.len().saturating_add(value.len()));
    // Both lengths of an entry take three bytes.
    let bytes = before.fold(0_usize, |sum, len| {
        sum.saturating_add(len).saturating_add(3)
    });
    Some(key_twice(entries_at.saturating_add(bytes), index))
}

/// Walks over entries that were already checked.
#[derive(Clone)]
struct RawEntries<'a>(&'a [u8]);

impl<'a> Iterator for RawEntries<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (len, rest) = self.0.split_first()?;
        let (key, rest) = rest.split_at_checked(usize::from(*len))?;
        let (len, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        self.0 = rest;
        Some((key, value))
    }
}

/// Reads one entry as slices of the input and allocates nothing.
fn read_entry<'a>(r: &mut Reader<'a>) -> Read<&'a [u8]> {
    let key = (|| {
        let at = r.offset();
        let len = usize::from(r.u8()?);
        let bounds = (MetadataKey::BYTES_MIN, MetadataKey::BYTES_MAX);
        r.text(at, len, bounds, |text| check_text("MetadataKey", text))
    })();
    let key = key.map_err(|e| e.within("key"))?;
    let value = (|| {
        let at = r.offset();
        let len = usize::from(r.u16()?);
        let bounds = (MetadataValue::BYTES_MIN, MetadataValue::BYTES_MAX);
        r.text(at, len, bounds, |text| check_text("MetadataValue", text))
    })();
    value.map_err(|e| e.within("value"))?;
    Ok(key)
}

impl Layout for MetadataFrame {
    const MIN: usize = 2;

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        Self::check(r).map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        w.put(&self.0);
        Ok(())
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        let entry = |(key, value): (&str, &str)| {
            json::object(|m| {
                m.push("key", Node::Text(key.to_owned()));
                m.push("value", Node::Text(value.to_owned()));
            })
        };
        Node::List(self.entries().map(entry).collect())
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        let entries = json::read_list::<MetadataEntry>(node)?;
        Self::new(&entries).map_err(|e| JsonError::new(e.to_string()))
    }
}

standalone!("metadata-frame", MetadataFrame);
#[cfg(feature = "serde")]
json::serde_form!(MetadataFrame);
