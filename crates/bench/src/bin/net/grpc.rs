//! tonic: unary calls, and a client stream for one-way messages.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server as GrpcServer};
use tonic::{Request, Response, Status, Streaming};

use crate::child::{Server, say};
use crate::node::runtime;
use crate::{Client, Out, Shape, nanos, now};

#[expect(clippy::pedantic, unused_qualifications, reason = "generated")]
mod stubs {
    include!(concat!(env!("OUT_DIR"), "/bench.Bench.rs"));
}
use stubs::bench_client::BenchClient;
use stubs::bench_server::{Bench, BenchServer};

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Blob {
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
}

struct Service;

#[tonic::async_trait]
impl Bench for Service {
    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new(request.into_inner()))
    }

    async fn sink(&self, request: Request<Streaming<Blob>>) -> Result<Response<Blob>, Status> {
        let mut stream = request.into_inner();
        let mut handled = 0_u64;
        while let Some(blob) = stream.message().await? {
            handled += u64::from(!blob.data.is_empty());
        }
        let data = Bytes::copy_from_slice(&handled.to_le_bytes());
        Ok(Response::new(Blob { data }))
    }
}

const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

pub async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    say(listener.local_addr().unwrap().port());
    let incoming = TcpListenerStream::new(listener)
        .map(|stream| stream.inspect(|stream| stream.set_nodelay(true).unwrap()));
    GrpcServer::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .add_service(BenchServer::new(Service))
        .serve_with_incoming(incoming)
        .await
        .unwrap();
}

pub struct Tonic {
    runtime: Runtime,
    client: BenchClient<Channel>,
    _server: Server,
}

impl Tonic {
    pub fn new(server: Server, port: u16) -> Self {
        let runtime = runtime();
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))
            .unwrap()
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        Self {
            runtime,
            client: BenchClient::new(channel),
            _server: server,
        }
    }
}

type Caller = BenchClient<Channel>;

/// One call, and how long it took.
async fn call(client: &mut Caller, data: Bytes) -> u32 {
    let (since, length) = (now(), data.len());
    let reply = client.echo(Blob { data }).await.unwrap();
    assert_eq!(reply.get_ref().data.len(), length);
    nanos(since, now())
}

/// One task with one call at a time.
async fn caller(mut client: Caller, data: Bytes, until: Instant) -> Vec<u32> {
    let mut latencies = Vec::with_capacity(4096);
    while now() < until {
        latencies.push(call(&mut client, data.clone()).await);
    }
    latencies
}

/// One task that keeps so many calls open.
async fn pipelined(client: Caller, data: Bytes, depth: usize, until: Instant) -> Vec<u32> {
    let one = || {
        let (mut client, data) = (client.clone(), data.clone());
        async move { call(&mut client, data).await }
    };
    let mut open: FuturesUnordered<_> = (0..depth).map(|_| one()).collect();
    let mut latencies = Vec::with_capacity(4096);
    while let Some(latency) = open.next().await {
        latencies.push(latency);
        if now() < until {
            open.push(one());
        }
    }
    latencies
}

impl Client for Tonic {
    fn requests(&mut self, payload: usize, depth: usize, shape: Shape, time: Duration) -> Out {
        let (start, data) = (now(), Bytes::from(vec![1; payload]));
        let until = start + time;
        let tasks: Vec<_> = match shape {
            Shape::Pipelined => {
                let task = pipelined(self.client.clone(), data, depth, until);
                vec![self.runtime.spawn(task)]
            }
            Shape::Callers => (0..depth)
                .map(|_| {
                    let task = caller(self.client.clone(), data.clone(), until);
                    self.runtime.spawn(task)
                })
                .collect(),
        };
        let done = tasks
            .into_iter()
            .map(|it| self.runtime.block_on(it).unwrap());
        let latencies = done.flatten().collect();
        Out {
            seconds: start.elapsed().as_secs_f64(),
            latencies,
        }
    }

    fn one_way(&mut self, payload: usize, time: Duration) -> f64 {
        let start = now();
        let mut client = self.client.clone();
        let task = async move {
            let data = Bytes::from(vec![1; payload]);
            let mut count = 0_u64;
            let messages = std::iter::from_fn(move || {
                count += 1;
                let more = !count.is_multiple_of(64) || start.elapsed() < time;
                more.then(|| Blob { data: data.clone() })
            });
            let reply = client.sink(tokio_stream::iter(messages)).await.unwrap();
            u64::from_le_bytes(reply.get_ref().data[..].try_into().unwrap())
        };
        let handled = self.runtime.block_on(self.runtime.spawn(task)).unwrap();
        handled as f64 / start.elapsed().as_secs_f64()
    }
}
