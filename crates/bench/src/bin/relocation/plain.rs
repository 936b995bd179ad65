//! The peers: a bare socket with CRC-32C on both sides.

use crc_fast::{CrcAlgorithm, Digest};
use spotlane_bench::now;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

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

/// Takes what one connection brings.
pub async fn sink(listener: TcpListener, bytes: usize, kept: bool) {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut sum = Digest::new(ALGORITHM);
    let mut buffer = Vec::with_capacity(if kept { bytes } else { PIECE });
    let mut left = bytes;
    while left > 0 {
        if !kept {
            buffer.clear();
        }
        let from = buffer.len();
        let most = u64::try_from(left.min(PIECE)).unwrap();
        let read = (&mut socket)
            .take(most)
            .read_buf(&mut buffer)
            .await
            .unwrap();
        sum.update(&buffer[from..]);
        left -= read;
    }
    assert_eq!(socket.read_u64().await.unwrap(), sum.finalize());
    socket.write_u8(1).await.unwrap();
}
