//! Writes one value of a type from its JSON form; shape and ranges are checked on the way.
//!
//! Rules, order and uniqueness are left to the caller, who decodes what was written.

use serde_json::{Map, Value};

use crate::decode::{Env, is_present, outer_discriminators};
use crate::model::{
    BlobShape, Contract, Encoding, Field, Fields, ListShape, Shape, TlvShape, TypeId, UnionShape,
};
use crate::refusal::Fault;
use crate::value::{enum_from_json, from_hex, number_from_json};

type Written = Result<(), Fault>;

/// Appends an integer that is known to fit.
pub(crate) fn write_integer(out: &mut Vec<u8>, encoding: Encoding, value: u64) {
    let bytes = value.to_be_bytes();
    out.extend_from_slice(&bytes[bytes.len() - encoding.size()..]);
}

/// Puts the length in front of what `body` holds.
fn write_part(out: &mut Vec<u8>, prefix: Encoding, max: u64, body: &[u8]) -> Written {
    let length = u64::try_from(body.len()).unwrap_or(u64::MAX);
    if length > max.min(prefix.max()) {
        return Err(Fault::invalid(out.len()));
    }
    write_integer(out, prefix, length);
    out.extend_from_slice(body);
    Ok(())
}

fn object(value: &Value, at: usize) -> Result<&Map<String, Value>, Fault> {
    value.as_object().ok_or_else(|| Fault::invalid(at))
}

