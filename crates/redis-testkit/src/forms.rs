//! The other forms of a deployment: Cluster, Sentinel, TLS, ACL.

use std::path::PathBuf;

use rcgen::{CertifiedKey, generate_simple_self_signed};

use crate::KitError;
use crate::server::{Server, Setup, TlsFiles};

/// How often the state of a cluster or a replica is asked for, 50 ms apart.
const STATE_TRIES: usize = 600;

/// Three masters that share the slots.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    /// Starts it and waits until every server says that the cluster is whole.
    ///
    /// # Errors
    /// [`KitError`] when no server is installed or it does not come together.
    pub fn start() -> Result<Self, KitError> {
        let arguments = [
            "--save",
            "",
            "--appendonly",
            "no",
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "5000",
        ];
        let servers = (0..3)
            .map(|_| Server::start_with(&arguments))
            .collect::<Result<Vec<_>, _>>()?;
        let ranges = [("0", "5460"), ("5461", "10922"), ("10923", "16383")];
        for (epoch, (server, (from, to))) in (1..).zip(servers.iter().zip(ranges)) {
            let epoch: i32 = epoch;
            server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch.to_string()])?;
            server.command(&["CLUSTER", "ADDSLOTSRANGE", from, to])?;
        }
        if let Some((first, others)) = servers.split_first() {
            for other in others {
                let port = other.address().port().to_string();
                first.command(&["CLUSTER", "MEET", "127.0.0.1", &port])?;
            }
        }
        for server in &servers {
            wait_until(server, &["CLUSTER", "INFO"], |text| {
                text.contains("cluster_state:ok") && text.contains("cluster_known_nodes:3")
            })?;
        }
        Ok(Self { servers })
    }

    /// `redis-cluster://…` with all three.
    pub fn url(&self) -> String {
        let mut addresses = self
            .servers
            .iter()
            .map(|server| server.address().to_string());
        let first = addresses.next().unwrap_or_default();
        let others: Vec<_> = addresses.map(|address| format!("node={address}")).collect();
        format!("redis-cluster://{first}?{}", others.join("&"))
    }

    /// The servers.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }
}

/// A master, a replica and a Sentinel that watches them.
#[derive(Debug)]
pub struct Sentinel {
    master: Server,
    replica: Server,
    watcher: Server,
}

impl Sentinel {
    const NAME: &'static str = "main";

    /// Starts them and waits until the replica follows and the Sentinel knows it.
    ///
    /// # Errors
    /// [`KitError`] when no server is installed or one does not start.
    pub fn start() -> Result<Self, KitError> {
        let master = Server::start_with(&["--save", "", "--repl-diskless-sync-delay", "0"])?;
        let port = master.address().port().to_string();
        let replica = Server::start_with(&["--save", "", "--replicaof", "127.0.0.1", &port])?;
        wait_until(&replica, &["INFO", "replication"], |text| {
            text.contains("master_link_status:up")
        })?;
        let name = Self::NAME;
        let configuration = format!(
            "sentinel monitor {name} 127.0.0.1 {port} 1\nsentinel down-after-milliseconds {name} 1000\n\
             sentinel failover-timeout {name} 10000\n"
        );
        let watcher = Server::start_setup(Setup {
            sentinel: Some(configuration),
            ..Setup::default()
        })?;
        let known = Self {
            master,
            replica,
            watcher,
        };
        known.wait_for_replica()?;
        Ok(known)
    }

    fn wait_for_replica(&self) -> Result<(), KitError> {
        // The Sentinel has no command that waits, so the master lends one between two looks.
        for _ in 0..STATE_TRIES {
            let known = self
                .watcher
                .command(&["SENTINEL", "REPLICAS", Self::NAME])?;
            if !known.parts().is_empty() {
                return Ok(());
            }
            pause(&self.master);
        }
        Err(KitError::NotStarted {
            reason: "the sentinel does not see the replica".to_owned(),
        })
    }

    /// The Sentinel knows the replica before it knows that the replica is a good one, and refuses in between.
    fn order_fail_over(&self) -> Result<(), KitError> {
        let mut last = KitError::NotStarted {
            reason: "no fail-over was ordered".to_owned(),
        };
        for _ in 0..STATE_TRIES {
            match self.watcher.command(&["SENTINEL", "FAILOVER", Self::NAME]) {
                Ok(_) => return Ok(()),
                Err(error @ KitError::Refused { .. }) => last = error,
                Err(error) => return Err(error),
            }
            pause(&self.master);
        }
        Err(last)
    }

    /// Makes the replica the master and waits until it is.
    ///
    /// # Errors
    /// [`KitError`] when the Sentinel refuses or nothing happens.
    pub fn fail_over(&self) -> Result<(), KitError> {
        self.order_fail_over()?;
        wait_until(&self.replica, &["INFO", "replication"], |text| {
            text.contains("role:master")
        })?;
        for _ in 0..STATE_TRIES {
            let address =
                self.watcher
                    .command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME])?;
            let port = address
                .parts()
                .get(1)
                .map(crate::Reply::text)
                .unwrap_or_default();
            if port == self.replica.address().port().to_string() {
                return Ok(());
            }
            pause(&self.replica);
        }
        Err(KitError::NotStarted {
            reason: "the fail-over did not end".to_owned(),
        })
    }

    /// `redis-sentinel://…`.
    pub fn url(&self) -> String {
        let address = self.watcher.address();
        format!(
            "redis-sentinel://{address}?sentinelServiceName={}",
            Self::NAME
        )
    }
}

/// A server that speaks TLS, with a certificate of its own.
#[derive(Debug)]
pub struct TlsServer {
    server: Server,
}

impl TlsServer {
    /// Makes a certificate for `localhost` and starts the server with it.
    ///
    /// # Errors
    /// [`KitError`] when no server is installed or it does not start.
    pub fn start() -> Result<Self, KitError> {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(names).map_err(|error| KitError::NotStarted {
                reason: error.to_string(),
            })?;
        let tls = TlsFiles {
            certificate: cert.pem(),
            key: signing_key.serialize_pem(),
        };
        let arguments = ["--save", "", "--appendonly", "no"]
            .map(ToOwned::to_owned)
            .to_vec();
        let setup = Setup {
            arguments,
            tls: Some(tls),
            ..Setup::default()
        };
        Ok(Self {
            server: Server::start_setup(setup)?,
        })
    }

    /// `rediss://localhost:PORT`, without the authority to trust.
    pub fn url(&self) -> String {
        format!("rediss://localhost:{}", self.server.address().port())
    }

    /// The certificate to trust.
    pub fn authority(&self) -> PathBuf {
        self.server.folder().join("tls.crt")
    }
}

/// Lets the server wait 50 ms: a master for more replicas than there are, a replica for a stream that nobody writes.
fn pause(server: &Server) {
    let Ok(mut client) = server.client() else {
        return;
    };
    if client.command(&["WAIT", "9", "50"]).is_err() {
        drop(client.command(&["XREAD", "BLOCK", "50", "STREAMS", "spotlane-testkit", "$"]));
    }
}

fn wait_until(
    server: &Server,
    question: &[&str],
    is_so: impl Fn(&str) -> bool,
) -> Result<(), KitError> {
    let mut last = String::new();
    for _ in 0..STATE_TRIES {
        // A server that changes its role closes its connections, so each look has one of its own.
        match server.command(question) {
            Ok(answer) if is_so(&answer.text()) => return Ok(()),
            Ok(answer) => last = answer.text(),
            Err(error) => last = error.to_string(),
        }
        pause(server);
    }
    Err(KitError::NotStarted {
        reason: format!("the state did not come: {last}"),
    })
}
