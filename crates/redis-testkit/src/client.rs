//! The smallest client that a test needs: it blocks, and speaks RESP 2 in the clear.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::KitError;

/// No answer of a test takes longer.
const ANSWER_WAIT: Duration = Duration::from_mins(1);

/// An answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by RESP 2; errors are errors"
)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Integer(i64),
    /// A status or a string.
    Bytes(Vec<u8>),
    /// Several.
    Array(Vec<Self>),
}

impl Reply {
    /// The number; zero when it is something else.
    pub fn integer(&self) -> i64 {
        if let Self::Integer(number) = self {
            *number
        } else {
            0
        }
    }

    /// The bytes as text; empty when it is something else.
    pub fn text(&self) -> String {
        if let Self::Bytes(bytes) = self {
            String::from_utf8_lossy(bytes).into_owned()
        } else {
            String::new()
        }
    }

    /// The bytes; none when it is something else.
    pub fn bytes(&self) -> &[u8] {
        if let Self::Bytes(bytes) = self {
            bytes
        } else {
            &[]
        }
    }

    /// The parts; none when it is something else.
    pub fn parts(&self) -> &[Self] {
        if let Self::Array(parts) = self {
            parts
        } else {
            &[]
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// [`KitError::Io`].
    pub fn connect(address: SocketAddr) -> Result<Self, KitError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WAIT))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends one command of texts.
    ///
    /// # Errors
    /// [`KitError::Io`], and [`KitError::Refused`] when the server answers with an error.
    pub fn command(&mut self, parts: &[&str]) -> Result<Reply, KitError> {
        let parts: Vec<_> = parts.iter().map(|part| part.as_bytes()).collect();
        self.command_bytes(&parts)
    }

    /// Sends one command of bytes.
    ///
    /// # Errors
    /// [`KitError::Io`], and [`KitError::Refused`] when the server answers with an error.
    pub fn command_bytes(&mut self, parts: &[&[u8]]) -> Result<Reply, KitError> {
        let mut bytes = format!("*{}\r\n", parts.len()).into_bytes();
        for part in parts {
            bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)?;
        self.reply()
    }

    fn line(&mut self) -> Result<String, KitError> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        Ok(line.trim_end().to_owned())
    }

    fn reply(&mut self) -> Result<Reply, KitError> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).unwrap_or((&line, ""));
        let number = || rest.parse::<i64>().unwrap_or_default();
        match kind {
            "+" => Ok(Reply::Bytes(rest.as_bytes().to_vec())),
            "-" => Err(KitError::Refused {
                answer: rest.to_owned(),
            }),
            ":" => Ok(Reply::Integer(number())),
            "$" => match usize::try_from(number()) {
                Err(_) => Ok(Reply::Nil),
                Ok(size) => {
                    let mut bytes = vec![0; size.saturating_add(2)];
                    self.stream.read_exact(&mut bytes)?;
                    bytes.truncate(size);
                    Ok(Reply::Bytes(bytes))
                }
            },
            _ => match usize::try_from(number()) {
                Err(_) => Ok(Reply::Nil),
                Ok(count) => (0..count)
                    .map(|_| self.reply())
                    .collect::<Result<_, _>>()
                    .map(Reply::Array),
            },
        }
    }
}
