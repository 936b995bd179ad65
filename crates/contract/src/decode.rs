//! Reads one value of a type, field by field in the order of docs/decoding.md.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::cursor::Cursor;
use crate::model::{
    BlobShape, Condition, Contract, Encoding, EnvelopeShape, Field, Fields, ListShape, Shape,
    Source, TlvEntry, TlvShape, TypeId, UnionShape,
};
use crate::refusal::{Fault, Kind};
use crate::value::{enum_to_json, number_to_json, to_hex};

/// What a body may depend on besides its own bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Env {
    pub(crate) flags: u8,
    /// Number of the pending operation's kind.
    pub(crate) pending: u64,
}

/// A value and what conditions look at, see [`Contract::scalar`].
pub(crate) struct Slot {
    pub(crate) value: Value,
    pub(crate) scalar: u64,
}

type Read<T> = Result<T, Fault>;

/// The values of the discriminators that are not on the wire.
pub(crate) fn outer_discriminators(field: &Field, scalars: &[u64], env: Env) -> Vec<u64> {
    let resolve = |source: &Source| match source {
        Source::Field(index) => scalars[*index],
        Source::Pending => env.pending,
    };
    field.sources.iter().map(resolve).collect()
}

/// Whether a field is present, given the scalars of the fields before it.
pub(crate) fn is_present(field: &Field, scalars: &[u64], env: Env) -> bool {
    match field.condition {
        None => true,
        Some(Condition::Equals(index, value)) => scalars[index] == value,
        Some(Condition::Present(index)) => scalars[index] > 0,
        Some(Condition::Flags(bits)) => env.flags & bits == bits,
    }
}

impl Contract {
    /// Reads a value. `outer` holds the discriminators of a union that are not on the wire.
    pub(crate) fn read(&self, cursor: &mut Cursor<'_>, id: TypeId, outer: &[u64]) -> Read<Slot> {
        let start = cursor.at();
        match self.shape(id) {
            Shape::Int(shape) => {
                let scalar = cursor.integer(shape.encoding, start)?;
                if scalar < shape.min || scalar > shape.max {
                    return Err(Fault::invalid(start));
                }
                Ok(Slot {
                    value: number_to_json(shape.encoding, scalar),
                    scalar,
                })
            }
            Shape::Enum(shape) => {
                let scalar = cursor.integer(shape.encoding, start)?;
                let known = shape
                    .name_of(scalar)
                    .and_then(|_| enum_to_json(shape, scalar));
                Ok(Slot {
                    value: known.ok_or_else(|| Fault::invalid(start))?,
                    scalar,
                })
            }
            Shape::Blob(shape) => read_blob(cursor, shape),
            Shape::Fixed(size) => {
                let value = Value::String(to_hex(cursor.take(*size, start)?));
                Ok(Slot { value, scalar: 0 })
            }
            Shape::Struct(fields) => {
                let mut map = Map::new();
                self.read_fields(cursor, fields, Env::default(), &mut map)?;
                Ok(Slot {
                    value: Value::Object(map),
                    scalar: 0,
                })
            }
            Shape::Union(shape) => self.read_union(cursor, shape, outer),
            Shape::Envelope(shape) => self.read_envelope(cursor, shape),
            Shape::List(shape) => self.read_list(cursor, shape),
            Shape::Tlv(shape) => self.read_tlv(cursor, shape),
        }
    }

    /// Reads fields into `map` and checks their rules.
    pub(crate) fn read_fields(
        &self,
        cursor: &mut Cursor<'_>,
        fields: &Fields,
        env: Env,
        map: &mut Map<String, Value>,
    ) -> Read<()> {
        let mut scalars = Vec::with_capacity(fields.fields.len());
        let mut starts = Vec::with_capacity(fields.fields.len());
        for field in &fields.fields {
            starts.push(cursor.at());
            if !is_present(field, &scalars, env) {
                scalars.push(0);
                continue;
            }
            let outer = outer_discriminators(field, &scalars, env);
            let slot = self.read_field(cursor, field, &outer);
            let slot = slot.map_err(|fault| fault.within(&field.name))?;
            scalars.push(slot.scalar);
            map.insert(field.name.clone(), slot.value);
        }
        for rule in &fields.rules {
            if let Err(name) = rule.check(map, false) {
                let index = fields.fields.iter().position(|field| field.name == name);
                let start = index.and_then(|index| starts.get(index)).copied();
                return Err(Fault::invalid(start.unwrap_or_else(|| cursor.at())).within(name));
            }
        }
        Ok(())
    }

