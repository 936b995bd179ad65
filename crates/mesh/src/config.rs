//! What a mesh is started with.

use std::num::NonZeroU64;
use std::time::Duration;

use spotlane_mesh_proto::bound::{CONNECTIONS_MAX, PENDING_MAX};
use spotlane_mesh_proto::name;
use spotlane_mesh_proto::peers::RedialPolicy;
use spotlane_mesh_proto::zmp::{Edition, Opening};
use spotlane_types::id::{Endpoint, NodeRid, ProtocolCapability};
use spotlane_wire::descriptor::RouteMeshAdmission;

use crate::clock::MeshClock;
use crate::error::ConfigError;
use crate::intent::PeerIntent;
use crate::tls::TlsSettings;

/// Who this node is: its routing id and the descriptor that its peers admit.
///
/// `advertised_endpoint` of the descriptor is replaced by the endpoint that the node really has, since
/// a port of 0 is known only after listening (TR-62).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct NodeIdentity {
    /// The routing id, sent in HELLO (TR-11).
    pub rid: NodeRid,
    /// Mesh name, run, revision, channels and the rest (TR-70).
    pub descriptor: RouteMeshAdmission,
}

impl NodeIdentity {
    /// The identity of a node that nobody has named: its id is drawn (TR-12).
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn unnamed(descriptor: RouteMeshAdmission) -> Result<Self, ConfigError> {
        let rid = crate::random::drawn().and_then(|random| name::unnamed(random).ok());
        let rid = rid.ok_or(ConfigError::NoRandomNumbers)?;
        Ok(Self { rid, descriptor })
    }
}

/// The bounds of a mesh; each limits memory that a peer or a caller could make grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// Charge that may wait to be written to one peer on the Application lane; 4,096,000 (TR-50).
    pub send_charge_max: u64,
    /// Requests to one peer that may wait for their reply; 65,536.
    pub pending_max: usize,
    /// Accepted connections at the same time; 16,384.
    pub connections_max: usize,
    /// The largest frame that is taken, and in E2 the largest message; none (TR-54).
    pub receive_limit: Option<NonZeroU64>,
    /// Bytes that are read from one peer in one piece, and so the most that waits for an [`Inbound`]
    /// that takes nothing besides a frame that is still coming in; 256 KiB (TR-52). A peer of E2 is
    /// told to pause, and what it sends before it does is read on, up to `send_charge_max`, since its
    /// probes come behind it (TR-46).
    ///
    /// [`Inbound`]: crate::Inbound
    pub receive_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            send_charge_max: 4_096_000,
            pending_max: PENDING_MAX,
            connections_max: CONNECTIONS_MAX,
            receive_limit: None,
            receive_bytes: 256 * 1024,
        }
    }
}

/// What a mesh is started with; the defaults are the contract's.
#[derive(Clone, Debug)]
pub struct MeshConfig {
    pub(crate) identity: NodeIdentity,
    pub(crate) listen: String,
    pub(crate) advertise: Option<Endpoint>,
    pub(crate) required: Option<ProtocolCapability>,
    pub(crate) opening: Opening,
    pub(crate) tls: Option<TlsSettings>,
    pub(crate) peers: Vec<PeerIntent>,
    pub(crate) bounds: Bounds,
    pub(crate) redial: RedialPolicy,
    pub(crate) send_timeout: Duration,
    pub(crate) seed: u64,
    pub(crate) clock: MeshClock,
}

impl MeshConfig {
    /// A node that listens on `tcp://127.0.0.1:0` and knows no peer.
    pub fn new(identity: NodeIdentity) -> Self {
        Self {
            identity,
            listen: "tcp://127.0.0.1:0".to_owned(),
            advertise: None,
            required: None,
            opening: Opening::Fixed(Edition::E1),
            tls: None,
            peers: Vec::new(),
            bounds: Bounds::default(),
            redial: RedialPolicy::Steady,
            send_timeout: Duration::from_secs(1),
            seed: 0,
            clock: MeshClock::system(),
        }
    }

    /// Where to listen: `tcp://host:port` or `tls://host:port`; port 0 takes a free one (TR-62).
    ///
    /// # Errors
    /// The text has another form.
    pub fn listen(mut self, endpoint: &str) -> Result<Self, ConfigError> {
        parse_endpoint(endpoint)?;
        endpoint.clone_into(&mut self.listen);
        Ok(self)
    }

    /// What others dial, when it differs from where this node listens (TR-62).
    ///
    /// # Errors
    /// The text has another form, or its host or port is a wildcard.
    pub fn advertise(mut self, endpoint: &str) -> Result<Self, ConfigError> {
        let (parsed, address) = parse_endpoint(endpoint)?;
        address.check_dialable()?;
        self.advertise = Some(parsed);
        Ok(self)
    }

    /// The capability that a peer must have; `framework-service-v13` (TR-81).
    #[must_use]
    pub fn required_capability(mut self, capability: ProtocolCapability) -> Self {
        self.required = Some(capability);
        self
    }

    /// Which edition of the transport this node speaks; E1 alone (TR-1). With [`Opening::Neutral`] each
    /// connection speaks what its peer does, and E1 where the peer speaks both (TR-2). Nodes without a
    /// common edition are not connected (TR-3).
    #[must_use]
    pub const fn opening(mut self, opening: Opening) -> Self {
        self.opening = opening;
        self
    }

