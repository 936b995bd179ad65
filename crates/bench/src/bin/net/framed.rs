//! What one would write first: frames with a length in front, over a plain tokio connection.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_util::{FutureExt as _, SinkExt, StreamExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio_util::codec::{Framed, FramedRead, FramedWrite, LengthDelimitedCodec};

use crate::child::{Server, say};
use crate::node::runtime;
use crate::{Client, END, Mode, Out, Shape, handled, nanos, now};

const BUFFER: usize = 64 * 1024;

type Stream = Framed<TcpStream, LengthDelimitedCodec>;

fn framed(stream: TcpStream) -> Stream {
    stream.set_nodelay(true).unwrap();
    let mut framed = Framed::with_capacity(stream, LengthDelimitedCodec::new(), BUFFER);
    framed.set_backpressure_boundary(BUFFER);
    framed
}

pub async fn serve(mode: Mode) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    say(listener.local_addr().unwrap().port());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = framed(stream);
        #[expect(clippy::disallowed_methods, reason = "it ends with the process")]
        tokio::spawn(async move {
            let mut handled = 0_u64;
            while let Some(Ok(message)) = stream.next().await {
                if mode == Mode::Sink {
                    handled += 1;
                    if message[0] == END {
                        say(handled);
                        handled = 0;
                    }
                    continue;
                }
                stream.feed(message.freeze()).await.unwrap();
                // Whatever has come already is answered in the same write.
                while let Some(Some(Ok(message))) = stream.next().now_or_never() {
                    stream.feed(message.freeze()).await.unwrap();
                }
                SinkExt::<Bytes>::flush(&mut stream).await.unwrap();
            }
        });
    }
}

pub struct FramedClient {
    runtime: Runtime,
    stream: Option<Stream>,
    shared: Arc<Shared>,
    server: Server,
}

/// One connection for many callers: a task that writes, one that reads, a map in between.
struct Shared {
    requests: mpsc::Sender<Bytes>,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Bytes>>>,
    next: AtomicU64,
}

impl FramedClient {
    pub fn new(server: Server, port: u16) -> Self {
        let runtime = runtime();
        let connect = || TcpStream::connect(("127.0.0.1", port));
        let stream = framed(runtime.block_on(connect()).unwrap());
        let other = runtime.block_on(connect()).unwrap();
        other.set_nodelay(true).unwrap();
        let (reader, writer) = other.into_split();
        let (requests, mut queue) = mpsc::channel::<Bytes>(1024);
        let shared = Arc::new(Shared {
            requests,
            waiting: Mutex::default(),
            next: AtomicU64::new(0),
        });
        runtime.spawn(async move {
            let mut writer = FramedWrite::new(writer, LengthDelimitedCodec::new());
            writer.set_backpressure_boundary(BUFFER);
            let mut messages = Vec::with_capacity(256);
            while queue.recv_many(&mut messages, 256).await > 0 {
                for message in messages.drain(..) {
                    writer.feed(message).await.unwrap();
                }
                SinkExt::<Bytes>::flush(&mut writer).await.unwrap();
            }
        });
        let waiting = Arc::clone(&shared);
        runtime.spawn(async move {
            let codec = LengthDelimitedCodec::new();
            let mut reader = FramedRead::with_capacity(reader, codec, BUFFER);
            while let Some(Ok(mut message)) = reader.next().await {
                let id = message.get_u64();
                let waiter = waiting.waiting.lock().unwrap().remove(&id);
                waiter.unwrap().send(message.freeze()).ok();
            }
        });
        Self {
            runtime,
            stream: Some(stream),
            shared,
            server,
        }
    }
}

