//! One TCP connection, plain or under TLS, as non-blocking calls that need no exclusive access.
//!
//! A reader and a writer share a stream, and any thread may write when nobody else does. So a submit
//! can write at once instead of waking a task first.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::buf::Limit;
use bytes::{BufMut as _, BytesMut};
use rustls::Connection as Session;
use socket2::SockRef;
#[cfg(target_os = "linux")]
use socket2::{Domain, Type};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Plaintext that a session takes before it has to be written; a bound of memory.
const TLS_BUFFER_BYTES: usize = 256 * 1024;

/// What the system holds of bytes that it has not sent yet before it takes more: what is written next waits behind that,
/// as a small record does behind a chunk. What is on its way to the peer does not count, so a long way stays fast.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 256 * 1024;

/// By itself a system takes some megabytes (RL-132: others pass between chunks, and must not find them all in front).
#[cfg(target_os = "linux")]
fn bound_unsent(tcp: &TcpStream) -> io::Result<()> {
    SockRef::from(tcp).set_tcp_notsent_lowat(UNSENT_BYTES)
}

#[cfg(not(target_os = "linux"))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "as on systems that have such a bound"
)]
fn bound_unsent(_: &TcpStream) -> io::Result<()> {
    Ok(())
}

/// What the system may hold of bytes that we have not read yet; it takes twice as much, for what it needs itself. A small
/// record finds all of it in front when the host takes chunks more slowly than they come: out of memory that the host of
/// a virtual machine has to give back first, for one. A system that is set up for long ways holds 32 MiB by itself.
#[cfg(target_os = "linux")]
const UNREAD_BYTES: usize = 2 * 1024 * 1024;

/// Bounds that where the system lets us have so much. Where it allows less it would stay with that for good, so there its own
/// choice, which is 6 MiB at most as systems come, is the better one.
#[cfg(target_os = "linux")]
fn bound_unread(tcp: &TcpStream) -> io::Result<()> {
    // A socket of its own tells, because what is set once is not taken back.
    let tried = socket2::Socket::new(Domain::IPV4, Type::STREAM, None)?;
    tried.set_recv_buffer_size(UNREAD_BYTES)?;
    if tried.recv_buffer_size()? >= UNREAD_BYTES {
        SockRef::from(tcp).set_recv_buffer_size(UNREAD_BYTES)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "as on systems that have such a bound"
)]
fn bound_unread(_: &TcpStream) -> io::Result<()> {
    Ok(())
}

/// The reading side of a connection.
#[derive(Debug)]
pub(crate) struct Incoming {
    half: OwnedReadHalf,
    stream: Arc<Stream>,
}

