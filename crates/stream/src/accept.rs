//! From an accepted socket to a connection: TLS and upgrade, both bounded in time.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use spotlane_stream_io::Io;
use spotlane_stream_proto::ws::{self, Side};
use spotlane_stream_proto::{Carrier, SizeBound};
use std::future::poll_fn;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::settings::StreamSettings;

/// Why there is no connection.
#[derive(Debug)]
pub(crate) struct Failed;

/// What frames travel on.
pub(crate) struct Ready {
    pub(crate) io: Io,
    pub(crate) carrier: Carrier,
}

pub(crate) async fn handshake(
    socket: TcpStream,
    acceptor: Option<&TlsAcceptor>,
    settings: &StreamSettings,
) -> Result<Ready, Failed> {
    let within = settings.handshake_timeout;
    let ready = tokio::time::timeout(within, ready(socket, acceptor, settings));
    ready.await.map_err(|_| Failed)?.map_err(|_| Failed)
}

async fn ready(
    socket: TcpStream,
    acceptor: Option<&TlsAcceptor>,
    settings: &StreamSettings,
) -> io::Result<Ready> {
    // ST-134
    socket.set_nodelay(true)?;
    let mut io = match acceptor {
        None => Io::from(socket),
        Some(acceptor) => Io::from(TlsStream::from(acceptor.accept(socket).await?)),
    };
    let bound = settings
        .message_bytes_max
        .map_or(SizeBound::None, SizeBound::Whole);
    let carrier = if settings.endpoint.transport.has_websocket() {
        let rest = upgrade(&mut io).await?;
        Carrier::websocket(Side::Server, rest, bound, settings.flow)
    } else {
        Carrier::plain(bound, settings.flow)
    };
    Ok(Ready { io, carrier })
}

/// ST-130
async fn upgrade(io: &mut Io) -> io::Result<BytesMut> {
    let mut input = BytesMut::new();
    let response = loop {
        match ws::parse_request(&mut input) {
            Ok(Some(request)) => break Ok(ws::server_response(&request)),
            Ok(None) => {}
            Err(error) => break Err(error),
        }
        if poll_fn(|cx| io.poll_read(cx, &mut input)).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let granted = response.is_ok();
    let mut output = BytesMut::from(&response.unwrap_or_else(|_| ws::bad_request())[..]);
    poll_fn(|cx| io.poll_write_all(cx, &mut output)).await?;
    if granted {
        return Ok(input);
    }
    linger(io).await;
    Err(io::ErrorKind::InvalidData.into())
}

/// Ends the outbound half and throws away what still comes, so that what was written is not lost to a
/// reset. Bounded by whoever waits for it.
pub(crate) async fn linger(io: &mut Io) {
    if poll_fn(|cx| io.poll_shutdown(cx)).await.is_err() {
        return;
    }
    loop {
        let mut thrown_away = BytesMut::new();
        match poll_fn(|cx| io.poll_read(cx, &mut thrown_away)).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Section 12: a connection while draining gets the reason and no session.
pub(crate) async fn turn_away(ready: Ready, notice: &[u8], within: Duration) {
    let Ready {
        mut io,
        mut carrier,
    } = ready;
    let mut output = BytesMut::new();
    carrier.put(notice, || None, &mut output);
    carrier.put_close(|| None, &mut output);
    let told = async {
        if poll_fn(|cx| io.poll_write_all(cx, &mut output))
            .await
            .is_ok()
        {
            linger(&mut io).await;
        }
    };
    // Whoever does not read it in time is gone all the same.
    drop(tokio::time::timeout(within, told).await);
}
