//! A connection with or without TLS.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// Bytes that are read at a time; on the stack, so that a quiet connection holds none.
const READ_BYTES: usize = 8_192;

/// The socket of a client connection, at either end.
#[derive(Debug)]
pub struct Io(Kind);

#[derive(Debug)]
enum Kind {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl From<TcpStream> for Io {
    fn from(stream: TcpStream) -> Self {
        Self(Kind::Tcp(stream))
    }
}

impl From<TlsStream<TcpStream>> for Io {
    fn from(stream: TlsStream<TcpStream>) -> Self {
        Self(Kind::Tls(Box::new(stream)))
    }
}

trait Both: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Both for T {}

impl Io {
    fn both(&mut self) -> Pin<&mut dyn Both> {
        match &mut self.0 {
            Kind::Tcp(stream) => Pin::new(stream),
            Kind::Tls(stream) => Pin::new(&mut **stream),
        }
    }

    /// Appends what there is to `input`; `Ok(0)` at the end of the stream.
    ///
    /// # Errors
    /// The transport failed.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        let mut scratch = [const { MaybeUninit::<u8>::uninit() }; READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut scratch);
        match self.both().poll_read(cx, &mut buffer) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                input.extend_from_slice(buffer.filled());
                Poll::Ready(Ok(buffer.filled().len()))
            }
        }
    }

    /// Writes and flushes what is in `output`; ready when it is empty.
    ///
    /// # Errors
    /// The transport failed.
    pub fn poll_write_all(
        &mut self,
        cx: &mut Context<'_>,
        output: &mut BytesMut,
    ) -> Poll<io::Result<()>> {
        while !output.is_empty() {
            match self.both().poll_write(cx, output) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => output.advance(written),
            }
        }
        if output.capacity() > 0 {
            *output = BytesMut::new();
        }
        self.both().poll_flush(cx)
    }

    /// Ends the outbound half.
    ///
    /// # Errors
    /// The transport failed.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.both().poll_shutdown(cx)
    }
}
