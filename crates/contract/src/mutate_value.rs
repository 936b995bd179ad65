//! Deterministic damage to the JSON form, for what an encoder must refuse (WR-6).

use serde_json::{Map, Value, json};

use crate::rng::Rng;

/// Damages one place of a value: a member or element at random depth.
pub fn mutate_value(rng: &mut Rng, value: &mut Value) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            if rng.one_in(16) {
                mutate_members(rng, map);
            } else {
                let index = rng.below(map.len());
                if let Some(inner) = map.values_mut().nth(index) {
                    mutate_value(rng, inner);
                }
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            let index = rng.below(elements.len());
            match rng.below(8) {
                0 => elements.push(elements[index].clone()),
                1 => elements.reverse(),
                2 => {
                    elements.remove(index);
                }
                _ => mutate_value(rng, &mut elements[index]),
            }
        }
        other => *other = replaced(rng, other),
    }
}

fn mutate_members(rng: &mut Rng, map: &mut Map<String, Value>) {
    if rng.one_in(2) {
        map.insert("surplus".to_owned(), Value::Null);
        return;
    }
    let index = rng.below(map.len());
    if let Some(name) = map.keys().nth(index).cloned() {
        map.remove(&name);
    }
}

/// Another value in place of a scalar: sometimes legal, mostly not.
fn replaced(rng: &mut Rng, old: &Value) -> Value {
    let text = old.as_str();
    match rng.below(12) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(false),
        3 => json!(0),
        4 => json!(u64::MAX),
        5 => json!("0"),
        6 => json!("9223372036854775808"),
        7 => json!(-1),
        8 => json!(""),
        9 => json!({}),
        10 => json!(text.map_or_else(|| "0A".to_owned(), str::to_uppercase)),
        _ => json!(format!("0{}", text.unwrap_or("\0"))),
    }
}
