//! Objects of a vector file, read so that no member goes unnoticed.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::sheet::Check;
use crate::codec::bytes_of;

/// An object whose members are taken one by one; [`Members::done`] refuses what nobody took.
#[derive(Debug)]
pub(super) struct Members<'a> {
    map: &'a Map<String, Value>,
    taken: BTreeSet<&'a str>,
}

impl<'a> Members<'a> {
    /// The members of an object.
    pub(super) fn of(value: &'a Value) -> Check<Self> {
        let map = value.as_object().ok_or("not an object")?;
        Ok(Self {
            map,
            taken: BTreeSet::new(),
        })
    }

    /// A member, if it is there.
    pub(super) fn get(&mut self, name: &str) -> Option<&'a Value> {
        let (name, value) = self.map.get_key_value(name)?;
        self.taken.insert(name);
        Some(value)
    }

    /// A member that has to be there.
    pub(super) fn need(&mut self, name: &str) -> Check<&'a Value> {
        self.get(name)
            .ok_or_else(|| format!("member `{name}` is missing"))
    }

    /// A text.
    pub(super) fn text(&mut self, name: &str) -> Check<&'a str> {
        let value = self.need(name)?;
        value
            .as_str()
            .ok_or_else(|| format!("member `{name}` is not a text"))
    }

    /// A text that may be absent or null.
    pub(super) fn optional_text(&mut self, name: &str) -> Check<Option<&'a str>> {
        match self.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("member `{name}` is not a text")),
        }
    }

    /// A number that is not negative.
    pub(super) fn number(&mut self, name: &str) -> Check<u64> {
        let value = self.need(name)?;
        value
            .as_u64()
            .ok_or_else(|| format!("member `{name}` is not a number"))
    }

    /// A number of 64 bits, written as text.
    pub(super) fn decimal(&mut self, name: &str) -> Check<u64> {
        let text = self.text(name)?;
        text.parse()
            .map_err(|_| format!("member `{name}` is not a decimal text"))
    }

    /// An array.
    pub(super) fn list(&mut self, name: &str) -> Check<&'a [Value]> {
        let value = self.need(name)?;
        match value {
            Value::Array(list) => Ok(list),
            _ => Err(format!("member `{name}` is not an array")),
        }
    }

    /// Bytes in hex.
    pub(super) fn hex(&mut self, name: &str) -> Check<Bytes> {
        bytes_of(self.text(name)?).ok_or_else(|| format!("member `{name}` is not lower-case hex"))
    }

    /// Bytes as an array of numbers.
    pub(super) fn octets(&mut self, name: &str) -> Check<Bytes> {
        let list = self.list(name)?.iter();
        let octets = list.map(|octet| octet.as_u64().and_then(|octet| u8::try_from(octet).ok()));
        let octets: Option<Vec<u8>> = octets.collect();
        octets
            .map(Bytes::from)
            .ok_or_else(|| format!("member `{name}` is not a list of bytes"))
    }

    /// A list of frames in hex.
    pub(super) fn frames(&mut self, name: &str) -> Check<Vec<Bytes>> {
        let list = self.list(name)?.iter();
        let frames: Option<Vec<Bytes>> = list.map(|frame| bytes_of(frame.as_str()?)).collect();
        frames.ok_or_else(|| format!("member `{name}` is not a list of lower-case hex"))
    }

    /// Members that explain and promise nothing.
    pub(super) fn skip(&mut self, names: &[&str]) {
        for name in names {
            self.get(name);
        }
    }

    /// Refuses members that nobody took.
    pub(super) fn done(self) -> Check {
        match self
            .map
            .keys()
            .find(|name| !self.taken.contains(name.as_str()))
        {
            None => Ok(()),
            Some(name) => Err(format!("member `{name}` is not understood")),
        }
    }
}

/// The name of a vector, for a vector that may not even be an object.
pub(super) fn name_of(vector: &Value, index: usize) -> String {
    match vector["name"].as_str() {
        Some(name) => name.to_owned(),
        None => format!("[{index}]"),
    }
}