impl Incoming {
    /// Reads into the free room of `buffer`; 0 is the end of the stream.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        let room = buffer.capacity().saturating_sub(buffer.len());
        self.read_limited(buffer.limit(room)).await
    }

    /// As [`Self::read`], up to the limit of the buffer.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn read_limited(
        &mut self,
        mut buffer: Limit<&mut BytesMut>,
    ) -> io::Result<usize> {
        if self.stream.tls.is_some() {
            let most = Limit::limit(&buffer);
            return self.stream.read(buffer.get_mut(), most).await;
        }
        // Spares the call that finds nothing: a read that did not fill the buffer has emptied the socket.
        self.half.read_buf(&mut buffer).await
    }

    /// Asks the system not to acknowledge each piece at once, but two together. It would do so by itself
    /// if we answered on the same connection.
    pub(crate) fn acknowledge_late(&self) {
        // It saves work and changes nothing else, so a system that cannot do it is left alone.
        #[cfg(target_os = "linux")]
        self.stream.tcp().set_quickack(false).ok();
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Stream {
    tcp: OwnedWriteHalf,
    /// The TLS session; held for one call only, and never while another lock is taken.
    tls: Option<Mutex<Session>>,
}

impl Stream {
    pub(crate) fn plain(tcp: TcpStream) -> io::Result<(Arc<Self>, Incoming)> {
        Self::split(tcp, None)
    }

    fn split(tcp: TcpStream, tls: Option<Mutex<Session>>) -> io::Result<(Arc<Self>, Incoming)> {
        // TR-30: no delay.
        tcp.set_nodelay(true)?;
        bound_unsent(&tcp)?;
        bound_unread(&tcp)?;
        let (half, tcp) = tcp.into_split();
        let stream = Arc::new(Self { tcp, tls });
        let incoming = Incoming {
            half,
            stream: Arc::clone(&stream),
        };
        Ok((stream, incoming))
    }

    fn tcp(&self) -> &TcpStream {
        self.tcp.as_ref()
    }

    /// Shakes hands; the bytes behind it are the same as without TLS (TR-63).
    ///
    /// # Cancel safety
    /// The connection is of no use afterwards.
    pub(crate) async fn secure(
        tcp: TcpStream,
        mut session: Session,
    ) -> io::Result<(Arc<Self>, Incoming)> {
        session.set_buffer_limit(Some(TLS_BUFFER_BYTES));
        let (stream, incoming) = Self::split(tcp, Some(Mutex::new(session)))?;
        loop {
            // A failure of the handshake leaves an alert to be written.
            let step = stream.handshake_step();
            match step {
                Ok(Step::Done) => return Ok((stream, incoming)),
                Ok(Step::Read) => stream.tcp().readable().await?,
                Ok(Step::Write) => stream.tcp().writable().await?,
                Err(error) => return Err(error),
            }
        }
    }

    fn handshake_step(&self) -> io::Result<Step> {
        let Some(mut session) = self.session() else {
            return Ok(Step::Done);
        };
        loop {
            match flush(&mut session, self.tcp()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Write),
                other => other?,
            }
            if !session.is_handshaking() {
                return Ok(Step::Done);
            }
            match session.read_tls(&mut Socket(self.tcp())) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Read),
                Err(error) => return Err(error),
            }
            if let Err(error) = session.process_new_packets() {
                flush(&mut session, self.tcp()).ok();
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }

    fn session(&self) -> Option<MutexGuard<'_, Session>> {
        let tls = self.tls.as_ref()?;
        // A panic inside of rustls would leave a session that refuses everything from then on.
        Some(tls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn read(&self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        loop {
            match self.try_read(buffer, most) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            self.tcp().readable().await?;
        }
    }

    fn try_read(&self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        let Some(mut session) = self.session() else {
            return self.tcp().try_read_buf(buffer);
        };
        loop {
            let state = session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let wanted = state.plaintext_bytes_to_read();
            let room = buffer.capacity().saturating_sub(buffer.len()).min(most);
            if wanted > 0 {
                let start = buffer.len();
                buffer.resize(start.saturating_add(wanted.min(room)), 0);
                let place = buffer.get_mut(start..).unwrap_or_default();
                let read = session.reader().read(place)?;
                buffer.truncate(start.saturating_add(read));
                return Ok(read);
            }
            if state.peer_has_closed() {
                return Ok(0);
            }
            if session.read_tls(&mut Socket(self.tcp()))? == 0 {
                return Ok(0);
            }
        }
    }

    /// Writes what the socket takes at once.
    ///
    /// # Errors
    /// `WouldBlock` when that is nothing.
    pub(crate) fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(mut session) = self.session() else {
            return match parts {
                [part] => self.tcp().try_write(part),
                parts => self.tcp().try_write_vectored(parts),
            };
        };
        match flush(&mut session, self.tcp()) {
            // Room in the session is enough to go on.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => other?,
        }
        let taken = session.writer().write_vectored(parts)?;
        if taken == 0 && parts.iter().any(|part| !part.is_empty()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match flush(&mut session, self.tcp()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(taken),
            Err(error) => Err(error),
            Ok(()) => Ok(taken),
        }
    }

    /// Writes what the session still holds; without TLS there is nothing.
    ///
    /// # Errors
    /// `WouldBlock` while there is some left.
    pub(crate) fn try_flush(&self) -> io::Result<()> {
        match self.session() {
            Some(mut session) => flush(&mut session, self.tcp()),
            None => Ok(()),
        }
    }

    /// Waits until a write may go on.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.tcp().writable().await
    }

    /// Tells the peer that nothing more comes; reading goes on.
    pub(crate) fn finish(&self) {
        if let Some(mut session) = self.session() {
            session.send_close_notify();
            flush(&mut session, self.tcp()).ok();
        }
        // A socket that is not connected any more is what we want.
        SockRef::from(self.tcp()).shutdown(Shutdown::Write).ok();
    }

    /// Ends both directions, so that whoever waits for the stream is woken.
    pub(crate) fn close(&self) {
        SockRef::from(self.tcp()).shutdown(Shutdown::Both).ok();
    }
}

enum Step {
    Done,
    Read,
    Write,
}

/// Writes the records of a session until none is left.
fn flush(session: &mut Session, tcp: &TcpStream) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(&mut Socket(tcp))?;
    }
    Ok(())
}

/// The socket as the blocking traits see it: it never blocks.
struct Socket<'a>(&'a TcpStream);

impl io::Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// TR-30
    #[tokio::test]
    async fn a_stream_sends_without_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        for tcp in [dialled.unwrap(), accepted.unwrap().0] {
            let (stream, _incoming) = Stream::plain(tcp).unwrap();
            assert!(stream.tcp().nodelay().unwrap());
        }
    }

    /// RL-132: a record that is written next waits behind little, whatever the socket would take.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn little_is_left_unsent_in_a_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        for tcp in [dialled.unwrap(), accepted.unwrap().0] {
            let (stream, _incoming) = Stream::plain(tcp).unwrap();
            let unsent = SockRef::from(stream.tcp()).tcp_notsent_lowat().unwrap();
            assert_eq!(unsent, UNSENT_BYTES);
        }
    }

    /// RL-132: and what comes finds little unread in front, where the system lets us say how much.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn little_is_left_unread_in_a_socket() {
        let allowed = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
        let allowed: usize = allowed.trim().parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        for tcp in [dialled.unwrap(), accepted.unwrap().0] {
            let before = SockRef::from(&tcp).recv_buffer_size().unwrap();
            let (stream, _incoming) = Stream::plain(tcp).unwrap();
            let unread = SockRef::from(stream.tcp()).recv_buffer_size().unwrap();
            if allowed >= UNREAD_BYTES {
                assert_eq!(unread, 2 * UNREAD_BYTES);
            } else if 2 * allowed < UNREAD_BYTES {
                assert_eq!(unread, before, "left to the system");
            }
        }
    }

    /// TR-28: the end of one direction leaves the other one open.
    #[tokio::test]
    async fn a_finished_stream_still_reads() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (ours, mut reads) = Stream::plain(dialled.unwrap()).unwrap();
        let (theirs, mut peer) = Stream::plain(accepted.unwrap().0).unwrap();
        ours.finish();
        let mut buffer = BytesMut::with_capacity(16);
        assert_eq!(peer.read(&mut buffer).await.unwrap(), 0);
        theirs.try_write(&[IoSlice::new(b"late")]).unwrap();
        assert_eq!(reads.read(&mut buffer).await.unwrap(), 4);
        assert_eq!(&buffer[..], b"late");
    }
}
