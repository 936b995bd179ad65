//! What a large state costs in memory while it moves. Alone in its program, since it counts allocations and the memory
//! of the whole process.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not covered by the setting"
)]
#![expect(
    clippy::unused_async,
    reason = "handlers are async whether or not they wait"
)]

use std::alloc::System;
use std::time::Duration;

use spotlane::id::NodeRid;
use spotlane::memory::{MemoryRelocation, MemoryStore};
use spotlane::prelude::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const STATE: usize = 64 << 20;
/// What everything besides the state may take: buffers of sockets and records, threads, what the tests' own actors need.
const REST: usize = STATE / 8;

#[derive(Default)]
struct Blob(Bytes);

impl Actor for Blob {
    const TYPE: &'static str = "blob";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers.request("sum", Self::sum);
    }

    async fn on_create(
        &mut self,
        _: &mut Context,
        size: Option<Payload>,
    ) -> Result<Decision, Error> {
        let size = size.map(|size| String::from_utf8_lossy(size.as_bytes()).parse().unwrap());
        self.0 = (0..size.unwrap_or(0)).map(byte_at).collect();
        Ok(Decision::accept())
    }
}

fn byte_at(place: usize) -> u8 {
    place.wrapping_mul(0x9e37_79b9).to_le_bytes()[2]
}

impl Blob {
    /// Where the state differs from what it was made as, and its length.
    async fn sum(&mut self, _: &mut Context, (): ()) -> String {
        let wrong = (0..).zip(&self.0).find(|(at, byte)| byte_at(*at) != **byte);
        assert_eq!(wrong, None);
        self.0.len().to_string()
    }
}

struct Slices;

impl Adapter<Blob> for Slices {
    async fn capture(&self, blob: &mut Blob) -> Result<Bytes, Error> {
        Ok(blob.0.clone())
    }

    async fn restore(&self, blob: &mut Blob, state: Bytes) -> Result<(), Error> {
        blob.0 = state;
        Ok(())
    }
}

async fn start(node: &str, store: &MemoryStore, relocation: &MemoryRelocation) -> Host {
    Host::builder()
        .mesh("test")
        .node_id(node)
        .listen("tcp://127.0.0.1:0")
        .location_store(store.clone())
        .relocation_store(relocation.clone())
        .actor(Policy::preserve(Slices), Blob::default)
        .start()
        .await
        .unwrap()
}

/// RL-116, RL-131, EX-328: on its way a state is there twice at most, once at each node. Beyond that the source takes
/// nothing of its size from the heap, and neither does the target.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_state_is_copied_once_by_its_move() {
    let store = MemoryStore::new(spotlane::store_time);
    let relocation = MemoryRelocation::new(spotlane::store_time);
    let a = start("a", &store, &relocation).await;
    let created = a.actors().create::<Blob>("large");
    created.request(STATE.to_string()).await.unwrap();
    let b = start("b", &store, &relocation).await;
    for host in [&a, &b] {
        host.wait_for_peers(1, Duration::from_secs(10))
            .await
            .unwrap();
    }
    while a.nodes().len() < 2 {
        tokio::task::yield_now().await;
    }

    let before = memory::mark();
    let heap = Region::new(COUNTING);
    let target = NodeRid::new(b"b").unwrap();
    a.relocate("large", &target).await.unwrap();
    // Everything that was ever taken, also what was given back meanwhile, as for each chunk: no copy is among it.
    let taken = heap.change().bytes_allocated;
    assert!(taken < STATE / 2, "{taken} bytes were taken from the heap");
    if let Some((before, peak)) = before.zip(memory::peak()) {
        let more = peak - before;
        assert!(more < STATE + REST, "{more} bytes more were resident");
    }

    let size: String = b.actor("large").request("sum", ()).reply().await.unwrap();
    assert_eq!(size, STATE.to_string());
}

/// The resident memory of this process, where the system tells.
mod memory {
    use std::fs;

    /// Lets the peak begin anew, and says what there is now.
    pub(crate) fn mark() -> Option<usize> {
        fs::write("/proc/self/clear_refs", "5").ok()?;
        of("VmRSS:")
    }

    /// The most since [`mark`].
    pub(crate) fn peak() -> Option<usize> {
        of("VmHWM:")
    }

    fn of(field: &str) -> Option<usize> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        let kilobytes: usize = line.split_whitespace().next()?.parse().ok()?;
        Some(kilobytes * 1024)
    }
}
