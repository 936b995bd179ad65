//! Where something listens: `tcp://127.0.0.1:0`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A scheme and an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// What is spoken there, for example `tcp`.
    pub(crate) scheme: &'static str,
    /// Where; port 0 lets the system choose one.
    pub(crate) address: SocketAddr,
}

impl Endpoint {
    /// Reads `SCHEME://ADDRESS:PORT` with one of the schemes.
    pub(crate) fn read(text: &str, schemes: &[&'static str]) -> Result<Self, String> {
        let wrong = || {
            let form = schemes.join("|");
            format!(
                "{text:?} is no endpoint: write {form}://ADDRESS:PORT, for example \"{}://127.0.0.1:0\"",
                schemes[0]
            )
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let scheme = schemes
            .iter()
            .find(|known| **known == scheme)
            .ok_or_else(wrong)?;
        let address = address(rest).ok_or_else(wrong)?;
        Ok(Self { scheme, address })
    }

    /// Whether only this machine can reach it.
    pub(crate) fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.address)
    }
}

/// An IP address with its port, or `localhost:PORT`. Other names are not looked up: a node that starts before its name
/// server would listen somewhere else than one that starts after it.
fn address(text: &str) -> Option<SocketAddr> {
    if let Some(port) = text.strip_prefix("localhost:") {
        return Some(SocketAddr::new(
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            port.parse().ok()?,
        ));
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_read() {
        for (text, shown) in [
            ("tcp://127.0.0.1:0", "tcp://127.0.0.1:0"),
            ("ws://localhost:80", "ws://127.0.0.1:80"),
            ("tcp://[::1]:7000", "tcp://[::1]:7000"),
        ] {
            let endpoint = Endpoint::read(text, &["tcp", "ws"]).unwrap();
            assert_eq!(endpoint.to_string(), shown);
            assert!(endpoint.is_loopback());
        }
        assert!(
            !Endpoint::read("tcp://0.0.0.0:1", &["tcp"])
                .unwrap()
                .is_loopback()
        );
    }

    #[test]
    fn anything_else_is_refused_with_the_form_to_write() {
        for text in [
            "",
            "127.0.0.1:0",
            "tcp://",
            "tcp://host:1",
            "tcp://127.0.0.1",
            "tcp://127.0.0.1:65536",
            "udp://127.0.0.1:1",
        ] {
            let message = Endpoint::read(text, &["tcp", "tls"]).unwrap_err();
            assert!(message.contains("tcp|tls://ADDRESS:PORT"), "{message}");
        }
    }
}
