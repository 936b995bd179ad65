//! Lower-case hex: how bytes stand in keys, rows and JSON forms.

/// Writes bytes as lower-case hex.
///
/// ```
/// assert_eq!(spotlane_types::hex::encode(b"\x0f\xa0"), "0fa0");
/// ```
pub fn encode(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 0x0F));
    }
    text
}

/// Reads the bytes of lower-case hex; `None` for anything else, upper case and an odd number of digits included.
///
/// ```
/// use spotlane_types::hex;
/// assert_eq!(hex::decode("0fa0"), Some(vec![0x0f, 0xa0]));
/// assert_eq!(hex::decode("0FA0"), None);
/// assert_eq!(hex::decode("0fa"), None);
/// ```
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => byte.checked_sub(b'0'),
        b'a'..=b'f' => byte
            .checked_sub(b'a')
            .and_then(|value| value.checked_add(10)),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| Some((digit(*high)? << 4) | digit(*low)?))
        .collect()
}
