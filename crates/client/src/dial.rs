//! One attempt: name resolution, connecting, TLS, upgrade.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use rustls_pki_types::ServerName;
use spotlane_stream_io::Io;
use spotlane_stream_proto::connector::AttemptError;
use spotlane_stream_proto::ws::{self, Side};
use spotlane_stream_proto::{Carrier, FlowRule, SizeBound};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};

use crate::endpoint::Endpoint;
use crate::random::Random;

/// What an attempt needs.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) endpoint: Endpoint,
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) bound: SizeBound,
    pub(crate) flow: FlowRule,
    pub(crate) random: Random,
}

/// What frames travel on.
pub(crate) struct Ready {
    pub(crate) io: Io,
    pub(crate) carrier: Carrier,
}

impl Dialer {
    /// Bounded in time by whoever waits for it. Dropped, nothing is left of it.
    pub(crate) async fn dial(self: Arc<Self>) -> Result<Ready, AttemptError> {
        let Endpoint { host, port, .. } = &self.endpoint;
        let socket = TcpStream::connect((host.as_str(), *port)).await;
        let socket = socket.map_err(transport)?;
        socket.set_nodelay(true).map_err(transport)?;
        let mut io = match &self.tls {
            None => Io::from(socket),
            Some(tls) => {
                let name = ServerName::try_from(host.clone()).map_err(tls_failed)?;
                let stream = tls.connect(name, socket).await.map_err(tls_failed)?;
                Io::from(TlsStream::from(stream))
            }
        };
        let carrier = match &self.endpoint.target {
            None => Carrier::plain(self.bound, self.flow),
            Some(target) => {
                let rest = self.upgrade(&mut io, target).await?;
                Carrier::websocket(Side::Client, rest, self.bound, self.flow)
            }
        };
        Ok(Ready { io, carrier })
    }

    async fn upgrade(&self, io: &mut Io, target: &str) -> Result<BytesMut, AttemptError> {
        let authority = self.endpoint.authority();
        let (request, key) = ws::client_request(&authority, target, self.random.bytes());
        let mut output = BytesMut::from(&request[..]);
        let written = poll_fn(|cx| io.poll_write_all(cx, &mut output)).await;
        written.map_err(transport)?;
        let mut input = BytesMut::new();
        loop {
            if ws::parse_response(&mut input, &key)
                .map_err(transport)?
                .is_some()
            {
                return Ok(input);
            }
            let read = poll_fn(|cx| io.poll_read(cx, &mut input)).await;
            if read.map_err(transport)? == 0 {
                return Err(transport(io::Error::from(io::ErrorKind::UnexpectedEof)));
            }
        }
    }
}

fn transport(error: impl std::fmt::Display) -> AttemptError {
    AttemptError::Transport(error.to_string())
}

fn tls_failed(error: impl std::fmt::Display) -> AttemptError {
    AttemptError::Tls(error.to_string())
}
