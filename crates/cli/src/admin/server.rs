//! Accepts connections: a bounded number, each for one request and for a bounded time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use super::node::Node;
use super::route::Routes;

/// Connections at once; one more waits until one ends.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long a head may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take to leave.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long accepting pauses when the system has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listening endpoint. It serves while [`AdminServer::run`] is polled.
#[derive(Debug)]
pub(crate) struct AdminServer<N> {
    listener: TcpListener,
    address: SocketAddr,
    routes: Arc<Routes<N>>,
}

impl<N: Node> AdminServer<N> {
    /// Binds the address.
    ///
    /// # Errors
    /// Those of the system, for example when the port is taken.
    pub(crate) async fn bind(address: SocketAddr, routes: Routes<N>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            routes: Arc::new(routes),
        })
    }

    /// Where it listens; the port is the one that the system chose.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves for ever.
    ///
    /// # Cancel safety
    /// Dropping it closes the listener and every connection.
    pub(crate) async fn run(self) {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((socket, _)) => {
                    let routes = Arc::clone(&self.routes);
                    connections.spawn(async move {
                        serve(socket, routes).await;
                        drop(permit);
                    });
                }
                // Sleep: the system lacks descriptors; trying at once would only spin.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }
}

/// One request and its answer. What goes wrong with the connection concerns only the one who asked.
async fn serve<N: Node>(socket: TcpStream, routes: Arc<Routes<N>>) {
    let answered = Arc::new(Notify::new());
    let service = service_fn(|request| {
        let (routes, answered) = (Arc::clone(&routes), Arc::clone(&answered));
        async move {
            let response = routes.answer(request).await;
            answered.notify_one();
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false);
    let connection = http.serve_connection(TokioIo::new(socket), service);
    let overdue = async {
        answered.notified().await;
        // Sleep: the peer gets this long to read its answer.
        tokio::time::sleep(ANSWER_TIMEOUT).await;
    };
    tokio::select! {
        _ = connection => {}
        () = overdue => {}
    }
}
