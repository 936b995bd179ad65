//! The peers: a bare socket with CRC-32C on both sides.

use crc_fast::{CrcAlgorithm, Digest};
use spotlane_bench::now;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::memory;

const PIECE: usize = 256 * 1024;
const ALGORITHM: CrcAlgorithm = CrcAlgorithm::Crc32Iscsi;

/// Sends everything and the checksum, and waits for the one byte that says that it was right.
pub async fn send(port: u16, bytes: &[u8]) -> f64 {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let start = now();
    let mut sum = Digest::new(ALGORITHM);
    for piece in bytes.chunks(PIECE) {
        sum.update(piece);
        socket.write_all(piece).await.unwrap();
    }
    socket.write_u64(sum.finalize()).await.unwrap();
    assert_eq!(socket.read_u8().await.unwrap(), 1);
    start.elapsed().as_secs_f64()
}

/// Where the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Into a buffer that is used again.
    Nothing,
    /// Into fresh memory, as the allocator gives it.
    Small,
    /// Into fresh memory in pages of 2 MiB, as a move does.
    Large,
}

/// Takes what one connection brings.
pub async fn sink(listener: TcpListener, bytes: usize, keeps: Keeps) {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut sum = Digest::new(ALGORITHM);
    let mut buffer = Vec::with_capacity(if keeps == Keeps::Small { bytes } else { PIECE });
    let mut large = (keeps == Keeps::Large).then(|| memory::large(bytes));
    let mut at = 0;
    while at < bytes {
        if keeps != Keeps::Small {
            buffer.clear();
        }
        let from = buffer.len();
        let most = u64::try_from((bytes - at).min(PIECE)).unwrap();
        let read = (&mut socket)
            .take(most)
            .read_buf(&mut buffer)
            .await
            .unwrap();
        sum.update(&buffer[from..]);
        if let Some(large) = &mut large {
            large[at..at + read].copy_from_slice(&buffer[from..]);
        }
        at += read;
    }
    assert_eq!(socket.read_u64().await.unwrap(), sum.finalize());
    socket.write_u8(1).await.unwrap();
}