    fn read_field(&self, cursor: &mut Cursor<'_>, field: &Field, outer: &[u64]) -> Read<Slot> {
        let start = cursor.at();
        if field.waives_rules
            && let Shape::Struct(fields) = self.shape(field.type_id)
        {
            let mut map = Map::new();
            for inner in &fields.fields {
                let slot = self.read_field(cursor, inner, &[]);
                let slot = slot.map_err(|fault| fault.within(&inner.name))?;
                map.insert(inner.name.clone(), slot.value);
            }
            return Ok(Slot {
                value: Value::Object(map),
                scalar: 0,
            });
        }
        let slot = self.read(cursor, field.type_id, outer)?;
        let fits_range = field
            .range
            .is_none_or(|(min, max)| (min..=max).contains(&slot.scalar));
        let fits_constant = field
            .constant
            .is_none_or(|constant| constant == slot.scalar);
        if fits_range && fits_constant {
            Ok(slot)
        } else {
            Err(Fault::invalid(start))
        }
    }

    fn read_union(&self, cursor: &mut Cursor<'_>, shape: &UnionShape, outer: &[u64]) -> Read<Slot> {
        let start = cursor.at();
        let mut map = Map::new();
        let mut outer = outer.iter();
        let mut values = Vec::with_capacity(shape.discriminators.len());
        for discriminator in &shape.discriminators {
            if discriminator.is_on_wire {
                let slot = self.read(cursor, discriminator.type_id, &[]);
                let slot = slot.map_err(|fault| fault.within(&discriminator.name))?;
                map.insert(discriminator.name.clone(), slot.value);
                values.push(slot.scalar);
            } else {
                values.push(outer.next().copied().unwrap_or_default());
            }
        }
        let Some(case) = shape.case(&values) else {
            return Err(Fault::invalid(start));
        };
        let part = Part::open(cursor, shape.prefix, u64::MAX)?;
        self.read_fields(cursor, &case.fields, Env::default(), &mut map)?;
        part.close(cursor)?;
        Ok(Slot {
            value: Value::Object(map),
            scalar: 0,
        })
    }

    fn read_envelope(&self, cursor: &mut Cursor<'_>, shape: &EnvelopeShape) -> Read<Slot> {
        read_version(cursor)?;
        let part = Part::open(cursor, Some(shape.prefix), shape.max)?;
        let mut map = Map::new();
        self.read_fields(cursor, &shape.fields, Env::default(), &mut map)?;
        part.close(cursor)?;
        Ok(Slot {
            value: Value::Object(map),
            scalar: 0,
        })
    }

    fn read_list(&self, cursor: &mut Cursor<'_>, shape: &ListShape) -> Read<Slot> {
        let whole = cursor.at();
        if shape.is_envelope {
            read_version(cursor)?;
        }
        let start = cursor.at();
        let count = cursor.integer(shape.count, start)?;
        if !shape.is_envelope && count > shape.max {
            return Err(Fault::invalid(start));
        }
        // WR-4 speaks of every count, so that of an envelope list is held to it as well.
        let least = self.type_def(shape.element).least.max(1);
        if usize::try_from(count).is_ok_and(|count| count > cursor.remaining() / least) {
            return Err(Fault::truncated(start));
        }
        let mut elements = Vec::new();
        let mut seen = BTreeSet::new();
        let mut previous = None;
        for index in 0..count {
            let start = cursor.at();
            let slot = self.read(cursor, shape.element, &[]);
            let slot = slot.map_err(|fault| fault.within(&index.to_string()))?;
            if !shape.keys.is_empty() {
                let key = self.key_of(shape, &slot.value);
                let is_misplaced =
                    shape.is_sorted && previous.as_ref().is_some_and(|previous| *previous > key);
                let is_repeated = shape.is_unique
                    && (previous.as_ref() == Some(&key)
                        || (!shape.is_sorted && seen.contains(&key)));
                if is_misplaced || is_repeated {
                    return Err(Fault::invalid(start).within(&index.to_string()));
                }
                if let Some(before) = previous.replace(key) {
                    seen.insert(before);
                }
            }
            elements.push(slot.value);
        }
        let bytes = u64::try_from(cursor.at() - whole).unwrap_or(u64::MAX);
        if shape.is_envelope && bytes > shape.max {
            return Err(Fault::invalid(whole));
        }
        Ok(Slot {
            value: Value::Array(elements),
            scalar: 0,
        })
    }

