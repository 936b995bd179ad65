//! TLS below the frames: who passes, who does not, and who stops half way.
#![expect(clippy::unwrap_used, reason = "the fixtures of tests")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::{PATIENCE, body, echoing, identity, node_request, node_send, payload, start, watch};
use spotlane_mesh::proto::zmp::{ConnectionEnd, Refusal};
use spotlane_mesh::{
    ClientCertificate, Diagnostic, MeshClock, MeshConfig, PeerIntent, PemIdentity, TlsSettings,
};
use spotlane_types::id::SecurityIdentity;

const SECOND: Duration = Duration::from_secs(1);

struct Authority {
    chain: String,
    key: String,
    root: String,
}

/// A certificate for a host name, signed by an authority of its own.
fn certificate(host: &str) -> Authority {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let root_key = KeyPair::generate().unwrap();
    let mut root = CertificateParams::new(vec![]).unwrap();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root_cert = root.self_signed(&root_key).unwrap();
    let issuer = Issuer::from_params(&root, &root_key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![host.to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    Authority {
        chain: leaf.pem(),
        key: key.serialize_pem(),
        root: root_cert.pem(),
    }
}

fn tls(of: &Authority, believes: &Authority, clients: ClientCertificate) -> TlsSettings {
    let identity = PemIdentity {
        chain: of.chain.as_bytes(),
        key: of.key.as_bytes(),
    };
    let settings =
        TlsSettings::from_pem(Some(identity), Some(believes.root.as_bytes()), clients).unwrap();
    settings.host_name("mesh.test")
}

fn secured(name: &str, run: u64, settings: TlsSettings) -> MeshConfig {
    let mut identity = identity(name, run);
    identity.descriptor.security_identity = SecurityIdentity::new("mesh.test").unwrap();
    let config = MeshConfig::new(identity)
        .listen("tls://127.0.0.1:0")
        .unwrap();
    config.tls(settings)
}

/// TR-63, TR-64: the same records under TLS, with certificates on both sides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_travel_under_tls() {
    let authority = certificate("mesh.test");
    let settings = || tls(&authority, &authority, ClientCertificate::Required);
    let mut a = start(secured("a", 1, settings()), echoing()).await;
    let b = start(secured("b", 2, settings()).peer(a.intent()), echoing()).await;
    let link = b.admitted("a").await;
    let large = Bytes::from(vec![9; 3_000_000]);
    let reply = link
        .request(node_request(1, large.clone()), 10 * SECOND)
        .await
        .unwrap();
    assert_eq!(reply.payload, Some(payload(large)));
    for number in 0..1000_u32 {
        link.send(node_send(number.to_be_bytes().to_vec()), None)
            .await
            .unwrap();
    }
    for number in 0..1000_u32 {
        assert_eq!(body(&a.record().await.record)[..], number.to_be_bytes());
    }
    b.mesh.shutdown(5 * SECOND).await;
    a.gone("b").await;
}

/// TR-64, TR-65: a foreign authority, a missing client certificate or a plain peer touch no peer, and the
/// dialler goes on trying.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_tls_handshake_is_a_diagnostic() {
    let (ours, foreign) = (certificate("mesh.test"), certificate("mesh.test"));
    let required = ClientCertificate::Required;
    let mut a = start(secured("a", 1, tls(&ours, &ours, required)), watch()).await;
    let without = TlsSettings::from_pem(None, Some(ours.root.as_bytes()), required).unwrap();
    let without = without.host_name("mesh.test");
    let plain = MeshConfig::new(identity("c", 4));
    for config in [
        secured("b", 2, tls(&ours, &foreign, required)).peer(a.intent()),
        MeshConfig::new(identity("b", 3))
            .tls(without)
            .peer(a.intent()),
        plain.peer(
            PeerIntent::manual(
                &a.mesh.advertised_endpoint().as_str().replace("tls", "tcp"),
                None,
            )
            .unwrap(),
        ),
    ] {
        let b = start(config, watch()).await;
        // More than one, so the dialler has come back.
        for _ in 0..3 {
            let diagnostic = a.diagnostic().await;
            assert!(
                matches!(diagnostic, Diagnostic::NotSecured { .. }),
                "{diagnostic:?}"
            );
        }
        assert!(a.mesh.peers().is_empty() && b.mesh.peers().is_empty());
        drop(b);
        // What the last one left behind is not for the next one.
        while a.seen.try_recv().is_ok() {}
    }
}

