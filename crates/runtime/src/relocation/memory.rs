//! Memory for a long payload: fresh pages, in large ones where the system has them.
//!
//! A payload is written once, from its start to its end, into memory that nobody has touched. With pages of 4 KiB that
//! costs more than the copy itself; with pages of 2 MiB it costs next to nothing.

use memmap2::MmapOptions;
use spotlane_relocation::target::StreamMemory;

/// From this size on a payload has a mapping of its own; below it the allocator has memory that was used before.
const MAPPED_FROM: u64 = 4 * 1024 * 1024;

/// Memory for a stream of `bytes` bytes. It takes address space at once, and memory page by page as it is written, so an
/// announced length alone costs nothing (RL-359, D-9).
///
/// `None` for short streams, and where the system refuses: then the heap is used.
pub(super) fn reserve(bytes: u64) -> Option<Box<dyn StreamMemory>> {
    if bytes < MAPPED_FROM {
        return None;
    }
    let bytes = usize::try_from(bytes).ok()?;
    let mut options = MmapOptions::new();
    let mapping = options.len(bytes).no_reserve_swap().map_anon().ok()?;
    prefer_large_pages(&mapping);
    Some(Box::new(mapping))
}

#[cfg(target_os = "linux")]
fn prefer_large_pages(mapping: &memmap2::MmapMut) {
    // A system without them has small ones, which do as well.
    mapping.advise(memmap2::Advice::HugePage).ok();
}

#[cfg(not(target_os = "linux"))]
fn prefer_large_pages(_: &memmap2::MmapMut) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// RL-359, D-9: a claim of 256 GiB, the longest there is, costs address space at most.
    #[test]
    fn a_claim_costs_no_memory() {
        if let Some(mut memory) = reserve(1 << 38) {
            let all: &mut [u8] = (*memory).as_mut();
            assert_eq!(all.len(), 1 << 38);
            all[0] = 1;
        }
    }

    #[test]
    fn a_short_stream_is_left_to_the_heap() {
        assert!(reserve(MAPPED_FROM - 1).is_none());
        let mut memory = reserve(MAPPED_FROM).unwrap();
        let all: &mut [u8] = (*memory).as_mut();
        all.fill(5);
        assert_eq!((*memory).as_ref().last(), Some(&5));
    }
}