    fn read_tlv(&self, cursor: &mut Cursor<'_>, shape: &TlvShape) -> Read<Slot> {
        let part = Part::open(cursor, Some(shape.total), shape.max)?;
        let mut map = Map::new();
        let mut last = None;
        while !part.is_full(cursor) {
            let start = cursor.at();
            if cursor.remaining() == 0 {
                // The frame ends between two entries: only the total is wrong when nothing that
                // must be there is missing (WR-5).
                let fault = match missing_entry(shape, &map) {
                    None => Fault::invalid(part.start),
                    Some(entry) => Fault::truncated(start).within(&entry.field.name),
                };
                return Err(fault);
            }
            let id = cursor.integer(shape.id, start)?;
            if last.is_some_and(|last| id <= last) {
                return Err(Fault::invalid(start));
            }
            last = Some(id);
            if let Some(entry) = shape.entries.iter().find(|entry| entry.id == id) {
                let name = &entry.field.name;
                let value = self.read_entry(cursor, shape, entry);
                map.insert(name.clone(), value.map_err(|fault| fault.within(name))?);
            } else {
                let start = cursor.at();
                let length = cursor.integer(shape.length, start)?;
                cursor.take(usize::try_from(length).unwrap_or(usize::MAX), start)?;
            }
        }
        part.close(cursor)?;
        if let Some(entry) = missing_entry(shape, &map) {
            return Err(Fault::invalid(part.start).within(&entry.field.name));
        }
        Ok(Slot {
            value: Value::Object(map),
            scalar: 0,
        })
    }

    fn read_entry(
        &self,
        cursor: &mut Cursor<'_>,
        shape: &TlvShape,
        entry: &TlvEntry,
    ) -> Read<Value> {
        let part = Part::open(cursor, Some(shape.length), u64::MAX)?;
        let slot = self.read_field(cursor, &entry.field, &[])?;
        part.close(cursor)?;
        Ok(slot.value)
    }
}

fn missing_entry<'a>(shape: &'a TlvShape, map: &Map<String, Value>) -> Option<&'a TlvEntry> {
    shape
        .entries
        .iter()
        .find(|entry| entry.is_required && !map.contains_key(&entry.field.name))
}

fn read_version(cursor: &mut Cursor<'_>) -> Read<()> {
    let start = cursor.at();
    let version = cursor
        .take(1, start)
        .map_err(|fault| fault.within("version"))?;
    if version == [1] {
        Ok(())
    } else {
        Err(Fault::invalid(start).within("version"))
    }
}

fn read_blob(cursor: &mut Cursor<'_>, shape: &BlobShape) -> Read<Slot> {
    let start = cursor.at();
    let length = cursor.integer(shape.prefix, start)?;
    if length < shape.min || length > shape.max {
        return Err(Fault::invalid(start));
    }
    let bytes = cursor.take(usize::try_from(length).unwrap_or(usize::MAX), start)?;
    let value = if shape.is_text {
        let text = std::str::from_utf8(bytes)
            .ok()
            .filter(|text| !text.contains('\0'));
        Value::from(text.ok_or_else(|| Fault::new(Kind::InvalidField, start))?)
    } else {
        Value::String(to_hex(bytes))
    };
    Ok(Slot {
        value,
        scalar: length,
    })
}

/// A length-delimited part: the length is compared only once the fields have been read.
struct Part {
    /// Where the length stands.
    start: usize,
    body: usize,
    /// `None` where there is no length.
    length: Option<u64>,
}

impl Part {
    fn open(cursor: &mut Cursor<'_>, prefix: Option<Encoding>, max: u64) -> Read<Self> {
        let start = cursor.at();
        let length = prefix
            .map(|prefix| cursor.integer(prefix, start))
            .transpose()?;
        if length.is_some_and(|length| length > max) {
            return Err(Fault::invalid(start));
        }
        Ok(Self {
            start,
            body: cursor.at(),
            length,
        })
    }

    fn consumed(&self, cursor: &Cursor<'_>) -> u64 {
        u64::try_from(cursor.at() - self.body).unwrap_or(u64::MAX)
    }

    fn is_full(&self, cursor: &Cursor<'_>) -> bool {
        self.length
            .is_none_or(|length| self.consumed(cursor) >= length)
    }

    fn close(&self, cursor: &Cursor<'_>) -> Read<()> {
        let fits = self
            .length
            .is_none_or(|length| length == self.consumed(cursor));
        if fits {
            Ok(())
        } else {
            Err(Fault::invalid(self.start))
        }
    }
}
