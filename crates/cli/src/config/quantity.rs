//! Durations and sizes as they are written in a file: `250ms`, `30s`, `64KiB`.

use std::time::Duration;

/// Reads `250ms`, `30s`, `5m` or `0` (off).
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000)];
    let millis = scaled(text, &units).ok_or_else(|| {
        format!(
            "{text:?} is no duration: write a whole number and ms, s or m, for example \"250ms\""
        )
    })?;
    Ok(Duration::from_millis(millis))
}

/// Reads `65536`, `64KiB`, `16MiB` or `1GiB` as a number of bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("", 1),
    ];
    scaled(text, &units).ok_or_else(|| {
        format!("{text:?} is no size: write a whole number and nothing, KiB, MiB or GiB, for example \"64KiB\"")
    })
}

/// The number before the first unit that fits, times that unit.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    units.iter().find_map(|(unit, scale)| {
        let digits = text.strip_suffix(unit)?.trim_end();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse::<u64>().ok()?.checked_mul(*scale)
    })
}

/// A duration as [`duration`] reads it.
pub(crate) fn show_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0 => "0".to_owned(),
        _ if millis.is_multiple_of(60_000) => format!("{}m", millis / 60_000),
        _ if millis.is_multiple_of(1_000) => format!("{}s", millis / 1_000),
        _ => format!("{millis}ms"),
    }
}

/// A size as [`bytes`] reads it.
pub(crate) fn show_bytes(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{}GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("30 s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("5m"), Ok(Duration::from_mins(5)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("65536"), Ok(65_536));
        assert_eq!(bytes("1GiB"), Ok(1 << 30));
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_an_example() {
        for text in [
            "",
            "s",
            "-1s",
            "1.5s",
            "1h",
            "+1s",
            "99999999999999999999ms",
        ] {
            assert!(duration(text).unwrap_err().contains("250ms"), "{text}");
        }
        for text in ["", "KiB", "-1", "1KB", "1kib", "99999999999GiB"] {
            assert!(bytes(text).unwrap_err().contains("64KiB"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_read(number in 0_u64..1 << 40) {
            prop_assert_eq!(duration(&show_duration(Duration::from_millis(number))), Ok(Duration::from_millis(number)));
            prop_assert_eq!(bytes(&show_bytes(number)), Ok(number));
        }
    }
}
