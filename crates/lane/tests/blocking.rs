//! Handlers that block their thread instead of waiting: they keep a worker, and nothing else.

#![expect(clippy::disallowed_methods, reason = "tests own the tasks they spawn")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use spotlane_lane::{
    ActorDelivery, Engine, GateUse, HandlerError, KeepGate, Kind, Lane, LaneLimits, Monotonic,
    Owner, Turn,
};

/// A handler that nobody meets gives up after this time, and the test fails.
const PATIENCE: Duration = Duration::from_secs(20);
const ROUNDS: usize = 30;
/// So many items that a worker lets others run in between.
const ROW: usize = 600;

enum Meeting {
    /// Blocks its thread until so many others came.
    Wait(mpsc::Receiver<()>, usize),
    Come(mpsc::Sender<()>),
    /// Has another lane come, blocks its thread until it came, and comes itself.
    Send {
        to: Lane<Blocking>,
        other: mpsc::Sender<()>,
        came: mpsc::Receiver<()>,
        then: mpsc::Sender<()>,
    },
}

struct Blocking;

impl Owner for Blocking {
    type Policy = ActorDelivery;
    type Waits = KeepGate;
    type Item = Meeting;
    type Reply = bool;

    async fn handle(_: &mut Turn<'_, Self>, meeting: Meeting) -> Result<bool, HandlerError> {
        Ok(match meeting {
            Meeting::Wait(others, count) => {
                (0..count).all(|_| others.recv_timeout(PATIENCE).is_ok())
            }
            Meeting::Come(other) => other.send(()).is_ok(),
            Meeting::Send {
                to,
                other,
                came,
                then,
            } => {
                to.enqueue(Meeting::Come(other)).is_ok()
                    && came.recv_timeout(PATIENCE).is_ok()
                    && then.send(()).is_ok()
            }
        })
    }
}

fn engine(workers: usize) -> (Engine, Kind<Blocking>) {
    let clock = Arc::new(|| Monotonic::ORIGIN);
    let runtime = tokio::runtime::Handle::current();
    let workers = NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN);
    let engine = Engine::start(&runtime, workers, clock);
    let kind = engine.kind(LaneLimits::DEFAULT, GateUse::Own);
    (engine, kind)
}

/// One gate blocks until the other has run `count` items. All enter from one task of the runtime, and
/// with it the queue of one worker.
async fn meet(waits: Lane<Blocking>, comes: Lane<Blocking>, count: usize) -> bool {
    let both = tokio::task::spawn(async move {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..count / 2 {
            assert!(comes.enqueue(Meeting::Come(sender.clone())).is_ok());
        }
        let waited = waits.ask(Meeting::Wait(receiver, count));
        let came = async {
            for _ in count / 2..count {
                assert!(comes.enqueue(Meeting::Come(sender.clone())).is_ok());
            }
        };
        tokio::join!(waited, came).0
    });
    matches!(both.await, Ok(Ok(true)))
}

/// Two workers, and in each round two lanes of which one blocks until the other has done `items` items.
async fn two_lanes_meet(items: usize) {
    let (_engine, kind) = engine(2);
    for round in 0..ROUNDS {
        assert!(
            meet(kind.lane(Blocking), kind.lane(Blocking), items).await,
            "round {round}"
        );
    }
}

/// EX-3, EX-70: a gate that waits behind a handler which keeps its worker busy goes to another worker,
/// wherever it was entered from.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_gate_behind_a_blocking_handler_goes_to_another_worker() {
    two_lanes_meet(1).await;
}

/// EX-3, EX-70: with as many threads as workers there is one left of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_threads_are_enough_for_a_blocking_handler() {
    two_lanes_meet(1).await;
}

/// EX-3, EX-70: a gate with so much work that its worker lets others go first in between is not
/// stranded on the thread that a handler then keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_row_of_items_goes_on_beside_a_blocking_handler() {
    two_lanes_meet(400).await;
}

/// EX-3, EX-70: three of four workers are kept by handlers; the last one serves the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_last_free_worker_serves_everybody() {
    let (_engine, kind) = engine(4);
    for round in 0..ROUNDS {
        let pairs: Vec<_> = (0..3)
            .map(|_| meet(kind.lane(Blocking), kind.lane(Blocking), 100))
            .map(tokio::task::spawn)
            .collect();
        for pair in pairs {
            assert!(matches!(pair.await, Ok(true)), "round {round}");
        }
    }
}

/// EX-3, EX-70: a worker that helps out runs a handler which enters another gate and blocks until that
/// one has run; a third worker takes it. Fails when a helper does not `go_on`: what enters its queue then
/// seems to meet a worker that is about to look.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_a_helping_handler_enters_goes_to_a_third_worker() {
    let (_engine, kind) = engine(3);
    for round in 0..ROUNDS {
        let (blocks, helped, to) = (
            kind.lane(Blocking),
            kind.lane(Blocking),
            kind.lane(Blocking),
        );
        let all = tokio::task::spawn(async move {
            let ((then, waits), (other, came)) = (mpsc::channel(), mpsc::channel());
            assert!(blocks.enqueue(Meeting::Wait(waits, 1)).is_ok());
            let send = Meeting::Send {
                to,
                other,
                came,
                then,
            };
            helped.ask(send).await
        });
        assert!(matches!(all.await, Ok(Ok(true))), "round {round}");
    }
}

/// EX-3, EX-70: a gate that enters while a worker lets other tasks run, with a long row of items in
/// hand, is offered to the others when the worker goes on with the row, since a handler of it may block.
/// Fails when a worker with a gate in hand does not `go_on`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_enters_in_a_pause_is_offered() {
    let (_engine, kind) = engine(2);
    for round in 0..ROUNDS {
        let (row, enters) = (kind.lane(Blocking), kind.lane(Blocking));
        let both = tokio::task::spawn(async move {
            let ((sender, receiver), (done, _done)) = (mpsc::channel(), mpsc::channel());
            for _ in 0..ROW {
                assert!(row.enqueue(Meeting::Come(done.clone())).is_ok());
            }
            let waited = row.ask(Meeting::Wait(receiver, 1));
            let came = async {
                // The worker begins with the row and pauses.
                tokio::task::yield_now().await;
                assert!(enters.enqueue(Meeting::Come(sender)).is_ok());
            };
            tokio::join!(waited, came).0
        });
        assert!(matches!(both.await, Ok(Ok(true))), "round {round}");
    }
}
