//! Comparing the decoded fields that a vector lists with what the codec decoded.
//!
//! A vector lists what its authors found worth it, in their own grouping. So each listed leaf is
//! looked up by its path, after renaming where the vector groups fields in another way, and a leaf
//! whose path leads nowhere is a failure: nothing that is listed stays unchecked.

use serde_json::Value;
use spotlane_types::kind::FailureCode;

use super::sheet::{Check, short};
use crate::codec::hex_of;

/// A listed path without indices, and the path of ours; an empty one means that the codec has no
/// such field because its one legal value is not shown (version bytes).
pub(super) type Rename = (&'static str, &'static str);

/// Compares every leaf of `listed` with `decoded`.
pub(super) fn compare(listed: &Value, decoded: &Value, renames: &[Rename]) -> Check {
    let mut leaves = Vec::new();
    flatten(listed, String::new(), &mut leaves);
    for (path, leaf) in leaves {
        let Some(ours) = ours(&path, renames) else {
            continue;
        };
        let found = lookup(decoded, &ours);
        let fine = match (leaf, found) {
            (Value::Null, found) => found.is_none_or(is_absent),
            (Value::Array(listed), Some(Value::Array(found))) => listed.len() == found.len(),
            (leaf, Some(found)) => stands_for(&path, leaf, found),
            (_, None) => false,
        };
        if !fine {
            let found = found.map_or_else(|| "nothing".to_owned(), short);
            return Err(format!(
                "listed field `{path}`: expected {}, got {found} at `{ours}`",
                short(leaf)
            ));
        }
    }
    Ok(())
}

/// Leaves with their paths; an array is a leaf too, for its length.
fn flatten<'a>(value: &'a Value, path: String, leaves: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                flatten(member, path, leaves);
            }
        }
        Value::Array(elements) => {
            leaves.push((path.clone(), value));
            for (index, element) in elements.iter().enumerate() {
                flatten(element, format!("{path}[{index}]"), leaves);
            }
        }
        _ => leaves.push((path, value)),
    }
}

/// Our path of a listed one; `None` for what the codec does not show.
fn ours(path: &str, renames: &[Rename]) -> Option<String> {
    let mut indices = Vec::new();
    let mut bare = String::new();
    for piece in path.split_inclusive(']') {
        match piece.split_once('[') {
            Some((name, index)) => {
                bare.push_str(name);
                bare.push_str("[]");
                indices.push(index.trim_end_matches(']'));
            }
            None => bare.push_str(piece),
        }
    }
    let other = renames.iter().find(|(listed, _)| *listed == bare);
    let path = match other {
        Some((_, "")) => return None,
        Some((_, ours)) => *ours,
        None => {
            let plain = bare.strip_suffix("Utf8Fixture").unwrap_or(&bare);
            plain.strip_suffix("Hex").unwrap_or(plain)
        }
    };
    let mut indices = indices.into_iter();
    let mut ours = String::new();
    for (position, piece) in path.split("[]").enumerate() {
        if position > 0 {
            ours.extend(["[", indices.next().unwrap_or("0"), "]"]);
        }
        ours.push_str(piece);
    }
    Some(ours)
}

/// The value at a dotted path with indices.
pub(super) fn lookup<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    steps(path).try_fold(value, |value, step| match step.parse::<usize>() {
        Ok(index) if value.is_array() => value.get(index),
        _ => value.get(step),
    })
}

/// As [`lookup`], to change it.
pub(super) fn lookup_mut<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    steps(path).try_fold(value, |value, step| match step.parse::<usize>() {
        Ok(index) if value.is_array() => value.get_mut(index),
        _ => value.get_mut(step),
    })
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[', ']']).filter(|step| !step.is_empty())
}

/// An object that only says that something is not there.
fn is_absent(found: &Value) -> bool {
    match found {
        Value::Null | Value::Bool(false) => true,
        Value::Object(members) => members.len() == 1 && members.values().all(|flag| flag == false),
        _ => false,
    }
}

/// Equal, or the same in the notation of the vector: bytes as the text they encode, a failure code
/// as its number.
pub(super) fn stands_for(path: &str, listed: &Value, found: &Value) -> bool {
    if listed == found {
        return true;
    }
    let name = path.rsplit(['.', ']']).next().unwrap_or(path);
    match (listed, found) {
        (Value::String(listed), Value::String(found)) => {
            let bytes = name.ends_with("Utf8Fixture") || name.ends_with("Rid");
            bytes && hex_of(listed.as_bytes()) == *found
        }
        (Value::Number(listed), Value::String(found)) if name == "failureCode" => {
            let code = listed.as_u64().and_then(|code| u32::try_from(code).ok());
            let code = code.and_then(FailureCode::from_wire);
            code.is_some_and(|code| code.name() == found)
        }
        _ => false,
    }
}

/// The paths of the leaves in which two values differ.
pub(super) fn differences(left: &Value, right: &Value) -> Vec<String> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    flatten(left, String::new(), &mut ours);
    flatten(right, String::new(), &mut theirs);
    // Elements speak for their array.
    ours.retain(|(_, leaf)| !leaf.is_array());
    theirs.retain(|(_, leaf)| !leaf.is_array());
    let differing = ours.iter().filter(|leaf| !theirs.contains(leaf));
    let missing = theirs
        .iter()
        .filter(|(path, _)| !ours.iter().any(|(other, _)| other == path));
    differing
        .chain(missing)
        .map(|(path, _)| path.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn listed_leaves_are_found_by_path_name_and_notation() {
        let decoded = json!({"a": [{"id": "6e", "n": "1"}, {"id": "6f"}], "on": {"hasIt": false}, "failureCode": "spotMoving"});
        let renames = [
            ("list[].idUtf8Fixture", "a[].id"),
            ("list", "a"),
            ("version", ""),
        ];
        let fine = json!({"list": [{"idUtf8Fixture": "n"}, {"idUtf8Fixture": "o"}], "on": null, "version": 1, "failureCode": 34});
        assert_eq!(compare(&fine, &decoded, &renames), Ok(()));
        for wrong in [
            json!({"list": [{"idUtf8Fixture": "n"}]}),
            json!({"list": [{"idUtf8Fixture": "n"}, {"idUtf8Fixture": "x"}]}),
            json!({"other": 1}),
            json!({"failureCode": 33}),
            json!({"a": null}),
        ] {
            assert!(compare(&wrong, &decoded, &renames).is_err(), "{wrong}");
        }
    }

    #[test]
    fn differences_are_named_by_path() {
        let left = json!({"a": {"b": 1, "c": [1, 2]}});
        assert_eq!(differences(&left, &left), [""; 0]);
        let right = json!({"a": {"b": 2, "c": [1, 2]}});
        assert_eq!(differences(&left, &right), ["a.b"]);
    }
}