    /// TLS for `tls` endpoints, ours and those of peers; none (TR-63, TR-64).
    #[must_use]
    pub fn tls(mut self, settings: TlsSettings) -> Self {
        self.tls = Some(settings);
        self
    }

    /// Adds a peer that is dialled as long as the mesh runs, besides those of `set_peers`.
    #[must_use]
    pub fn peer(mut self, peer: PeerIntent) -> Self {
        self.peers.push(peer);
        self
    }

    /// Bounds of queues and tables.
    #[must_use]
    pub const fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// How long a dialler waits between two attempts (TR-56).
    #[must_use]
    pub const fn redial(mut self, policy: RedialPolicy) -> Self {
        self.redial = policy;
        self
    }

    /// How long a send waits for room at most; 1 s (EX-266). A caller can only shorten it (EX-267).
    ///
    /// # Errors
    /// The time is zero or above 2^31 - 1 milliseconds.
    pub fn send_timeout(mut self, timeout: Duration) -> Result<Self, ConfigError> {
        let most = Duration::from_millis(i32::MAX.unsigned_abs().into());
        if timeout.is_zero() || timeout > most {
            return Err(ConfigError::SendTimeout { timeout });
        }
        self.send_timeout = timeout;
        Ok(self)
    }

    /// Where the random numbers of this node start: pair ids, probe ids and the jitter of redials.
    /// Two runs of a node must not have the same.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The clock; that of the system.
    #[must_use]
    pub fn clock(mut self, clock: MeshClock) -> Self {
        self.clock = clock;
        self
    }
}

/// An endpoint taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) scheme: Scheme,
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Tcp,
    Tls,
}

impl Address {
    /// TR-62: a wildcard never leaves the node.
    pub(crate) fn check_dialable(&self) -> Result<(), ConfigError> {
        if self.port == 0 || matches!(&self.host[..], "0.0.0.0" | "::" | "*") {
            return Err(ConfigError::Wildcard {
                endpoint: self.to_string(),
            });
        }
        Ok(())
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = match self.scheme {
            Scheme::Tcp => "tcp",
            Scheme::Tls => "tls",
        };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

/// TR-62: `tcp://host:port` or `tls://host:port`, an IPv6 host in brackets.
pub(crate) fn parse_endpoint(text: &str) -> Result<(Endpoint, Address), ConfigError> {
    let malformed = || ConfigError::Endpoint {
        endpoint: text.to_owned(),
    };
    let (scheme, rest) = text.split_once("://").ok_or_else(malformed)?;
    let scheme = match scheme {
        "tcp" => Scheme::Tcp,
        "tls" => Scheme::Tls,
        _ => return Err(malformed()),
    };
    let (host, port) = rest.rsplit_once(':').ok_or_else(malformed)?;
    let port = port.parse().map_err(|_| malformed())?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .or_else(|| (!host.contains(':')).then_some(host))
        .filter(|host| !host.is_empty())
        .ok_or_else(malformed)?;
    let address = Address {
        scheme,
        host: host.to_owned(),
        port,
    };
    let endpoint = Endpoint::new(text).map_err(|_| malformed())?;
    Ok((endpoint, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-62
    #[test]
    fn endpoints_have_a_scheme_a_host_and_a_port() {
        for text in [
            "tcp://127.0.0.1:0",
            "tls://mesh.test:7000",
            "tcp://[::1]:9",
            "tcp://*:7",
        ] {
            let (endpoint, address) = parse_endpoint(text).unwrap();
            assert_eq!(
                (endpoint.as_str(), address.to_string()),
                (text, text.to_owned())
            );
        }
        for text in [
            "",
            "127.0.0.1:7",
            "udp://a:7",
            "tcp://a",
            "tcp://:7",
            "tcp://::1:7",
            "tcp://a:x",
        ] {
            let refused = parse_endpoint(text).unwrap_err();
            let endpoint = text.to_owned();
            assert_eq!(refused, ConfigError::Endpoint { endpoint });
        }
    }

    /// TR-12
    #[test]
    fn a_node_without_a_name_draws_a_v4_id_of_its_own() {
        let drawn = || crate::random::drawn().map(name::unnamed).unwrap().unwrap();
        let (one, other) = (drawn(), drawn());
        assert_ne!(one, other);
        for id in [one, other] {
            let bytes = id.as_bytes();
            assert_eq!((bytes.len(), bytes[6] >> 4, bytes[8] >> 6), (16, 4, 2));
        }
    }

    /// TR-62: what others cannot dial is not advertised.
    #[test]
    fn a_wildcard_is_not_dialable() {
        for text in ["tcp://0.0.0.0:7", "tcp://[::]:7", "tcp://*:7", "tcp://a:0"] {
            let (_, address) = parse_endpoint(text).unwrap();
            assert!(matches!(
                address.check_dialable(),
                Err(ConfigError::Wildcard { .. })
            ));
        }
        let (_, address) = parse_endpoint("tcp://a:7").unwrap();
        assert_eq!(address.check_dialable(), Ok(()));
    }
}
