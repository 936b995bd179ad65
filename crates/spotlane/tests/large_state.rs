//! What a large state costs while it moves: memory, time, and the answers of others. Alone in its program, since it counts
//! allocations and the memory of the whole process.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not covered by the setting"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests hold the handles of their tasks"
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
use spotlane_wire::checksum::Crc32c;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::time::Instant;

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const STATE: usize = 64 << 20;
/// The state of the test that takes the time of its move.
const LONG: usize = 256 << 20;
/// One test at a time: the first counts what the whole process does.
static ALONE: Mutex<()> = Mutex::const_new(());
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

/// Two hosts that see each other. At the first one lives `large`, with a state of so many bytes, at the other `small`.
async fn pair(bytes: usize) -> (Host, Host) {
    let store = MemoryStore::new(spotlane::store_time);
    let relocation = MemoryRelocation::new(spotlane::store_time);
    let a = start("a", &store, &relocation).await;
    let created = a.actors().create::<Blob>("large");
    created.request(bytes.to_string()).await.unwrap();
    a.actors().create::<Blob>("small").await.unwrap();
    let b = start("b", &store, &relocation).await;
    for host in [&a, &b] {
        host.wait_for_peers(1, Duration::from_secs(30))
            .await
            .unwrap();
    }
    while a.nodes().len() < 2 {
        tokio::task::yield_now().await;
    }
    a.relocate("small", b.node_id()).await.unwrap();
    (a, b)
}

/// RL-116, RL-131, EX-328: on its way a state is there twice at most, once at each node. Beyond that the source takes
/// nothing of its size from the heap, and neither does the target.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_state_is_copied_once_by_its_move() {
    let _alone = ALONE.lock().await;
    let (a, b) = pair(STATE).await;

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

/// How long a bare socket takes for as many bytes with the same checksum on both sides.
async fn plain(bytes: usize) -> Duration {
    const PIECE: usize = 256 << 10;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let taking = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (mut sum, mut piece) = (Crc32c::default(), vec![0; PIECE]);
        for _ in 0..bytes / PIECE {
            socket.read_exact(&mut piece).await.unwrap();
            sum.update(&piece);
        }
        sum.value()
    });
    let mut socket = TcpStream::connect(address).await.unwrap();
    let start = Instant::now();
    let (mut sum, piece) = (Crc32c::default(), vec![7; PIECE]);
    for _ in 0..bytes / PIECE {
        sum.update(&piece);
        socket.write_all(&piece).await.unwrap();
    }
    assert_eq!(taking.await.unwrap(), sum.value());
    start.elapsed()
}

/// RL-132: a large state moves in no more than fifty times what a bare socket takes (five times in a test build on two shared
/// cores), and others are answered over the same connection meanwhile: they wait for a part of the move and not for the
/// whole, however slow the machine is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_answered_while_a_large_state_moves() {
    let _alone = ALONE.lock().await;
    let (a, b) = pair(LONG).await;
    let plain = plain(LONG).await;
    let (mover, target) = (a.clone(), b.node_id().clone());
    let moving = tokio::spawn(async move {
        let start = Instant::now();
        mover.relocate("large", &target).await.unwrap();
        start.elapsed()
    });
    let mut times = Vec::new();
    while !moving.is_finished() {
        let start = Instant::now();
        let size: String = a.actor("small").request("sum", ()).reply().await.unwrap();
        times.push(start.elapsed());
        assert_eq!(size, "0");
    }
    let took = moving.await.unwrap();
    times.sort_unstable();
    println!(
        "{took:?} for the move, {plain:?} for a bare socket; {} answers, nine of ten within {:?}, all within {:?}",
        times.len(),
        times[times.len() * 9 / 10],
        times[times.len() - 1]
    );
    assert!(took < plain * 50, "{took:?}, and {plain:?} without us");
    // Behind the whole state there would be room for one or two.
    assert!(times.len() > 16, "{} answers", times.len());
    let most = times[times.len() * 9 / 10];
    assert!(most < took / 4, "{most:?} of {took:?}");
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
