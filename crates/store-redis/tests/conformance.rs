//! The exported suite on real servers of every form (ST-30, ST-40).

#![expect(clippy::unwrap_used, reason = "a test file")]
#![expect(
    dead_code,
    reason = "this file needs a part of what the test files share"
)]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{open, open_within};
use spotlane_redis_testkit::{Cluster, Sentinel, Server, TlsServer};
use spotlane_store_conformance::{
    CuttingProxy, LossyNetwork, RelocationSubject, Restarted, Subject, check_relocation,
    check_store,
};
use spotlane_store_redis::{RedisOptions, RedisRelocation, RedisStore};

/// A deployment under test: some nodes, each with a connection of its own.
struct OnRedis {
    url: String,
    nodes: Mutex<Vec<RedisStore>>,
    server: Option<Mutex<Server>>,
    proxy: Option<(CuttingProxy, RedisStore)>,
}

const NODES: usize = 4;

impl OnRedis {
    fn new(url: &str) -> Self {
        let nodes = Mutex::new((0..NODES).map(|_| open(url)).collect());
        Self {
            url: url.to_owned(),
            nodes,
            server: None,
            proxy: None,
        }
    }
}

impl Subject for OnRedis {
    type Provider = RedisStore;

    fn node(&self) -> RedisStore {
        let mut nodes = self.nodes.lock().unwrap();
        nodes.rotate_left(1);
        nodes.first().unwrap().clone()
    }

    async fn pass(&self, by: Duration) {
        // Sleep: the server's clock cannot be moved; that time passes is the event.
        tokio::time::sleep(by).await;
    }

    async fn restart(&self) -> Restarted {
        let Some(server) = &self.server else {
            return Restarted::NothingOutlivesIt;
        };
        server.lock().unwrap().restart().unwrap();
        *self.nodes.lock().unwrap() = vec![open(&self.url)];
        Restarted::RecordsAreThere
    }

    fn lossy(&self) -> Option<(RedisStore, &dyn LossyNetwork)> {
        let (proxy, store) = self.proxy.as_ref()?;
        Some((store.clone(), proxy))
    }
}

/// ST-30, ST-40; with a proxy that cuts (ST-7) and a restart after SIGKILL (ST-9).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standalone_passes() {
    let server = Server::start_durable().unwrap();
    let proxy = CuttingProxy::start(server.address(), b"EVAL")
        .await
        .unwrap();
    let behind = open_within(
        &format!("redis://{}", proxy.address()),
        Duration::from_secs(10),
    );
    let mut subject = OnRedis::new(&server.url());
    subject.proxy = Some((proxy, behind));
    subject.server = Some(Mutex::new(server));
    check_store(&subject).await.unwrap();
}

/// ST-30, ST-31: the whole domain is one slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_passes() {
    let cluster = Cluster::start().unwrap();
    check_store(&OnRedis::new(&cluster.url())).await.unwrap();
}

/// ST-30.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_passes() {
    let sentinel = Sentinel::start().unwrap();
    check_store(&OnRedis::new(&sentinel.url())).await.unwrap();
}

/// ST-30.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_passes() {
    let server = TlsServer::start().unwrap();
    let url = format!("{}?tls-ca={}", server.url(), server.authority().display());
    check_store(&OnRedis::new(&url)).await.unwrap();
}

struct BlobsOnRedis(Arc<[RedisRelocation]>);

impl BlobsOnRedis {
    fn new(url: &str) -> Self {
        let options = RedisOptions::new(url, "app1").operation_timeout(common::PATIENCE);
        Self(
            (0..NODES)
                .map(|_| RedisRelocation::open(&options).unwrap())
                .collect(),
        )
    }
}

impl RelocationSubject for BlobsOnRedis {
    type Provider = RedisRelocation;

    fn node(&self) -> RedisRelocation {
        self.0.first().unwrap().clone()
    }

    async fn pass(&self, by: Duration) {
        // Sleep: the server's clock cannot be moved; that time passes is the event.
        tokio::time::sleep(by).await;
    }
}

/// ST-92.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relocation_passes() {
    let server = Server::start().unwrap();
    check_relocation(&BlobsOnRedis::new(&server.url()))
        .await
        .unwrap();
}

/// ST-92.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relocation_passes_on_a_cluster() {
    let cluster = Cluster::start().unwrap();
    check_relocation(&BlobsOnRedis::new(&cluster.url()))
        .await
        .unwrap();
}
