//! Memory for a long payload: fresh pages, in large ones where the system has them.
//!
//! A payload is written once, from its start to its end, into memory that nobody has touched. With pages of 4 KiB that
//! costs more than the copy itself; with pages of 2 MiB it costs next to nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapMut, MmapOptions};
use spotlane_relocation::target::StreamMemory;

/// From this size on a payload has a mapping of its own; below it the allocator has memory that was used before.
const MAPPED_FROM: u64 = 4 * 1024 * 1024;

/// Address space that mappings may take together: of sixteen of the longest streams. A process has 32 times as much, and cannot
/// go on without some for everything else, while a length is only claimed by a command 40.
const CLAIMED_MAX: u64 = 16 << 38;
/// What a mapping takes of that at least, so that the system does not run out of mappings either: it allows 65,530.
const CLAIM_MIN: u64 = 1 << 30;

/// What mappings take now.
static CLAIMED: AtomicU64 = AtomicU64::new(0);

/// A part of the address space that mappings may take.
#[derive(Debug)]
struct Claim(u64);

impl Claim {
    fn of(bytes: u64) -> Option<Self> {
        let claim = bytes.max(CLAIM_MIN);
        let next = |claimed: u64| {
            let claimed = claimed.checked_add(claim)?;
            (claimed <= CLAIMED_MAX).then_some(claimed)
        };
        let taken = CLAIMED.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        taken.ok().map(|_| Self(claim))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMED.fetch_sub(self.0, Ordering::AcqRel);
    }
}

/// A mapping and what it takes of the address space.
#[derive(Debug)]
struct Mapping {
    bytes: MmapMut,
    // Behind the mapping: what is free again is free.
    _claim: Claim,
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Mapping {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// Memory for a stream of `bytes` bytes. It takes address space at once, and memory page by page as it is written, so an
/// announced length alone costs nothing (RL-359, D-9).
///
/// `None` for short streams, when others have claimed too much, and where the system refuses: then the heap is used.
pub(super) fn reserve(bytes: u64) -> Option<Box<dyn StreamMemory>> {
    if bytes < MAPPED_FROM {
        return None;
    }
    let claim = Claim::of(bytes)?;
    let bytes = usize::try_from(bytes).ok()?;
    let mut options = MmapOptions::new();
    let mapping = options.len(bytes).no_reserve_swap().map_anon().ok()?;
    prefer_large_pages(&mapping);
    Some(Box::new(Mapping {
        bytes: mapping,
        _claim: claim,
    }))
}

#[cfg(target_os = "linux")]
fn prefer_large_pages(mapping: &MmapMut) {
    // A system without them has small ones, which do as well.
    mapping.advise(memmap2::Advice::HugePage).ok();
}

#[cfg(not(target_os = "linux"))]
fn prefer_large_pages(_: &MmapMut) {}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What one test claims is missing for the others.
    static ALONE: Mutex<()> = Mutex::new(());

    /// RL-359, D-9: a claim of 256 GiB, the longest there is, costs address space at most.
    #[test]
    fn a_claim_costs_no_memory() {
        let _alone = ALONE.lock();
        if let Some(mut memory) = reserve(1 << 38) {
            let all: &mut [u8] = (*memory).as_mut();
            assert_eq!(all.len(), 1 << 38);
            all[0] = 1;
        }
    }

    /// RL-359, D-9: nor do many claims together take the address space that everything else in the process needs.
    #[test]
    fn claims_leave_room_for_everything_else() {
        let _alone = ALONE.lock();
        let mut claims = Vec::new();
        for size in [38, 34, 30, 26] {
            claims.extend((0..1000).map_while(|_| reserve(1 << size)));
        }
        let mut other = Vec::<u8>::new();
        assert!(other.try_reserve_exact(1 << 30).is_ok(), "{}", claims.len());
        drop(claims);
        assert!(reserve(1 << 38).is_some(), "what is given up is free again");
    }

    #[test]
    fn a_short_stream_is_left_to_the_heap() {
        let _alone = ALONE.lock();
        assert!(reserve(MAPPED_FROM - 1).is_none());
        let mut memory = reserve(MAPPED_FROM).unwrap();
        let all: &mut [u8] = (*memory).as_mut();
        all.fill(5);
        assert_eq!((*memory).as_ref().last(), Some(&5));
    }
}