/// TR-26, TR-56, TR-65: the timer of a connection runs from its start, whatever there is before its first frame. A node that
/// is dialled and never shakes hands is a lost attempt, and the dialler comes again.
#[tokio::test]
async fn an_endpoint_that_never_shakes_hands_is_dialled_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("tls://{}", listener.local_addr().unwrap());
    let authority = certificate("mesh.test");
    let settings = tls(&authority, &authority, ClientCertificate::Off);
    let config = secured("a", 1, settings).clock(common::fast());
    let intent = PeerIntent::manual(&endpoint, None).unwrap();
    let mut a = start(config.peer(intent), watch()).await;
    let mut silent = Vec::new();
    // Both lanes, three times.
    for _ in 0..6 {
        let accepted = tokio::time::timeout(PATIENCE, listener.accept()).await;
        silent.push(accepted.expect("it comes again").unwrap());
    }
    let diagnostic = a.diagnostic().await;
    assert!(
        matches!(
            diagnostic,
            Diagnostic::NotDialled {
                error: std::io::ErrorKind::TimedOut,
                ..
            }
        ),
        "{diagnostic:?}"
    );
}

/// Waits for the end of a stream that nobody may wait for long.
fn ends(stream: &mut std::net::TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut rest = Vec::new();
    match std::io::Read::read_to_end(stream, &mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// TR-26, TR-65: who stops somewhere in the handshake of TLS, resets it, says something else or does not go on behind it
/// is gone when the timer of its connection is over, which the handshake does not start anew; and touches nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_tls_handshake_ends_with_the_timer_of_its_connection() {
    use std::io::Write as _;
    let authority = certificate("mesh.test");
    let settings = || tls(&authority, &authority, ClientCertificate::Off);
    let clock = MeshClock::faster(1);
    let config = secured("a", 1, settings()).clock(clock.clone());
    let mut a = start(config, echoing()).await;
    let endpoint = a.mesh.advertised_endpoint().as_str().to_owned();
    let address: std::net::SocketAddr = endpoint.strip_prefix("tls://").unwrap().parse().unwrap();
    let mut roots = rustls::RootCertStore::empty();
    let root = rustls::pki_types::pem::PemObject::from_pem_slice(authority.root.as_bytes());
    roots.add(root.unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = Arc::new(client);
    let jump = clock.clone();
    let shaken = tokio::task::spawn_blocking(move || {
        let name = rustls::pki_types::ServerName::try_from("mesh.test").unwrap();
        let mut session = rustls::ClientConnection::new(client, name).unwrap();
        let mut tcp = std::net::TcpStream::connect(address).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        session.write_tls(&mut tcp).unwrap();
        // The answer shows that the connection has begun.
        session.read_tls(&mut tcp).unwrap();
        jump.jump(29 * SECOND);
        session.process_new_packets().unwrap();
        session.complete_io(&mut tcp).unwrap();
        jump.jump(2 * SECOND);
        // Half a HELLO, so that the node looks at its clock.
        session.writer().write_all(&[0x5A]).unwrap();
        session.complete_io(&mut tcp).unwrap();
        ends(&mut tcp)
    });
    assert!(shaken.await.unwrap(), "the node has closed it");
    let diagnostic = a.diagnostic().await;
    assert_eq!(
        diagnostic,
        Diagnostic::NotAccepted {
            end: ConnectionEnd::Refused(Refusal::HandshakeTimeout)
        }
    );
    let b = start(secured("b", 2, settings()).peer(a.intent()), watch()).await;
    let link = b.admitted("a").await;
    for part in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xFF; 4096],
    ] {
        let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut tcp = tcp.into_std().unwrap();
        tcp.set_nonblocking(false).unwrap();
        tcp.write_all(part).unwrap();
        // A reset, and not an end.
        socket2::SockRef::from(&tcp)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        drop(tcp);
        let diagnostic = a.diagnostic().await;
        assert!(
            matches!(diagnostic, Diagnostic::NotSecured { .. }),
            "{diagnostic:?}"
        );
    }
    let reply = link.request(node_request(1, "x"), 10 * SECOND).await;
    assert!(reply.is_ok(), "{reply:?}");
}
