//! JSON in which every member is there once.
//!
//! `serde_json` keeps the last of two members of one name, so a vector could hide behind another.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::sheet::{Check, short};

/// The value of a text; a sentence about what is wrong otherwise.
pub(super) fn parse(text: &[u8]) -> Check<Value> {
    match serde_json::from_slice::<Strict>(text) {
        Ok(Strict(value)) => Ok(value),
        Err(error) if error.is_data() => Err(error.to_string()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Members).map(Self)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(Strict(element)) = seq.next_element()? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.contains_key(&name) {
                let name = short(name);
                return Err(A::Error::custom(format_args!(
                    "member `{name}` is there twice"
                )));
            }
            let Strict(member) = map.next_value()?;
            members.insert(name, member);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_that_of_serde_json() {
        let text = r#"{"b": [null, true, 1, -1, 1.5, 18446744073709551615, "\u00e9\n"], "a": {}}"#;
        assert_eq!(
            parse(text.as_bytes()).unwrap(),
            serde_json::from_str::<Value>(text).unwrap()
        );
        for (text, said) in [("{", "not JSON"), ("[1,]", "not JSON"), ("1 2", "not JSON")] {
            assert!(parse(text.as_bytes()).unwrap_err().starts_with(said));
        }
    }

    #[test]
    fn a_member_is_there_once_at_every_depth() {
        for text in [
            r#"{"a": 1, "a": 1}"#,
            r#"[{"b": {"a": 1, "c": 2, "\u0061": 3}}]"#,
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(
                error.starts_with("member `a` is there twice at line 1"),
                "{error}"
            );
        }
        assert!(parse(br#"{"a": {"a": 1}, "b": {"a": 1}}"#).is_ok());
    }
}
