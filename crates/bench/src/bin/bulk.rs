//! Relocation chunks over loopback: 256 KiB each, between two processes. The mesh sends them through its
//! bulk queue with the budget of a host, and both sides compute CRC-32C over all of them; the peer is a plain tokio
//! connection that writes the same bytes, with and without CRC.
#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "a bench may fail, and speaks to its parent"
)]

#[path = "net/child.rs"]
mod child;
#[path = "net/node.rs"]
mod node;

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use child::{Server, say};
use node::Load;
use spotlane_mesh::{
    Flow, Inbound, Mesh, MeshConfig, PeerEvent, PeerIntent, PeerLink, Received, Written,
};
use spotlane_wire::Record;
use spotlane_wire::checksum::Crc32c;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

const CHUNK: usize = 256 * 1024;
/// Distinct chunks that the sender walks through: beyond the caches, as the state of an actor is.
const POOL: usize = 128;
/// The chunks that may be in flight, from the submit until the socket took their bytes. A host's budget for each peer is 16 MiB
/// as it comes; with 4 MiB a chunk is still in the caches from its checksum when the system copies it.
const IN_FLIGHT: [(&str, usize); 2] = [("4 MiB", 15), ("16 MiB", 63)];
const TIMEOUT: Duration = Duration::from_secs(20);

/// Whether both sides check what travels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    Off,
    Crc,
}

fn main() -> ExitCode {
    if child::serve_if_asked(serve) {
        return ExitCode::SUCCESS;
    }
    spotlane_bench::main(|bench| {
        let quick = bench.slice() < Duration::from_millis(50);
        let chunks = if quick { 1024 } else { 4096 };
        for (budget, in_flight) in IN_FLIGHT {
            let mebibytes = chunks * CHUNK / (1 << 20);
            let name = format!("bulk, {mebibytes} MiB, {budget} in flight");
            bench
                .figure(name, "MB/s", ours(chunks, in_flight))
                .peer("tokio", tokio_peer(chunks, Check::Off))
                .peer("tokio with CRC", tokio_peer(chunks, Check::Crc));
        }
    })
}

fn serve(peer: String, _: String, runtime: &Runtime) {
    match &peer[..] {
        "ours" => runtime.spawn(serve_ours()),
        "tokio" => runtime.spawn(serve_tokio(Check::Off)),
        _ => runtime.spawn(serve_tokio(Check::Crc)),
    };
}

fn pool() -> Vec<Bytes> {
    let byte = |chunk: usize, at: usize| (chunk ^ at.wrapping_mul(2_654_435_761)).to_le_bytes()[0];
    (0..POOL)
        .map(|chunk| (0..CHUNK).map(|at| byte(chunk, at)).collect())
        .collect()
}

fn megabytes_per_second(chunks: usize, took: Duration) -> f64 {
    (chunks * CHUNK) as f64 / took.as_secs_f64() / 1e6
}

/// Computes over the chunks, and answers a request with the sum.
#[derive(Default)]
struct Host(Mutex<Crc32c>);

impl Inbound for Host {
    fn on_record(&self, received: Received) -> Flow {
        let mut crc = self.0.lock().unwrap();
        match (received.record, received.reply) {
            (Record::NodeSend(send), _) => crc.update(send.payload.payload.as_bytes()),
            (Record::NodeRequest(request), Some(reply)) => {
                let sum = std::mem::take(&mut *crc).value();
                let load = Load::new(Bytes::copy_from_slice(&sum.to_be_bytes()));
                reply.answer(load.reply(request.correlation)).unwrap();
            }
            _ => {}
        }
        Flow::Continue
    }

    fn on_peer(&self, _: &PeerLink, _: PeerEvent) {}
}

async fn serve_ours() {
    let config = MeshConfig::new(node::identity("a-server"));
    let mesh = Mesh::start(config, Host::default()).await.unwrap();
    let endpoint = mesh.advertised_endpoint().as_str().to_owned();
    say(endpoint.rsplit(':').next().unwrap());
    std::future::pending::<()>().await;
}

