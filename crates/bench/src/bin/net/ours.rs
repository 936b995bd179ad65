//! The mesh: node requests (17) and node sends (16) between two nodes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use spotlane_mesh::{
    Burst, Flow, Inbound, Mesh, MeshConfig, PeerEvent, PeerIntent, PeerLink, Received, ReplyHandle,
};
use spotlane_wire::Record;
use tokio::runtime::Runtime;

use crate::child::{Server, say};
use crate::node::{Load, answer, identity, runtime};
use crate::{Client, END, Out, Shape, handled, nanos, now};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Answers requests with their payload, counts everything else.
#[derive(Default)]
struct Host {
    handled: AtomicU64,
}

impl Host {
    fn take(&self, record: Record, reply: Option<ReplyHandle>) -> Flow {
        match (record, reply) {
            (Record::NodeRequest(request), Some(reply)) => {
                let answer = answer(request.correlation, request.payload);
                reply.answer(answer).ok();
            }
            (Record::NodeSend(send), _) => {
                let handled = self.handled.fetch_add(1, Ordering::Relaxed) + 1;
                if send.payload.payload.as_bytes().first() == Some(&END) {
                    self.handled.store(0, Ordering::Relaxed);
                    say(handled);
                }
            }
            _ => {}
        }
        Flow::Continue
    }
}

impl Inbound for Host {
    fn on_record(&self, received: Received) -> Flow {
        self.take(received.record, received.reply)
    }

    fn on_burst<'a>(&'a self, _: &'a PeerLink, _: usize) -> Option<Box<dyn Burst + 'a>> {
        Some(Box::new(Together(self)))
    }

    fn on_peer(&self, _: &PeerLink, _: PeerEvent) {}
}

/// Records that came together.
struct Together<'a>(&'a Host);

impl Burst for Together<'_> {
    fn on_record(&mut self, record: Record, reply: Option<ReplyHandle>) -> Flow {
        self.0.take(record, reply)
    }
}

pub async fn serve() {
    let mesh = Mesh::start(MeshConfig::new(identity("a-server")), Host::default())
        .await
        .unwrap();
    let endpoint = mesh.advertised_endpoint().as_str().to_owned();
    say(endpoint.rsplit(':').next().unwrap());
    std::future::pending::<()>().await;
}

pub struct Ours {
    runtime: Runtime,
    /// Ends with the bench.
    _mesh: Mesh,
    link: PeerLink,
    server: Server,
}

impl Ours {
    pub fn new(server: Server, port: u16) -> Self {
        let runtime = runtime();
        let (mesh, link) = runtime.block_on(async {
            let peer = PeerIntent::manual(&format!("tcp://127.0.0.1:{port}"), None).unwrap();
            let config = MeshConfig::new(identity("b-client")).peer(peer);
            let mesh = Mesh::start(config, Host::default()).await.unwrap();
            let mut peers = mesh.watch_peers();
            let link = peers.wait_for(|peers| !peers.is_empty()).await.unwrap()[0]
                .link
                .clone();
            (mesh, link)
        });
        Self {
            runtime,
            _mesh: mesh,
            link,
            server,
        }
    }
}

impl Client for Ours {
    fn requests(&mut self, payload: usize, depth: usize, shape: Shape, time: Duration) -> Out {
        let load = Load::new(Bytes::from(vec![1; payload]));
        match shape {
            Shape::Pipelined => {
                let task = pipelined(self.link.clone(), load, depth, time);
                self.runtime.block_on(self.runtime.spawn(task)).unwrap()
            }
            Shape::Callers => {
                let start = now();
                let next = Arc::new(AtomicU64::new(1));
                let callers: Vec<_> = (0..depth)
                    .map(|_| {
                        let (link, load) = (self.link.clone(), load.clone());
                        let next = Arc::clone(&next);
                        self.runtime.spawn(async move {
                            let mut latencies = Vec::with_capacity(4096);
                            let mut last = now();
                            while last - start < time {
                                let correlation = next.fetch_add(1, Ordering::Relaxed);
                                let request = load.request(correlation);
                                link.request(request, TIMEOUT).await.unwrap();
                                let done = now();
                                latencies.push(nanos(last, done));
                                last = done;
                            }
                            latencies
                        })
                    })
                    .collect();
                let done = callers
                    .into_iter()
                    .map(|it| self.runtime.block_on(it).unwrap());
                let latencies = done.flatten().collect();
                Out {
                    seconds: start.elapsed().as_secs_f64(),
                    latencies,
                }
            }
        }
    }

    fn one_way(&mut self, payload: usize, time: Duration) -> f64 {
        let start = now();
        let link = self.link.clone();
        let task = async move {
            let load = Load::new(Bytes::from(vec![1; payload]));
            while start.elapsed() < time {
                for _ in 0..64 {
                    // Nearly always there is room, and nothing to wait for.
                    if let Err(refused) = link.submit(load.send()) {
                        link.send(*refused.record, Some(TIMEOUT)).await.unwrap();
                    }
                }
            }
            let last = Load::new(Bytes::from(vec![END; payload])).send();
            link.send(last, Some(TIMEOUT)).await.unwrap();
        };
        self.runtime.block_on(self.runtime.spawn(task)).unwrap();
        handled(&mut self.server) / start.elapsed().as_secs_f64()
    }
}

async fn pipelined(link: PeerLink, load: Load, depth: usize, time: Duration) -> Out {
    let mut open = VecDeque::with_capacity(depth);
    let mut latencies = Vec::with_capacity(1 << 18);
    let start = now();
    let mut correlation = 0;
    let mut ask = |at| {
        correlation += 1;
        let asked = link.ask(load.request(correlation), TIMEOUT).unwrap();
        (at, asked)
    };
    for _ in 0..depth {
        open.push_back(ask(now()));
    }
    while let Some((at, asked)) = open.pop_front() {
        asked.await.unwrap();
        let done = now();
        latencies.push(nanos(at, done));
        if done - start < time {
            open.push_back(ask(done));
        }
    }
    Out {
        seconds: start.elapsed().as_secs_f64(),
        latencies,
    }
}
