//! A capture as a payload: the checksum of a large state is made beside the reactor, in pieces side by side.

use bytes::Bytes;
use spotlane_relocation::source::payload::{ParticipantCapture, Payload};
use spotlane_relocation::source::{CaptureFailure, CaptureOrder};
use spotlane_wire::checksum::Crc32c;

/// From so many bytes of state on, the checksum is made on threads that may block.
const APART_FROM: usize = 1024 * 1024;
/// At most so many of them for one state.
const PIECES_MAX: usize = 4;

/// Encodes what was captured of one participant; its state is not copied.
pub(super) async fn encode(
    order: &CaptureOrder,
    participant: ParticipantCapture,
) -> Result<Payload, CaptureFailure> {
    let sum = match &participant.state {
        Some(state) if state.len() >= APART_FROM => Some(sum(state).await?),
        Some(_) | None => None,
    };
    Payload::encode_summed(order, &[participant], &[sum]).map_err(|error| {
        tracing::error!(target: "spotlane::runtime::relocation", %error, "a payload was not encoded");
        CaptureFailure::NotEncodable
    })
}

/// The checksum of a large state. Command 40 carries it, so nothing can be sent before it is there.
async fn sum(state: &Bytes) -> Result<Crc32c, CaptureFailure> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let length = state.len().div_ceil(threads.min(PIECES_MAX)).max(1);
    let mut pieces = Vec::with_capacity(PIECES_MAX);
    let mut rest = state.clone();
    while !rest.is_empty() {
        let piece = rest.split_to(length.min(rest.len()));
        pieces.push(tokio::task::spawn_blocking(move || {
            let mut sum = Crc32c::default();
            sum.update(&piece);
            sum
        }));
    }
    let mut whole = Crc32c::default();
    for piece in pieces {
        // It fails only when the runtime ends.
        let sum = piece.await.map_err(|_| CaptureFailure::NotEncodable)?;
        whole.append(&sum);
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WR-50
    #[tokio::test]
    async fn pieces_side_by_side_have_the_sum_of_the_whole() {
        for length in [1, APART_FROM, APART_FROM + 1, 3 * APART_FROM + 7] {
            let state: Bytes = (0..length).map(|at| at.to_le_bytes()[0]).collect();
            let sum = sum(&state).await.unwrap();
            assert_eq!(sum.value(), spotlane_wire::checksum::crc32c(&state));
        }
    }
}