impl Contract {
    /// Appends a value. `outer` holds the discriminators of a union that are not on the wire.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        id: TypeId,
        value: &Value,
        outer: &[u64],
    ) -> Written {
        let at = out.len();
        let invalid = || Fault::invalid(at);
        match self.shape(id) {
            Shape::Int(shape) => {
                let number = number_from_json(shape.encoding, value).ok_or_else(invalid)?;
                if number < shape.min || number > shape.max {
                    return Err(invalid());
                }
                write_integer(out, shape.encoding, number);
            }
            Shape::Enum(shape) => {
                let number = enum_from_json(shape, value).ok_or_else(invalid)?;
                write_integer(out, shape.encoding, number);
            }
            Shape::Blob(shape) => write_blob(out, shape, value)?,
            Shape::Fixed(size) => {
                let bytes = value.as_str().and_then(from_hex).ok_or_else(invalid)?;
                if bytes.len() != *size {
                    return Err(invalid());
                }
                out.extend_from_slice(&bytes);
            }
            Shape::Struct(fields) => {
                self.write_fields(out, fields, object(value, at)?, 0, Env::default())?;
            }
            Shape::Union(shape) => self.write_union(out, shape, object(value, at)?, outer)?,
            Shape::Envelope(shape) => {
                let mut body = Vec::new();
                let map = object(value, at)?;
                self.write_fields(&mut body, &shape.fields, map, 0, Env::default())?;
                out.push(1);
                write_part(out, shape.prefix, shape.max, &body)?;
            }
            Shape::List(shape) => self.write_list(out, shape, value)?,
            Shape::Tlv(shape) => self.write_tlv(out, shape, object(value, at)?)?,
        }
        Ok(())
    }

    /// Appends fields. `map` must hold their members, `others` more, and nothing else.
    pub(crate) fn write_fields(
        &self,
        out: &mut Vec<u8>,
        fields: &Fields,
        map: &Map<String, Value>,
        others: usize,
        env: Env,
    ) -> Written {
        let mut scalars = Vec::with_capacity(fields.fields.len());
        let mut used = others;
        for field in &fields.fields {
            let at = out.len();
            if !is_present(field, &scalars, env) {
                scalars.push(0);
                continue;
            }
            let fault = || Fault::invalid(at).within(&field.name);
            let value = map.get(&field.name).ok_or_else(fault)?;
            let outer = outer_discriminators(field, &scalars, env);
            let written = self.write_field(out, field, value, &outer);
            written.map_err(|fault| fault.within(&field.name))?;
            scalars.push(self.scalar(field.type_id, value).ok_or_else(fault)?);
            used += 1;
        }
        if used == map.len() {
            Ok(())
        } else {
            Err(Fault::invalid(out.len()))
        }
    }

    fn write_field(
        &self,
        out: &mut Vec<u8>,
        field: &Field,
        value: &Value,
        outer: &[u64],
    ) -> Written {
        let at = out.len();
        if field.range.is_some() || field.constant.is_some() {
            let scalar = self
                .scalar(field.type_id, value)
                .ok_or_else(|| Fault::invalid(at))?;
            let fits_range = field
                .range
                .is_none_or(|(min, max)| (min..=max).contains(&scalar));
            if !fits_range || field.constant.is_some_and(|constant| constant != scalar) {
                return Err(Fault::invalid(at));
            }
        }
        self.write(out, field.type_id, value, outer)
    }

    fn write_union(
        &self,
        out: &mut Vec<u8>,
        shape: &UnionShape,
        map: &Map<String, Value>,
        outer: &[u64],
    ) -> Written {
        let at = out.len();
        let mut outer = outer.iter();
        let mut values = Vec::with_capacity(shape.discriminators.len());
        let mut shown = 0;
        for discriminator in &shape.discriminators {
            if !discriminator.is_on_wire {
                values.push(outer.next().copied().unwrap_or_default());
                continue;
            }
            let fault = || Fault::invalid(at).within(&discriminator.name);
            let value = map.get(&discriminator.name).ok_or_else(fault)?;
            self.write(out, discriminator.type_id, value, &[])
                .map_err(|_| fault())?;
            values.push(
                self.scalar(discriminator.type_id, value)
                    .ok_or_else(fault)?,
            );
            shown += 1;
        }
        let case = shape.case(&values).ok_or_else(|| Fault::invalid(at))?;
        match shape.prefix {
            None => self.write_fields(out, &case.fields, map, shown, Env::default()),
            Some(prefix) => {
                let mut body = Vec::new();
                self.write_fields(&mut body, &case.fields, map, shown, Env::default())?;
                write_part(out, prefix, u64::MAX, &body)
            }
        }
    }

    fn write_list(&self, out: &mut Vec<u8>, shape: &ListShape, value: &Value) -> Written {
        let at = out.len();
        let elements = value.as_array().ok_or_else(|| Fault::invalid(at))?;
        let count = u64::try_from(elements.len()).unwrap_or(u64::MAX);
        let most = if shape.is_envelope {
            shape.count.max()
        } else {
            shape.max
        };
        if count > most.min(shape.count.max()) {
            return Err(Fault::invalid(at));
        }
        if shape.is_envelope {
            out.push(1);
        }
        write_integer(out, shape.count, count);
        for (index, element) in elements.iter().enumerate() {
            let written = self.write(out, shape.element, element, &[]);
            written.map_err(|fault| fault.within(&index.to_string()))?;
        }
        Ok(())
    }

    fn write_tlv(&self, out: &mut Vec<u8>, shape: &TlvShape, map: &Map<String, Value>) -> Written {
        let at = out.len();
        let mut body = Vec::new();
        let mut used = 0;
        for entry in &shape.entries {
            let name = &entry.field.name;
            let Some(value) = map.get(name) else {
                if entry.is_required {
                    return Err(Fault::invalid(at).within(name));
                }
                continue;
            };
            used += 1;
            let mut inner = Vec::new();
            let written = self.write_field(&mut inner, &entry.field, value, &[]);
            written.map_err(|fault| fault.within(name))?;
            write_integer(&mut body, shape.id, entry.id);
            write_part(&mut body, shape.length, u64::MAX, &inner)?;
        }
        if used == map.len() {
            write_part(out, shape.total, shape.max, &body)
        } else {
            Err(Fault::invalid(at))
        }
    }
}

fn write_blob(out: &mut Vec<u8>, shape: &BlobShape, value: &Value) -> Written {
    let invalid = || Fault::invalid(out.len());
    let text = value.as_str().ok_or_else(invalid)?;
    let bytes = if !shape.is_text {
        from_hex(text).ok_or_else(invalid)?
    } else if text.contains('\0') {
        return Err(invalid());
    } else {
        text.as_bytes().to_vec()
    };
    if bytes.len() < usize::try_from(shape.min).unwrap_or(usize::MAX) {
        return Err(invalid());
    }
    write_part(out, shape.prefix, shape.max, &bytes)
}
