//! One demo from beginning to end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::client::grouped;
use crate::node::{LogLevel, write_log};
use crate::term::say;

use super::args::DemoArgs;
use super::clients::{self, ClientCounts, Connected, connect_all};
use super::collect::Collector;
use super::moves::{MoveCounts, move_all};
use super::oracle::Oracle;
use super::recorder::Figures;
use super::spread::millis;
use super::traffic::{Shared, send_all};
use super::verdict::{self, Bounds, Verdict};
use super::world::{World, WorldError};

/// So many times the length that was asked for a demo may last until every actor has moved.
const LONGER: u32 = 4;

/// Runs a demo and returns what it has shown.
///
/// # Errors
/// It did not begin.
pub(crate) async fn run(mut args: DemoArgs) -> Result<Verdict, WorldError> {
    // An actor has one client at a time.
    args.actors = args.actors.max(args.clients);
    let figures = Figures::default();
    write_log(LogLevel::Error, Some(figures.clone()));
    // Only a second demo in this process finds one installed, and its figures then are the first one's.
    drop(metrics::set_global_recorder(figures.clone()));
    let run = u64::from(std::process::id());
    let world = World::start(&args, run).await?;
    let counts = Counts::default();
    let clients = connect_all(&world, args.clients, &counts.clients).await?;
    if !args.json {
        say(&introduction(&args));
    }
    let start = Instant::now();
    let shared = Arc::new(Shared {
        world,
        start,
        end: start + Duration::from_secs(args.seconds),
        latest_end: start + Duration::from_secs(args.seconds) * LONGER,
        args,
        oracle: Mutex::new(Oracle::new()),
        latency: Mutex::default(),
        crossing: Mutex::default(),
        troubles: Mutex::default(),
        payload_bytes: AtomicU64::new(0),
    });
    let counts = Arc::new(counts);
    let collector = Collector::new(Arc::clone(&shared));
    drive(&shared, clients, &counts, &collector, &figures).await;
    collector.settle().await;
    collector.check_totals().await;
    drop(collector);
    // Every task has ended, so nobody else holds it.
    let shared = Arc::into_inner(shared);
    let Some(shared) = shared else {
        return Err(WorldError::Ready(spotlane::Error::internal(
            "a task of the demo is still running",
        )));
    };
    let verdict = judge(&shared, &counts, &figures);
    shared.world.shutdown().await;
    Ok(verdict)
}

/// What happened beside the messages.
#[derive(Debug, Default)]
struct Counts {
    moves: MoveCounts,
    clients: ClientCounts,
}

/// Everything at once, until traffic ends and every move is over.
async fn drive(
    shared: &Arc<Shared>,
    clients: Vec<Connected>,
    counts: &Arc<Counts>,
    collector: &Collector,
    figures: &Figures,
) {
    let mut tasks = JoinSet::new();
    for sender in 0..shared.args.senders {
        let shared = Arc::clone(shared);
        tasks.spawn(async move { send_all(&shared, sender).await });
    }
    for client in clients {
        let (shared, counts) = (Arc::clone(shared), Arc::clone(counts));
        tasks.spawn(async move { clients::run(&shared, client, &counts.clients).await });
    }
    let (moved, told) = (Arc::clone(shared), Arc::clone(counts));
    tasks.spawn(async move { move_all(&moved, &told.moves).await });
    let all = async { while tasks.join_next().await.is_some() {} };
    let report = async {
        if shared.args.json {
            std::future::pending::<()>().await;
        }
        progress(shared, counts, figures).await;
    };
    let work = async { tokio::join!(all, collector.collect()) };
    tokio::select! {
        _ = work => {}
        () = report => {}
    }
}

fn introduction(args: &DemoArgs) -> String {
    let clients = match args.clients {
        0 => String::new(),
        clients => format!(", {} clients", grouped(clients.into())),
    };
    format!(
        "3 hosts, {} actors with {} of state, {} senders{clients}, {} messages and {} moves a second, for {} s\n\n",
        grouped(args.actors.into()),
        crate::config::show_bytes(args.state),
        grouped(args.senders.into()),
        grouped(args.rate),
        args.moves_each_second(),
        args.seconds
    )
}

/// A line each second, for ever.
async fn progress(shared: &Shared, counts: &Counts, figures: &Figures) {
    let second = Duration::from_secs(1);
    let mut seconds = interval_at(shared.start + second, second);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let now = seconds.tick().await;
        let tally = shared.judge(|oracle| *oracle.tally());
        say(&format!(
            "{:>4} s  messages {:>10}  moves {:>7}  interruption p99 {:>10}  broken {}\n",
            now.duration_since(shared.start).as_secs(),
            grouped(tally.messages),
            grouped(counts.moves.now(&shared.world).completed),
            millis(figures.interruption().p99_us),
            tally.broken()
        ));
    }
}

fn judge(shared: &Shared, counts: &Counts, figures: &Figures) -> Verdict {
    let oracle = std::mem::take(&mut *shared.oracle.lock().unwrap_or_else(PoisonError::into_inner));
    let messages = oracle.finish();
    let (moves, clients) = (counts.moves.now(&shared.world), counts.clients.now());
    let interruption = figures.interruption();
    let crossing = shared
        .crossing
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .summary();
    let bounds = match shared.args.rounds() {
        0 => Bounds::default(),
        rounds => Bounds {
            rounds: rounds.into(),
            crossing_us: shared.args.crossing_ms * 1_000,
        },
    };
    Verdict {
        holds: verdict::holds(
            &messages,
            &clients,
            &moves,
            &interruption,
            &crossing,
            &bounds,
        ),
        seconds: shared.args.seconds,
        store: shared.world.store(),
        seed: shared.args.seed,
        moves,
        clients,
        messages,
        payload_bytes: shared.payload_bytes.load(Ordering::Relaxed),
        state_bytes: figures.bytes(),
        interruption,
        latency: shared
            .latency
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .summary(),
        crossing,
        bounds,
        troubles: shared
            .troubles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone(),
    }
}
