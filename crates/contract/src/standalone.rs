//! Values that stand alone: types by name, durable formats, and the multipart profile.

use serde_json::Value;

use crate::checksum::crc32c;
use crate::cursor::Cursor;
use crate::model::{Contract, Durable, Encoding, Shape, TypeId};
use crate::multipart;
use crate::record::at_end;
use crate::refusal::{Fault, Kind, Refusal};

/// What precedes the name of a durable format.
const DURABLE_PREFIX: &str = "durable:";
/// The pseudo type of WR-10.
pub(crate) const MULTIPART: &str = "framework-multipart";
/// Magic, version, flags and body length (WR-61).
const DURABLE_HEADER_BYTES: usize = 11;
const CHECKSUM_BYTES: usize = 4;

/// What a standalone name stands for.
enum Standalone<'a> {
    Type(TypeId),
    Durable(&'a Durable),
    Multipart(TypeId),
}

impl Contract {
    /// Every name that [`Contract::decode_type`] takes: types whose discriminators are all on the
    /// wire, `durable:<name>`, and `framework-multipart`.
    pub fn standalone_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (id, def) in self.types.iter().enumerate() {
            if self.stands_alone(id) {
                names.push(def.name.clone());
            }
        }
        names.extend(
            self.durables
                .iter()
                .map(|d| format!("{DURABLE_PREFIX}{}", d.name)),
        );
        names.extend(self.payload.map(|_| MULTIPART.to_owned()));
        names
    }

    fn stands_alone(&self, id: TypeId) -> bool {
        match self.shape(id) {
            Shape::Union(shape) => shape.discriminators.iter().all(|on| on.is_on_wire),
            _ => true,
        }
    }

    fn standalone(&self, name: &str) -> Result<Standalone<'_>, Refusal> {
        let found = if let Some(durable) = name.strip_prefix(DURABLE_PREFIX) {
            self.durables
                .iter()
                .find(|d| d.name == durable)
                .map(Standalone::Durable)
        } else if name == MULTIPART {
            self.payload.map(Standalone::Multipart)
        } else {
            let id = self
                .names
                .get(name)
                .copied()
                .filter(|id| self.stands_alone(*id));
            id.map(Standalone::Type)
        };
        found.ok_or_else(|| Refusal::new(Kind::InvalidField, name, ""))
    }

    /// Whether the root of a standalone value is a durable format, and then its body's type.
    pub(crate) fn generated_type(&self, name: &str) -> Option<TypeId> {
        match self.standalone(name).ok()? {
            Standalone::Type(id) => Some(id),
            Standalone::Durable(durable) => Some(durable.body),
            Standalone::Multipart(_) => None,
        }
    }

    /// Reads a standalone value, see [`Contract::standalone_names`].
    ///
    /// # Errors
    ///
    /// The first check that fails. An unknown name is an invalid field without a path.
    pub fn decode_type(&self, name: &str, bytes: &[u8]) -> Result<Value, Refusal> {
        let read = match self.standalone(name)? {
            Standalone::Type(id) => self.read_whole(bytes, id),
            Standalone::Durable(durable) => self.read_durable(bytes, durable),
            Standalone::Multipart(id) => self
                .read_whole(bytes, id)
                .and_then(|envelope| multipart::read(&envelope)),
        };
        read.map_err(|fault| fault.into_refusal(name, 0))
    }

    /// Writes a standalone value.
    ///
    /// # Errors
    ///
    /// The JSON form has not exactly the members and types it must have (invalid field), or the
    /// bytes would not decode to the same value again.
    pub fn encode_type(&self, name: &str, value: &Value) -> Result<Vec<u8>, Refusal> {
        let mut bytes = Vec::new();
        let written = match self.standalone(name)? {
            Standalone::Type(id) => self.write(&mut bytes, id, value, &[]),
            Standalone::Durable(durable) => self.write_durable(&mut bytes, durable, value),
            Standalone::Multipart(id) => multipart::write(value)
                .and_then(|envelope| self.write(&mut bytes, id, &envelope, &[])),
        };
        written.map_err(|fault| fault.into_refusal(name, 0))?;
        if self.decode_type(name, &bytes)? == *value {
            Ok(bytes)
        } else {
            Err(Refusal::new(Kind::InvalidField, name, ""))
        }
    }

    /// WR-61, in the order of docs/decoding.md.
    fn read_durable(&self, bytes: &[u8], durable: &Durable) -> Result<Value, Fault> {
        let header = header_of(durable);
        if let Some(wrong) = bytes
            .iter()
            .zip(header)
            .position(|(found, wanted)| *found != wanted)
        {
            let (field, start) = match wrong {
                0..4 => ("magic", 0),
                4 => ("version", 4),
                _ => ("flags", 5),
            };
            return Err(Fault::invalid(start).within(field));
        }
        let mut cursor = Cursor::new(bytes, bytes.len().min(header.len()));
        let start = cursor.at();
        let name_length = |fault: Fault| fault.within("bodyLength");
        let length = cursor.integer(Encoding::U32, start).map_err(name_length)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let body_end = cursor.at().checked_add(length);
        let Some(body_end) =
            body_end.filter(|end| *end <= bytes.len().saturating_sub(CHECKSUM_BYTES))
        else {
            return Err(name_length(Fault::truncated(start)));
        };
        let (covered, rest) = bytes.split_at(body_end);
        if rest.len() > CHECKSUM_BYTES {
            return Err(Fault::new(Kind::TrailingByte, body_end + CHECKSUM_BYTES));
        }
        if rest != crc32c(covered).to_be_bytes() {
            return Err(Fault::invalid(body_end).within("crc32c"));
        }
        let mut cursor = Cursor::new(covered, DURABLE_HEADER_BYTES);
        let slot = self.read(&mut cursor, durable.body, &[])?;
        at_end(&cursor)?;
        Ok(slot.value)
    }

    fn write_durable(
        &self,
        out: &mut Vec<u8>,
        durable: &Durable,
        value: &Value,
    ) -> Result<(), Fault> {
        let mut body = Vec::new();
        self.write(&mut body, durable.body, value, &[])?;
        let length = u32::try_from(body.len()).map_err(|_| Fault::invalid(0))?;
        out.extend(header_of(durable));
        out.extend(length.to_be_bytes());
        out.extend(body);
        out.extend(crc32c(out).to_be_bytes());
        Ok(())
    }
}

/// Magic, version 1, flags 0.
fn header_of(durable: &Durable) -> [u8; 7] {
    let [a, b, c, d] = durable.magic;
    [a, b, c, d, 1, 0, 0]
}

/// Computes the checksum of a durable value anew, so that a changed body is looked at at all.
pub(crate) fn reseal(bytes: &mut [u8]) {
    if let Some((covered, checksum)) = bytes.split_last_chunk_mut::<CHECKSUM_BYTES>() {
        *checksum = crc32c(covered).to_be_bytes();
    }
}

/// Whether the name is that of a durable format.
pub(crate) fn is_durable(name: &str) -> bool {
    name.starts_with(DURABLE_PREFIX)
}
