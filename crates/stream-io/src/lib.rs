//! What both ends of a client connection need of the outside: a socket, with or without TLS, and a clock.
//!
//! * [`Io`] reads into and writes from buffers that its owner bounds.
//! * [`Clock`] is the one reader of the clock for their timers.
//!
//! Layer 2, async. The crate knows no frames; those are `spotlane-stream-proto`.
//!
//! ```no_run
//! # async fn run() -> std::io::Result<()> {
//! use bytes::BytesMut;
//! use spotlane_stream_io::Io;
//! use tokio::net::TcpStream;
//!
//! let mut io = Io::from(TcpStream::connect("127.0.0.1:4000").await?);
//! let mut input = BytesMut::new();
//! let read = std::future::poll_fn(|cx| io.poll_read(cx, &mut input)).await?;
//! # let _ = read; Ok(()) }
//! ```

mod clock;
mod io;

pub use clock::Clock;
pub use io::Io;
