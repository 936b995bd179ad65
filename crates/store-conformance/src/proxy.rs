//! A TCP proxy on loopback that cuts, holds back and refuses.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::subject::LossyNetwork;

/// Most cuts that wait for their request.
pub const CUTS_QUEUED_MAX: usize = 1_024;
const CHUNK_BYTES: usize = 64 << 10;

/// What happens to the next request that comes by, and to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// Nothing.
    Pass,
    /// The request is dropped and the connection cut.
    BeforeSend,
    /// The request goes on, the connection to the caller is cut at once.
    AfterSend,
    /// The connection to the caller is cut; the request reaches the server only after [`CuttingProxy::release`].
    HoldAndCut,
    /// The answers of this connection stay here until [`CuttingProxy::release`].
    HoldAnswer,
}

/// The proxy. Dropping it ends all its connections.
#[derive(Debug)]
pub struct CuttingProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _listener: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    marker: &'static [u8],
    /// Protects the queue. It is a leaf: nothing is locked and nothing awaited while it is held.
    cuts: Mutex<VecDeque<Cut>>,
    /// Counts releases; whoever holds something back waits for the next one.
    releases: watch::Sender<u64>,
    /// Counts orders to cut every connection that is open.
    all_cut: watch::Sender<u64>,
}

impl CuttingProxy {
    /// Starts it in front of a server. Only requests that hold the marker are cut; an empty one is in all of them.
    ///
    /// # Errors
    /// The error of the listener.
    pub async fn start(target: SocketAddr, marker: &'static [u8]) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (releases, _) = watch::channel(0);
        let (all_cut, _) = watch::channel(0);
        let shared = Arc::new(Shared {
            target,
            marker,
            cuts: Mutex::default(),
            releases,
            all_cut,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            _listener: tasks,
        })
    }

    /// Where callers connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets this happen to the next request that comes by and is not spoken for; one above [`CUTS_QUEUED_MAX`] is
    /// ignored.
    pub fn next(&self, cut: Cut) {
        let mut cuts = self.shared.cuts();
        if cuts.len() < CUTS_QUEUED_MAX {
            cuts.push_back(cut);
        }
    }

    /// Forgets what waits.
    pub fn calm(&self) {
        self.shared.cuts().clear();
    }

    /// Lets go of everything that is held back.
    pub fn release(&self) {
        self.shared.releases.send_modify(|count| *count += 1);
    }

    /// Cuts every connection that is open.
    pub fn cut_all(&self) {
        self.shared.all_cut.send_modify(|count| *count += 1);
    }
}

impl LossyNetwork for CuttingProxy {
    fn lose_next_answer(&self) {
        self.next(Cut::AfterSend);
    }

    fn lose_next_request(&self) {
        self.next(Cut::BeforeSend);
    }
}

impl Shared {
    fn cut_for(&self, request: &[u8]) -> Cut {
        let marker = self.marker;
        let is_meant =
            marker.is_empty() || request.windows(marker.len()).any(|window| window == marker);
        if is_meant {
            self.cuts().pop_front().unwrap_or(Cut::Pass)
        } else {
            Cut::Pass
        }
    }

    fn cuts(&self) -> MutexGuard<'_, VecDeque<Cut>> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((caller, _)) = accepted {
                connections.spawn(serve(caller, Arc::clone(&shared)));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection, until either side ends it or it is cut.
async fn serve(caller: TcpStream, shared: Arc<Shared>) {
    let mut all_cut = shared.all_cut.subscribe();
    let Ok(server) = TcpStream::connect(shared.target).await else {
        return;
    };
    drop(caller.set_nodelay(true));
    drop(server.set_nodelay(true));
    let (from_caller, to_caller) = caller.into_split();
    let (from_server, to_server) = server.into_split();
    let (hold, answers_held) = watch::channel(None);
    let held_back = tokio::select! {
        held_back = requests(from_caller, to_server, &shared, &hold) => held_back,
        () = answers(from_server, to_caller, &shared, answers_held) => None,
        _ = all_cut.changed() => None,
    };
    // The caller has been cut off by now; what it sent may still reach the server.
    if let Some((mut to_server, request)) = held_back {
        let mut releases = shared.releases.subscribe();
        drop(releases.changed().await);
        drop(to_server.write_all(&request).await);
    }
}

/// Passes requests on; returns the one that is held back when its caller was cut off.
async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    hold: &watch::Sender<Option<u64>>,
) -> Option<(OwnedWriteHalf, Vec<u8>)> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let Ok(size @ 1..) = from.read(&mut chunk).await else {
            return None;
        };
        let request = chunk.get(..size).unwrap_or_default();
        let cut = shared.cut_for(request);
        let released = *shared.releases.borrow();
        match cut {
            Cut::Pass => {}
            Cut::BeforeSend => return None,
            Cut::HoldAndCut => return Some((to, request.to_vec())),
            Cut::HoldAnswer | Cut::AfterSend => {
                hold.send_replace(Some(released));
            }
        }
        if to.write_all(request).await.is_err() || cut == Cut::AfterSend {
            return None;
        }
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    mut held: watch::Receiver<Option<u64>>,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let Ok(size @ 1..) = from.read(&mut chunk).await else {
            return;
        };
        let since = *held.borrow_and_update();
        if let Some(since) = since {
            let mut releases = shared.releases.subscribe();
            drop(releases.wait_for(|count| *count > since).await);
        }
        if to
            .write_all(chunk.get(..size).unwrap_or_default())
            .await
            .is_err()
        {
            return;
        }
    }
}
