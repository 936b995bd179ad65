//! A wire between two hosts that can be stopped and cut at any byte.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::tap::Tap;

/// Read in one piece; how exact a place on the wire is.
const PIECE: usize = 4096;

/// Steers what goes from one host to the other, over all connections between them.
#[derive(Clone)]
pub(crate) struct Wire(Arc<watch::Sender<State>>, Option<Tap>);

#[derive(Clone, Copy)]
struct State {
    /// Bytes that went through.
    passed: u64,
    /// Nothing goes on beyond so many.
    stop_at: u64,
    /// All connections are cut at so many.
    cut_at: u64,
    cuts: u64,
    broken: bool,
}

impl Wire {
    pub(crate) fn new() -> Self {
        let state = watch::Sender::new(State {
            passed: 0,
            stop_at: u64::MAX,
            cut_at: u64::MAX,
            cuts: 0,
            broken: false,
        });
        Self(Arc::new(state), None)
    }

    /// As [`Self::new`], and somebody hears all of it.
    pub(crate) fn heard_by(tap: &Tap) -> Self {
        Self(Self::new().0, Some(tap.clone()))
    }

    /// Lets so many bytes more through, and then none.
    pub(crate) fn stop_after(&self, bytes: u64) {
        self.0
            .send_modify(|state| state.stop_at = state.passed + bytes);
    }

    /// Waits until a stop is reached.
    pub(crate) async fn stopped(&self) {
        let mut state = self.0.subscribe();
        let reached = |state: &State| state.passed >= state.stop_at;
        state.wait_for(reached).await.unwrap();
    }

    /// Lets everything through.
    pub(crate) fn go_on(&self) {
        self.0.send_modify(|state| state.stop_at = u64::MAX);
    }

    /// Cuts everything when so many bytes more went through.
    pub(crate) fn cut_after(&self, bytes: u64) {
        self.0
            .send_modify(|state| state.cut_at = state.passed + bytes);
    }

    /// Cuts everything now; what waits at a stop is lost.
    pub(crate) fn cut_now(&self) {
        self.0.send_modify(|state| state.cuts += 1);
    }

    /// Waits for so many cuts since the beginning.
    pub(crate) async fn was_cut(&self, times: u64) {
        let mut state = self.0.subscribe();
        state.wait_for(|state| state.cuts >= times).await.unwrap();
    }

    /// As [`Self::cut_after`], and no connection comes about after it until [`Self::mend`].
    pub(crate) fn break_after(&self, bytes: u64) {
        self.0.send_modify(|state| {
            state.cut_at = state.passed + bytes;
            state.broken = true;
        });
    }

    pub(crate) fn mend(&self) {
        self.0.send_modify(|state| state.broken = false);
    }

    /// Waits until a piece may go on; `false` when the connection is cut instead.
    async fn pass(&self, bytes: usize) -> bool {
        let mut state = self.0.subscribe();
        let open = |state: &State| state.passed < state.stop_at;
        state.wait_for(open).await.unwrap();
        let mut passes = true;
        self.0.send_modify(|state| {
            state.passed += u64::try_from(bytes).unwrap();
            passes = state.passed < state.cut_at;
            if !passes {
                state.cut_at = u64::MAX;
                state.cuts += 1;
            }
        });
        passes
    }

    fn is_broken(&self) -> bool {
        let state = self.0.borrow();
        state.broken && state.cuts > 0
    }
}

/// Which way through a proxy is the way that the wire steers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From who dials to the host behind it.
    In,
    /// From the host behind it to who dials.
    Out,
}

/// What stands in front of one host.
pub(crate) struct Proxy {
    front: SocketAddr,
    back: SocketAddr,
}

impl Proxy {
    pub(crate) async fn start(wire: &Wire, way: Way) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let front = listener.local_addr().unwrap();
        // A port that was free a moment ago.
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let back = free.local_addr().unwrap();
        drop(free);
        tokio::spawn(accept(listener, back, wire.clone(), way));
        Self { front, back }
    }

    /// Where its host listens.
    pub(crate) fn listen(&self) -> String {
        format!("tcp://{}", self.back)
    }

    /// Where others find it.
    pub(crate) fn advertise(&self) -> String {
        format!("tcp://{}", self.front)
    }
}

async fn accept(listener: TcpListener, back: SocketAddr, wire: Wire, way: Way) {
    while let Ok((front, _)) = listener.accept().await {
        if wire.is_broken() {
            continue;
        }
        if let Ok(back) = TcpStream::connect(back).await {
            tokio::spawn(connection(front, back, wire.clone(), way));
        }
    }
}

async fn connection(front: TcpStream, back: TcpStream, wire: Wire, way: Way) {
    let mut state = wire.0.subscribe();
    let cuts = state.borrow_and_update().cuts;
    let (from_front, to_front) = front.into_split();
    let (from_back, to_back) = back.into_split();
    let steered = |here| (way == here).then(|| wire.clone());
    let heard = wire.1.as_ref().map(|tap| (tap, tap.connection()));
    let ear = |here| {
        move |bytes: &[u8]| {
            if let Some((tap, connection)) = heard {
                tap.hears(connection, here, bytes);
            }
        }
    };
    tokio::select! {
        () = pump(from_front, to_back, steered(Way::In), ear(Way::In)) => {}
        () = pump(from_back, to_front, steered(Way::Out), ear(Way::Out)) => {}
        _ = state.wait_for(|state| state.cuts > cuts) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    wire: Option<Wire>,
    hears: impl Fn(&[u8]),
) {
    let mut buffer = [0; PIECE];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if let Some(wire) = &wire
            && !wire.pass(read).await
        {
            return;
        }
        hears(&buffer[..read]);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
