//! Memory for the stream of a payload: the heap, or what the host has for long ones.

use core::fmt;

use bytes::Bytes;

/// Memory for a whole stream that costs nothing before it is written, as a mapping of fresh pages does.
///
/// Its length is that of the stream and does not change.
pub trait StreamMemory: AsRef<[u8]> + AsMut<[u8]> + fmt::Debug + Send + Sync {}

impl<T: AsRef<[u8]> + AsMut<[u8]> + fmt::Debug + Send + Sync> StreamMemory for T {}

/// Gives memory for a stream of so many bytes, or `None`: then the heap is used.
pub type ReserveMemory = fn(u64) -> Option<Box<dyn StreamMemory>>;

/// The first allocation on the heap, if the stream is not shorter.
const FIRST_BYTES: usize = 64 * 1024;

/// Where a stream is put together, from its start on.
#[derive(Debug)]
pub(super) enum Room {
    /// Grows with what came; when more than half has come it gets its final size, so that the whole is
    /// there once.
    Heap(Vec<u8>),
    /// Of the host, with its final size; `filled` bytes of it are written.
    Reserved {
        memory: Box<dyn StreamMemory>,
        filled: usize,
    },
}

impl Room {
    /// Room for a stream of `total` bytes, which takes no memory yet.
    pub(super) fn new(total: u64, reserve: ReserveMemory) -> Self {
        match reserve(total) {
            Some(memory) => Self::Reserved { memory, filled: 0 },
            None => Self::Heap(Vec::new()),
        }
    }

    /// What has come.
    pub(super) fn filled(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Reserved { memory, filled } => {
                let all: &[u8] = (**memory).as_ref();
                all.get(..*filled).unwrap_or_default()
            }
        }
    }

    /// Takes the next bytes of a stream of `total` bytes; `false` when they do not fit.
    pub(super) fn push(&mut self, bytes: &[u8], total: usize) -> bool {
        match self {
            Self::Heap(heap) => {
                let end = heap.len().saturating_add(bytes.len());
                if end > heap.capacity() {
                    let doubled = end.saturating_mul(2).max(FIRST_BYTES);
                    heap.reserve_exact(doubled.min(total).saturating_sub(heap.len()));
                }
                heap.extend_from_slice(bytes);
                true
            }
            Self::Reserved { memory, filled } => {
                let end = filled.saturating_add(bytes.len());
                let all: &mut [u8] = (**memory).as_mut();
                let Some(place) = all.get_mut(*filled..end) else {
                    return false;
                };
                place.copy_from_slice(bytes);
                *filled = end;
                true
            }
        }
    }

    /// The whole stream, without a copy.
    pub(super) fn into_bytes(self) -> Bytes {
        match self {
            Self::Heap(bytes) => Bytes::from(bytes),
            Self::Reserved { memory, filled } => Bytes::from_owner(Filled { memory, filled }),
        }
    }

    /// What the heap takes before it grows.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        match self {
            Self::Heap(bytes) => bytes.capacity(),
            Self::Reserved { filled, .. } => *filled,
        }
    }
}

/// Reserved memory as the owner of a stream.
struct Filled {
    memory: Box<dyn StreamMemory>,
    filled: usize,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        let all: &[u8] = (*self.memory).as_ref();
        all.get(..self.filled).unwrap_or_default()
    }
}