impl Client for FramedClient {
    fn requests(&mut self, payload: usize, depth: usize, shape: Shape, time: Duration) -> Out {
        match shape {
            Shape::Pipelined => {
                let stream = self.stream.take().unwrap();
                let task = pipelined(stream, payload, depth, time);
                let (stream, out) = self.runtime.block_on(self.runtime.spawn(task)).unwrap();
                self.stream = Some(stream);
                out
            }
            Shape::Callers => {
                let start = now();
                let caller = |shared: Arc<Shared>| async move {
                    let mut latencies = Vec::with_capacity(4096);
                    let mut last = now();
                    while last - start < time {
                        let (waiter, reply) = oneshot::channel();
                        let id = shared.next.fetch_add(1, Ordering::Relaxed);
                        let mut message = BytesMut::with_capacity(8 + payload);
                        message.put_u64(id);
                        message.put_bytes(1, payload);
                        shared.waiting.lock().unwrap().insert(id, waiter);
                        shared.requests.send(message.freeze()).await.unwrap();
                        assert_eq!(reply.await.unwrap().len(), payload);
                        let done = now();
                        latencies.push(nanos(last, done));
                        last = done;
                    }
                    latencies
                };
                let callers: Vec<_> = (0..depth)
                    .map(|_| self.runtime.spawn(caller(Arc::clone(&self.shared))))
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
        let mut stream = self.stream.take().unwrap();
        let start = now();
        let task = async move {
            let message = Bytes::from(vec![1; payload]);
            while start.elapsed() < time {
                for _ in 0..64 {
                    stream.feed(message.clone()).await.unwrap();
                }
            }
            stream.send(Bytes::from(vec![END; payload])).await.unwrap();
            stream
        };
        self.stream = Some(self.runtime.block_on(self.runtime.spawn(task)).unwrap());
        handled(&mut self.server) / start.elapsed().as_secs_f64()
    }
}

async fn pipelined(
    mut stream: Stream,
    payload: usize,
    depth: usize,
    time: Duration,
) -> (Stream, Out) {
    let message = Bytes::from(vec![1; payload]);
    let mut sent = VecDeque::with_capacity(depth);
    let mut latencies = Vec::with_capacity(1 << 18);
    let start = now();
    for _ in 0..depth {
        stream.feed(message.clone()).await.unwrap();
        sent.push_back(now());
    }
    SinkExt::<Bytes>::flush(&mut stream).await.unwrap();
    let mut open = true;
    while !sent.is_empty() {
        stream.next().await.unwrap().unwrap();
        let mut come = 1;
        while let Some(Some(Ok(_))) = stream.next().now_or_never() {
            come += 1;
        }
        let done = now();
        latencies.extend(sent.drain(..come).map(|at| nanos(at, done)));
        open = open && done - start < time;
        if open {
            for _ in 0..come {
                stream.feed(message.clone()).await.unwrap();
                sent.push_back(done);
            }
            SinkExt::<Bytes>::flush(&mut stream).await.unwrap();
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    (stream, Out { seconds, latencies })
}

/// The same over two connections, as the mesh has them: requests on one, replies on the other.
///
/// What it loses against one connection is what the system does for a connection that carries bytes in
/// one direction only: nothing takes its acknowledgements along.
pub async fn serve_pair() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    say(listener.local_addr().unwrap().port());
    let mut requests = framed(listener.accept().await.unwrap().0);
    let mut replies = framed(listener.accept().await.unwrap().0);
    while let Some(Ok(message)) = requests.next().await {
        replies.send(message.freeze()).await.unwrap();
    }
}

pub struct PairClient {
    runtime: Runtime,
    streams: Option<(Stream, Stream)>,
    _server: Server,
}

impl PairClient {
    pub fn new(server: Server, port: u16) -> Self {
        let runtime = runtime();
        let connect = || {
            let stream = runtime.block_on(TcpStream::connect(("127.0.0.1", port)));
            framed(stream.unwrap())
        };
        let streams = Some((connect(), connect()));
        Self {
            runtime,
            streams,
            _server: server,
        }
    }
}

impl Client for PairClient {
    fn requests(&mut self, payload: usize, _: usize, _: Shape, time: Duration) -> Out {
        let (mut requests, mut replies) = self.streams.take().unwrap();
        let start = now();
        let task = async move {
            let message = Bytes::from(vec![1; payload]);
            let mut latencies = Vec::with_capacity(1 << 18);
            let mut last = start;
            while last - start < time {
                requests.send(message.clone()).await.unwrap();
                replies.next().await.unwrap().unwrap();
                let done = now();
                latencies.push(nanos(last, done));
                last = done;
            }
            let seconds = start.elapsed().as_secs_f64();
            (requests, replies, Out { seconds, latencies })
        };
        let done = self.runtime.block_on(self.runtime.spawn(task)).unwrap();
        self.streams = Some((done.0, done.1));
        done.2
    }

    fn one_way(&mut self, _: usize, _: Duration) -> f64 {
        f64::NAN
    }
}
