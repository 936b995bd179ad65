//! Where a server is.

use std::str::FromStr;

use thiserror::Error;

/// A setting of a client that cannot be (ST-129).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No endpoint of a form that is known.
    #[error("the endpoint {0:?} is not of the form scheme://host:port with tcp, tls, ws or wss")]
    Endpoint(String),
    /// Certificates that cannot be used.
    #[error("the certificates cannot be used: {0}")]
    Tls(String),
}

/// Where a server is: `tcp://host:port`, `tls://…`, `ws://host:port/path`, `wss://…`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What the upgrade asks for; `None` without WebSocket.
    pub(crate) target: Option<String>,
    pub(crate) has_tls: bool,
}

impl Endpoint {
    /// The transport, as URLs and metrics write it.
    pub const fn scheme(&self) -> &'static str {
        match (self.target.is_some(), self.has_tls) {
            (false, false) => "tcp",
            (false, true) => "tls",
            (true, false) => "ws",
            (true, true) => "wss",
        }
    }

    /// As the `Host` header names it.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Endpoint {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let refused = || ConfigError::Endpoint(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(refused)?;
        let (has_tls, has_websocket) = match scheme {
            "tcp" => (false, false),
            "tls" => (true, false),
            "ws" => (false, true),
            "wss" => (true, true),
            _ => return Err(refused()),
        };
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, format!("/{path}")),
            None => (rest, "/".to_owned()),
        };
        let clean = path.bytes().all(|byte| byte.is_ascii_graphic());
        let has_path = path.len() > 1;
        let (host, port) = authority.rsplit_once(':').ok_or_else(refused)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().map_err(|_| refused())?;
        if host.is_empty() || !clean || (has_path && !has_websocket) {
            return Err(refused());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            target: has_websocket.then_some(path),
            has_tls,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ST-129
    #[test]
    fn the_scheme_selects_and_what_contradicts_it_is_refused() {
        let wss: Endpoint = "wss://[::1]:9/some/path?x=1".parse().unwrap();
        assert_eq!(wss.authority(), "[::1]:9");
        assert_eq!(wss.target.as_deref(), Some("/some/path?x=1"));
        assert!(wss.has_tls);
        let tcp: Endpoint = "tcp://localhost:80".parse().unwrap();
        assert_eq!((tcp.target, tcp.has_tls), (None, false));
        for wrong in [
            "localhost:80",
            "http://a:1",
            "tcp://a",
            "tcp://:1",
            "tcp://a:1/x",
            "ws://a:b",
        ] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
    }
}
