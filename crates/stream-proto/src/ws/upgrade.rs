//! The upgrade from HTTP: one request, one response, both bounded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes, BytesMut};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use thiserror::Error;

use crate::bound::UPGRADE_BYTES_MAX;

const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// An upgrade that was asked for in the right way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    key: String,
}

/// An upgrade that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response;

/// Why there is no upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// More than 8,192 bytes without an end.
    #[error("the head of the upgrade is longer than {UPGRADE_BYTES_MAX} bytes")]
    TooLong,
    /// Not HTTP/1.1, or no GET.
    #[error("this is no upgrade request or response of http/1.1")]
    NotHttp,
    /// A header that has to be there is not, or says something else.
    #[error("the header {0} is missing or says something else")]
    Header(&'static str),
    /// The server answered with another status.
    #[error("the server answered {0:?} instead of 101")]
    Status(String),
}

/// Takes a complete request from the front of `input`; `None` while it is not complete.
///
/// Any target is accepted, no subprotocol chosen and no extension agreed on (ST-130).
///
/// # Errors
/// Answer with [`bad_request`] and close.
pub fn parse_request(input: &mut BytesMut) -> Result<Option<Request>, UpgradeError> {
    let Some(head) = take_head(input)? else {
        return Ok(None);
    };
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    if !first.starts_with("GET ") || !first.ends_with(" HTTP/1.1") {
        return Err(UpgradeError::NotHttp);
    }
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    upgrades(&headers)?;
    if value(&headers, "sec-websocket-version") != Some("13") {
        return Err(UpgradeError::Header("sec-websocket-version"));
    }
    let key = value(&headers, "sec-websocket-key").unwrap_or_default();
    let decoded = STANDARD.decode(key).ok();
    if decoded.is_none_or(|nonce| nonce.len() != 16) {
        return Err(UpgradeError::Header("sec-websocket-key"));
    }
    let key = key.to_owned();
    Ok(Some(Request { key }))
}

/// What grants an upgrade.
#[must_use]
pub fn server_response(request: &Request) -> Bytes {
    let accept = accept_of(&request.key);
    Bytes::from(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    ))
}

/// What refuses a request that is none.
#[must_use]
pub const fn bad_request() -> Bytes {
    Bytes::from_static(
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    )
}

/// The request of a client. `nonce` is random.
#[must_use]
pub fn client_request(authority: &str, target: &str, nonce: [u8; 16]) -> (Bytes, String) {
    let key = STANDARD.encode(nonce);
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    (Bytes::from(request), key)
}

/// Takes a complete response to the request with `key` from the front of `input`.
///
/// # Errors
/// The upgrade was not granted, or not by a WebSocket server.
pub fn parse_response(input: &mut BytesMut, key: &str) -> Result<Option<Response>, UpgradeError> {
    let Some(head) = take_head(input)? else {
        return Ok(None);
    };
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let Some(status) = first.strip_prefix("HTTP/1.1 ") else {
        return Err(UpgradeError::NotHttp);
    };
    if status.split(' ').next() != Some("101") {
        return Err(UpgradeError::Status(status.chars().take(64).collect()));
    }
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    upgrades(&headers)?;
    if value(&headers, "sec-websocket-accept") != Some(accept_of(key).as_str()) {
        return Err(UpgradeError::Header("sec-websocket-accept"));
    }
    for unasked in ["sec-websocket-extensions", "sec-websocket-protocol"] {
        if value(&headers, unasked).is_some() {
            return Err(UpgradeError::Header(unasked));
        }
    }
    Ok(Some(Response))
}

fn take_head(input: &mut BytesMut) -> Result<Option<String>, UpgradeError> {
    let end = input.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(end) = end.filter(|end| *end <= UPGRADE_BYTES_MAX) else {
        if input.len() > UPGRADE_BYTES_MAX {
            return Err(UpgradeError::TooLong);
        }
        return Ok(None);
    };
    let head = input.split_to(end);
    input.advance(4);
    String::from_utf8(head.into())
        .map(Some)
        .map_err(|_| UpgradeError::NotHttp)
}

fn upgrades(headers: &[(&str, &str)]) -> Result<(), UpgradeError> {
    let websocket = value(headers, "upgrade");
    if !websocket.is_some_and(|value| value.eq_ignore_ascii_case("websocket")) {
        return Err(UpgradeError::Header("upgrade"));
    }
    let tokens = value(headers, "connection").unwrap_or_default().split(',');
    let mut tokens = tokens.map(str::trim);
    if tokens.any(|token| token.eq_ignore_ascii_case("upgrade")) {
        Ok(())
    } else {
        Err(UpgradeError::Header("connection"))
    }
}

fn value<'a>(headers: &[(&'a str, &'a str)], name: &str) -> Option<&'a str> {
    let mut found = headers
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim())
}

fn accept_of(key: &str) -> String {
    let joined = format!("{key}{GUID}");
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, joined.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn request(lines: &str) -> Result<Option<Request>, UpgradeError> {
        parse_request(&mut BytesMut::from(lines.as_bytes()))
    }

    /// ST-130
    #[test]
    fn an_upgrade_is_granted_whatever_target_subprotocol_and_extension_are_asked_for() {
        let text = format!(
            "GET /some/path?x=1 HTTP/1.1\r\nhost: a\r\nUPGRADE: WebSocket\r\n\
             connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: {KEY}\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: a, b\r\n\
             Sec-WebSocket-Extensions: permessage-deflate\r\n\r\nrest"
        );
        let mut input = BytesMut::from(text.as_bytes());
        let request = parse_request(&mut input).unwrap().unwrap();
        assert_eq!(&input[..], b"rest", "what follows belongs to the stream");
        let response = String::from_utf8(server_response(&request).to_vec()).unwrap();
        assert!(response.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert!(!response.to_lowercase().contains("protocol:"));
        let mut input = BytesMut::from(response.as_bytes());
        assert_eq!(parse_response(&mut input, KEY), Ok(Some(Response)));
    }

    /// ST-130
    #[test]
    fn what_is_no_upgrade_is_refused() {
        let good = format!(
            "GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        assert!(request(&good).unwrap().is_some());
        for (from, to) in [
            ("GET", "POST"),
            ("HTTP/1.1", "HTTP/1.0"),
            ("Upgrade: websocket", "Upgrade: h2c"),
            ("Connection: Upgrade", "Connection: close"),
            (KEY, "c2hvcnQ="),
            ("Version: 13", "Version: 8"),
        ] {
            assert!(request(&good.replace(from, to)).is_err(), "{to}");
        }
        for cut in 0..good.len() {
            assert_eq!(request(&good[..cut]), Ok(None));
        }
        assert_eq!(request(&"x".repeat(9_000)), Err(UpgradeError::TooLong));
    }

    /// ST-130
    #[test]
    fn a_client_believes_only_the_answer_to_its_own_key() {
        let (_, key) = client_request("a:1", "/", [7; 16]);
        let response = server_response(&Request {
            key: KEY.to_owned(),
        });
        let mut input = BytesMut::from(&response[..]);
        assert_eq!(
            parse_response(&mut input, &key),
            Err(UpgradeError::Header("sec-websocket-accept"))
        );
        let mut input = BytesMut::from(&bad_request()[..]);
        assert!(matches!(
            parse_response(&mut input, &key),
            Err(UpgradeError::Status(_))
        ));
    }
}
