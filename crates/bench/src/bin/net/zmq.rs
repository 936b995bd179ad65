//! The zeromq crate: DEALER to ROUTER, PUSH to PULL.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;
use zeromq::{
    DealerSocket, PullSocket, PushSocket, RouterSocket, Socket as _, SocketRecv as _,
    SocketSend as _,
};

use crate::child::{Server, say};
use crate::node::runtime;
use crate::{Client, END, Mode, Out, Shape, handled, nanos, now};

pub async fn serve(mode: Mode) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let endpoint = format!("tcp://127.0.0.1:{port}");
    if mode == Mode::Sink {
        let mut socket = PullSocket::new();
        socket.bind(&endpoint).await.unwrap();
        say(port);
        let mut handled = 0_u64;
        loop {
            let message = socket.recv().await.unwrap();
            handled += 1;
            if message.get(0).unwrap()[0] == END {
                say(handled);
                handled = 0;
            }
        }
    }
    let mut socket = RouterSocket::new();
    socket.bind(&endpoint).await.unwrap();
    say(port);
    loop {
        let message = socket.recv().await.unwrap();
        socket.send(message).await.unwrap();
    }
}

pub struct Zeromq {
    runtime: Runtime,
    dealer: Option<DealerSocket>,
    push: Option<PushSocket>,
    server: Server,
}

impl Zeromq {
    pub fn new(server: Server, port: u16, mode: Mode) -> Self {
        let runtime = runtime();
        let endpoint = format!("tcp://127.0.0.1:{port}");
        let (dealer, push) = runtime.block_on(async {
            if mode == Mode::Sink {
                let mut socket = PushSocket::new();
                socket.connect(&endpoint).await.unwrap();
                (None, Some(socket))
            } else {
                let mut socket = DealerSocket::new();
                socket.connect(&endpoint).await.unwrap();
                (Some(socket), None)
            }
        });
        Self {
            runtime,
            dealer,
            push,
            server,
        }
    }
}

impl Client for Zeromq {
    fn requests(&mut self, payload: usize, depth: usize, _: Shape, time: Duration) -> Out {
        let socket = self.dealer.take().unwrap();
        let task = pipelined(socket, payload, depth, time);
        let (socket, out) = self.runtime.block_on(self.runtime.spawn(task)).unwrap();
        self.dealer = Some(socket);
        out
    }

    fn one_way(&mut self, payload: usize, time: Duration) -> f64 {
        let mut socket = self.push.take().unwrap();
        let start = now();
        let task = async move {
            let message = Bytes::from(vec![1; payload]);
            while start.elapsed() < time {
                for _ in 0..64 {
                    socket.send(message.clone().into()).await.unwrap();
                }
            }
            socket.send(vec![END; payload].into()).await.unwrap();
            socket
        };
        self.push = Some(self.runtime.block_on(self.runtime.spawn(task)).unwrap());
        handled(&mut self.server) / start.elapsed().as_secs_f64()
    }
}

async fn pipelined(
    mut socket: DealerSocket,
    payload: usize,
    depth: usize,
    time: Duration,
) -> (DealerSocket, Out) {
    let message = Bytes::from(vec![1; payload]);
    let mut sent = VecDeque::with_capacity(depth);
    let mut latencies = Vec::with_capacity(1 << 18);
    let start = now();
    for _ in 0..depth {
        sent.push_back(now());
        socket.send(message.clone().into()).await.unwrap();
    }
    while let Some(at) = sent.pop_front() {
        let reply = socket.recv().await.unwrap();
        assert_eq!(reply.get(reply.len() - 1).unwrap().len(), payload);
        let done = now();
        latencies.push(nanos(at, done));
        if done - start < time {
            sent.push_back(done);
            socket.send(message.clone().into()).await.unwrap();
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    (socket, Out { seconds, latencies })
}
