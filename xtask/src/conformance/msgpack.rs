//! The `MessagePack` around an opaque record.

use super::sheet::Check;

/// An array of five: key, value, version, expiry in milliseconds, tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opaque {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) version: Vec<u8>,
    pub(super) expires_at_ms: u64,
    pub(super) tombstone: bool,
}

/// Reads a record that fills the bytes.
pub(super) fn read(bytes: &[u8]) -> Check<Opaque> {
    let mut rest = bytes;
    let length = rmp::decode::read_array_len(&mut rest).map_err(|e| e.to_string())?;
    if length != 5 {
        return Err(format!("an array of {length} instead of five"));
    }
    let record = Opaque {
        key: read_raw(&mut rest)?,
        value: read_raw(&mut rest)?,
        version: read_raw(&mut rest)?,
        expires_at_ms: rmp::decode::read_int(&mut rest).map_err(|e| e.to_string())?,
        tombstone: rmp::decode::read_bool(&mut rest).map_err(|e| e.to_string())?,
    };
    match rest.len() {
        0 => Ok(record),
        left => Err(format!("{left} bytes are left over")),
    }
}

/// A string; its bytes need not be UTF-8.
fn read_raw(rest: &mut &[u8]) -> Check<Vec<u8>> {
    let length = rmp::decode::read_str_len(rest).map_err(|e| e.to_string())?;
    let length = usize::try_from(length).map_err(|e| e.to_string())?;
    let (raw, left) = rest.split_at_checked(length).ok_or("a string ends early")?;
    *rest = left;
    Ok(raw.to_vec())
}

/// Writes a record in its shortest form.
pub(super) fn write(record: &Opaque) -> Check<Vec<u8>> {
    let mut out = Vec::new();
    rmp::encode::write_array_len(&mut out, 5).map_err(|e| e.to_string())?;
    for raw in [&record.key, &record.value, &record.version] {
        let length = u32::try_from(raw.len()).map_err(|e| e.to_string())?;
        rmp::encode::write_str_len(&mut out, length).map_err(|e| e.to_string())?;
        out.extend_from_slice(raw);
    }
    rmp::encode::write_uint(&mut out, record.expires_at_ms).map_err(|e| e.to_string())?;
    rmp::encode::write_bool(&mut out, record.tombstone).map_err(|e| e.to_string())?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_nothing_may_follow() {
        let record = Opaque {
            key: b"a\0b".to_vec(),
            value: vec![0xff; 40],
            version: b"7".to_vec(),
            expires_at_ms: 300,
            tombstone: true,
        };
        let mut bytes = write(&record).unwrap();
        assert_eq!(bytes[0], 0x95);
        assert_eq!(read(&bytes), Ok(record));
        bytes.push(0);
        assert!(read(&bytes).is_err());
        assert!(read(&[0x94]).is_err());
    }
}