fn ours(chunks: usize, in_flight: usize) -> impl FnMut() -> f64 {
    let mut server = Server::start("ours", "bulk");
    let port = server.line();
    let runtime = node::runtime();
    let mesh = runtime.block_on(async {
        let peer = PeerIntent::manual(&format!("tcp://127.0.0.1:{port}"), None).unwrap();
        let config = MeshConfig::new(node::identity("b-client")).peer(peer);
        let mesh = Mesh::start(config, Host::default()).await.unwrap();
        let mut peers = mesh.watch_peers();
        drop(peers.wait_for(|peers| !peers.is_empty()).await.unwrap());
        mesh
    });
    let link = mesh.peers()[0].link.clone();
    let pool: Vec<Load> = pool().into_iter().map(Load::new).collect();
    move || {
        let _ends_with_the_bench = (&server, &mesh);
        let (link, pool) = (link.clone(), pool.clone());
        let start = spotlane_bench::now();
        let task = async move {
            let mut crc = Crc32c::default();
            let mut open = VecDeque::with_capacity(in_flight);
            for at in 0..chunks {
                let load = &pool[at % POOL];
                crc.update(load.bytes());
                if open.len() == in_flight
                    && let Some(first) = open.pop_front()
                {
                    assert_eq!(first.await, Written::Taken);
                }
                open.push_back(link.submit_bulk(load.send()).unwrap());
            }
            // The request would pass the chunks that wait.
            for last in open {
                assert_eq!(last.await, Written::Taken);
            }
            let request = Load::new(Bytes::new()).request(1);
            let reply = link.request(request, TIMEOUT).await.unwrap();
            let sum = reply.payload.unwrap().payload;
            assert_eq!(sum.as_bytes()[..], crc.value().to_be_bytes());
        };
        runtime.block_on(runtime.spawn(task)).unwrap();
        megabytes_per_second(chunks, start.elapsed())
    }
}

async fn serve_tokio(check: Check) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    say(listener.local_addr().unwrap().port());
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut buffer = vec![0; CHUNK];
    loop {
        let Ok(chunks) = stream.read_u32().await else {
            return;
        };
        let mut crc = Crc32c::default();
        for _ in 0..chunks {
            stream.read_exact(&mut buffer).await.unwrap();
            if check == Check::Crc {
                crc.update(&buffer);
            }
        }
        stream.write_u32(crc.value()).await.unwrap();
    }
}

fn tokio_peer(chunks: usize, check: Check) -> impl FnMut() -> f64 {
    let peer = match check {
        Check::Off => "tokio",
        Check::Crc => "tokio-crc",
    };
    let mut server = Server::start(peer, "bulk");
    let port: u16 = server.line().parse().unwrap();
    let runtime = node::runtime();
    let stream = runtime
        .block_on(TcpStream::connect(("127.0.0.1", port)))
        .unwrap();
    stream.set_nodelay(true).unwrap();
    let mut stream = Some(stream);
    let pool = pool();
    move || {
        let _ends_with_the_bench = &server;
        let pool = pool.clone();
        let mut open = stream.take().unwrap();
        let start = spotlane_bench::now();
        let task = async move {
            let mut crc = Crc32c::default();
            open.write_u32(u32::try_from(chunks).unwrap())
                .await
                .unwrap();
            for at in 0..chunks {
                let chunk = &pool[at % POOL];
                if check == Check::Crc {
                    crc.update(chunk);
                }
                open.write_all(chunk).await.unwrap();
            }
            assert_eq!(open.read_u32().await.unwrap(), crc.value());
            open
        };
        stream = Some(runtime.block_on(runtime.spawn(task)).unwrap());
        megabytes_per_second(chunks, start.elapsed())
    }
}
