//! Bytes as our own vectors write them: hex, or pieces where hex alone would be long.

use serde_json::Value;

use super::members::Members;
use super::sheet::Check;
use crate::codec::bytes_of;

/// More than any bound that fits in memory, so that a wrong number cannot eat the machine.
const BYTES_MAX: usize = 256 << 20;

/// A text of hex, or an array of pieces: text of hex, or `{"times": n, "of": [pieces]}`, whose
/// pieces may further be `{"index": bytes}` and `{"digits": count}`, the number of the turn.
pub(super) fn bytes(value: &Value) -> Check<Vec<u8>> {
    let mut out = Vec::new();
    match value {
        Value::Array(pieces) => write_all(pieces, None, &mut out)?,
        piece => write(piece, None, &mut out)?,
    }
    Ok(out)
}

fn write_all(pieces: &[Value], turn: Option<u64>, out: &mut Vec<u8>) -> Check {
    pieces.iter().try_for_each(|piece| write(piece, turn, out))
}

fn write(piece: &Value, turn: Option<u64>, out: &mut Vec<u8>) -> Check {
    match piece {
        Value::String(hex) => {
            let bytes = bytes_of(hex).ok_or_else(|| format!("`{hex}` is not lower-case hex"))?;
            out.extend_from_slice(&bytes);
        }
        Value::Object(members) if members.contains_key("times") => {
            let mut members = Members::of(piece)?;
            let times = members.number("times")?;
            let pieces = members.list("of")?;
            members.done()?;
            for turn in 0..times {
                write_all(pieces, Some(turn), out)?;
                if out.len() > BYTES_MAX {
                    return Err(format!("more than {BYTES_MAX} bytes"));
                }
            }
        }
        Value::Object(_) => {
            let turn = turn.ok_or("a turn number outside of `times`")?;
            let mut members = Members::of(piece)?;
            match (members.get("index"), members.get("digits")) {
                (Some(bytes), None) => {
                    let bytes = bytes.as_u64().and_then(|bytes| usize::try_from(bytes).ok());
                    let all = turn.to_be_bytes();
                    let skipped = bytes.and_then(|bytes| all.len().checked_sub(bytes));
                    let tail = skipped.and_then(|skipped| all.get(skipped..));
                    out.extend_from_slice(tail.ok_or("`index` is a count of bytes, 1 to 8")?);
                }
                (None, Some(digits)) => {
                    let width = digits.as_u64().filter(|width| (1..=20).contains(width));
                    let width = width.ok_or("`digits` is a count of digits, 1 to 20")?;
                    let width = usize::try_from(width).unwrap_or(20);
                    out.extend_from_slice(format!("{turn:0width$}").as_bytes());
                }
                _ => return Err("a piece is `times`, `index` or `digits`".to_owned()),
            }
            members.done()?;
        }
        _ => return Err("bytes are hex or an array of pieces".to_owned()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_are_written_in_order_with_the_number_of_the_turn() {
        assert_eq!(bytes(&json!("00ff")), Ok(vec![0, 255]));
        let pieces = json!(["aa", {"times": 2, "of": [{"index": 2}, {"digits": 2}]}, "bb"]);
        assert_eq!(bytes(&pieces), Ok(b"\xaa\0\x0000\0\x0101\xbb".to_vec()));
        for bad in [
            json!(1),
            json!([{"index": 1}]),
            json!("AA"),
            json!([{"times": 1, "of": ["a"]}]),
            json!([{"times": 1, "of": [], "x": 0}]),
        ] {
            assert!(bytes(&bad).is_err(), "{bad}");
        }
    }
}
