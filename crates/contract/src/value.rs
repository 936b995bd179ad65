//! The JSON form of scalars, and the keys by which elements are sorted.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::authority_key::key_of_object;
use crate::model::{Contract, Encoding, EnumShape, Key, ListShape, Shape, TypeId};

/// Bytes as lower-case hex.
pub fn to_hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        write!(hex, "{byte:02x}").unwrap_or_default();
    }
    hex
}

/// Bytes of a lower-case hex text; `None` for anything else.
pub fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut pairs = hex.as_bytes().chunks_exact(2);
    let bytes = pairs
        .by_ref()
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    let bytes: Option<Vec<u8>> = bytes.collect();
    if pairs.remainder().is_empty() {
        bytes
    } else {
        None
    }
}

pub(crate) fn number_to_json(encoding: Encoding, value: u64) -> Value {
    if encoding.is_wide() {
        Value::String(value.to_string())
    } else {
        Value::from(value)
    }
}

/// Reads a number of the form [`number_to_json`] writes, and no other.
pub(crate) fn number_from_json(encoding: Encoding, value: &Value) -> Option<u64> {
    if !encoding.is_wide() {
        return value.as_u64();
    }
    let text = value.as_str()?;
    let number = text.parse::<u64>().ok()?;
    // One value has one form: no sign, no leading zero.
    (number.to_string() == text).then_some(number)
}

pub(crate) fn enum_to_json(shape: &EnumShape, value: u64) -> Option<Value> {
    if shape.is_bool {
        return Some(Value::Bool(value == 1));
    }
    shape.name_of(value).map(Value::from)
}

pub(crate) fn enum_from_json(shape: &EnumShape, value: &Value) -> Option<u64> {
    if shape.is_bool {
        value.as_bool().map(u64::from)
    } else {
        shape.value_of(value.as_str()?)
    }
}

impl Contract {
    /// What conditions, discriminators and ranges look at: the number of an integer or enum, the
    /// length of text or bytes. `None` where the value has not the form of its type.
    pub(crate) fn scalar(&self, id: TypeId, value: &Value) -> Option<u64> {
        match self.shape(id) {
            Shape::Int(shape) => number_from_json(shape.encoding, value),
            Shape::Enum(shape) => enum_from_json(shape, value),
            Shape::Blob(shape) if shape.is_text => u64::try_from(value.as_str()?.len()).ok(),
            Shape::Blob(_) => u64::try_from(value.as_str()?.len() / 2).ok(),
            _ => Some(0),
        }
    }

    /// The key of one element of a list.
    pub(crate) fn key_of(&self, list: &ListShape, element: &Value) -> Vec<KeyPart> {
        list.keys
            .iter()
            .map(|key| self.key_part(key, element))
            .collect()
    }

    fn key_part(&self, key: &Key, element: &Value) -> KeyPart {
        let missing = Value::Null;
        let value = match &key.field {
            Some(field) => element.get(field).unwrap_or(&missing),
            None => element,
        };
        if key.by_authority {
            let empty = Map::new();
            return KeyPart::Text(key_of_object(value.as_object().unwrap_or(&empty)));
        }
        match self.shape(key.type_id) {
            Shape::Int(_) | Shape::Enum(_) => {
                KeyPart::Number(self.scalar(key.type_id, value).unwrap_or_default())
            }
            // Lower-case hex sorts like the bytes it shows.
            _ => KeyPart::Text(value.as_str().unwrap_or_default().to_owned()),
        }
    }
}

/// One part of a sort key; text compares by its UTF-8 bytes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyPart {
    Number(u64),
    Text(String),
}
