//! tonic: unary calls, and a client stream for one-way messages.

use std::time::Duration;

use bytes::Bytes;
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

impl Client for Tonic {
    fn requests(&mut self, payload: usize, depth: usize, _: Shape, time: Duration) -> Out {
        let start = now();
        let callers: Vec<_> = (0..depth)
            .map(|_| {
                let mut client = self.client.clone();
                self.runtime.spawn(async move {
                    let data = Bytes::from(vec![1; payload]);
                    let mut latencies = Vec::with_capacity(4096);
                    let mut last = now();
                    while last - start < time {
                        let data = data.clone();
                        let reply = client.echo(Blob { data }).await.unwrap();
                        assert_eq!(reply.get_ref().data.len(), payload);
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
