//! Ordered connections between the nodes of a mesh, over TCP or TLS.
//!
//! [`Mesh::start`] listens, dials the peers it is told of, admits them, and hands every record that
//! comes in to an [`Inbound`]. Records go out with [`Mesh::submit`] and its relatives; those to one
//! peer arrive in the order in which they were submitted. All decisions about a link are made by
//! `spotlane-mesh-proto`; this crate moves bytes, timers and answers.
//!
//! It never resends a record, never moves one to another peer (TR-61), and interprets none beyond
//! the way it travels.
//!
//! Layer 3, async (tokio).
//!
//! ```no_run
//! use std::time::Duration;
//! use spotlane_mesh::{Flow, Inbound, Mesh, MeshConfig, NodeIdentity, PeerEvent, PeerIntent, PeerLink, Received};
//!
//! struct Print;
//! impl Inbound for Print {
//!     fn on_record(&self, received: Received) -> Flow {
//!         println!("{} from {:?}", received.record.name(), received.from.peer());
//!         Flow::Continue
//!     }
//!     fn on_peer(&self, link: &PeerLink, event: PeerEvent) {
//!         println!("{:?}: {event:?}", link.peer());
//!     }
//! }
//!
//! # async fn run(identity: NodeIdentity) -> Result<(), Box<dyn std::error::Error>> {
//! let config = MeshConfig::new(identity)
//!     .listen("tcp://127.0.0.1:0")?
//!     .peer(PeerIntent::manual("tcp://10.0.0.7:7000", None)?);
//! let mesh = Mesh::start(config, Print).await?;
//! println!("listening on {}", mesh.advertised_endpoint().as_str());
//! mesh.shutdown(Duration::from_secs(5)).await;
//! # Ok(()) }
//! ```

mod clock;
mod config;
mod dialer;
mod discovery;
mod error;
mod inbound;
mod intent;
mod link;
mod listener;
mod lock;
mod mesh;
mod node;
mod out;
mod random;
mod stream;
mod tls;
mod tracked;

pub use clock::MeshClock;
pub use config::{Bounds, MeshConfig, NodeIdentity};
pub use discovery::{Directory, DiscoverySettings, discover};
pub use error::{
    ConfigError, LostReason, NotAnswered, NotSubmitted, Recovery, Refused, RequestError, SendError,
    StartError,
};
pub use inbound::{Burst, Diagnostic, Flow, Inbound, PeerEvent, PeerLink, Received, ReplyHandle};
pub use intent::{DiscoveredNode, PeerIntent};
pub use link::Asked;
pub use mesh::{Mesh, PeerInfo};
pub use spotlane_mesh_proto as proto;
pub use spotlane_mesh_proto::link::ActorMessage;
pub use tls::{ClientCertificate, PemIdentity, TlsSettings};
pub use tracked::{Tracked, Written};
