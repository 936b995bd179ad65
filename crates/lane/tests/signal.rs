//! Moves that the application signals: marked boundaries and what comes of them.

#![allow(
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests own the tasks they spawn, and owners misbehave on purpose"
)]

mod support;

use spotlane_lane::{
    AskError, GateUse, HandlerError, InvalidOperation, Lane, LaneLimits, Owner, RelocationReady,
    SealGuard, Spot, Turn, Yielding,
};
use support::{Bench, Log, settle};
use tokio::sync::oneshot;

struct OwnerCommitted;

/// A game that may move between two rounds.
struct Game {
    log: Log,
    /// What the completion callback does.
    callback: Callback,
}

#[derive(Clone, Copy)]
enum Callback {
    Note,
    Fail,
    Panic,
}

enum Order {
    Note(&'static str),
    Wait(oneshot::Receiver<()>),
    Mark(&'static str),
    MarkAndFail,
    /// Everything that is refused after a mark.
    MarkThenMore(Lane<Game>),
    /// Gives the gate up until it is released.
    Yield(oneshot::Receiver<()>),
}

impl Owner for Game {
    type Policy = Spot;
    type Waits = Yielding;
    type Item = Order;
    type Reply = Result<(), InvalidOperation>;

    async fn handle(
        turn: &mut Turn<'_, Self>,
        order: Order,
    ) -> Result<Result<(), InvalidOperation>, HandlerError> {
        let log = turn.state().log.clone();
        match order {
            Order::Note(name) => log.note(name),
            Order::Wait(release) => drop(release.await),
            Order::Yield(release) => drop(turn.yield_for(release).await),
            Order::Mark(name) => {
                log.note(name);
                return Ok(turn.defer_relocation_ready());
            }
            Order::MarkAndFail => {
                turn.defer_relocation_ready().map_err(HandlerError::new)?;
                return Err(HandlerError::new("after the mark"));
            }
            Order::MarkThenMore(other) => {
                turn.defer_relocation_ready().map_err(HandlerError::new)?;
                let after = Err(InvalidOperation::AfterReady);
                let asked = turn.ask(&other, Order::Note("never")).await;
                assert_eq!(said(asked), after);
                let asked = turn.yield_ask(&other, Order::Note("never")).await;
                assert_eq!(said(asked), after);
                assert!(turn.yield_for(async {}).await.is_err());
                assert_eq!(turn.defer(Order::Note("never")), after);
                assert_eq!(turn.defer_to(&other, Order::Note("never")), after);
                return Ok(turn.defer_relocation_ready());
            }
        }
        Ok(Ok(()))
    }

    async fn on_relocation_ready(
        turn: &mut Turn<'_, Self>,
        outcome: RelocationReady,
    ) -> Result<(), HandlerError> {
        // The callback is no turn that could mark.
        let refused = turn.defer_relocation_ready();
        assert_eq!(refused, Err(InvalidOperation::ReadyNotOffered));
        turn.state().log.note(format!("{outcome:?}"));
        match turn.state().callback {
            Callback::Note => Ok(()),
            Callback::Fail => Err(HandlerError::new("a failing callback")),
            Callback::Panic => panic!("a panicking callback"),
        }
    }
}

fn said(outcome: Result<Result<(), InvalidOperation>, AskError>) -> Result<(), InvalidOperation> {
    match outcome {
        Err(AskError::InvalidOperation(why)) => Err(why),
        Err(error) => panic!("{error}"),
        Ok(said) => said,
    }
}

fn game(bench: &Bench, callback: Callback) -> Lane<Game> {
    let kind = bench.engine.kind(LaneLimits::DEFAULT, GateUse::Shared);
    kind.application_signaled().lane(Game {
        log: bench.log.clone(),
        callback,
    })
}

/// The request, and the guard when it comes.
fn request(game: &Lane<Game>) -> tokio::task::JoinHandle<SealGuard<Game>> {
    let sealed = game.request_seal();
    tokio::spawn(async move { sealed.await.unwrap() })
}

/// EX-203, RL-205, RL-207: the seal waits for a boundary that is marked, and not for one that only ends a turn. What is held
/// runs after the completion callback of the source.
#[tokio::test]
async fn a_seal_waits_for_a_marked_boundary() {
    let bench = Bench::new();
    let game = game(&bench, Callback::Note);
    let request = request(&game);
    settle().await;
    assert!(
        !request.is_finished(),
        "an idle lane has no marked boundary"
    );
    game.enqueue(Order::Note("a")).unwrap();
    game.enqueue(Order::Mark("mark")).unwrap();
    game.enqueue(Order::Note("b")).unwrap();
    let guard = request.await.unwrap();
    assert!(guard.is_marked());
    assert_eq!(guard.captured().count(), 1);
    assert_eq!(bench.log.text(), "a mark");
    game.enqueue(Order::Note("held")).unwrap();
    settle().await;
    guard.restore(None);
    game.await_quiescence().await;
    assert_eq!(bench.log.text(), "a mark Continued b held");
}

/// EX-203, RL-206, RL-207: without a move each mark completes as continued, once, before the next application job.
#[tokio::test]
async fn each_mark_completes_once() {
    let bench = Bench::new();
    let game = game(&bench, Callback::Note);
    for name in ["one", "two"] {
        game.enqueue(Order::Mark(name)).unwrap();
        game.enqueue(Order::Note("next")).unwrap();
    }
    game.await_quiescence().await;
    assert_eq!(bench.log.text(), "one Continued next two Continued next");
    // The last mark of a queue completes as well.
    game.enqueue(Order::Mark("last")).unwrap();
    game.await_quiescence().await;
    assert!(bench.log.text().ends_with("last Continued"));
}

/// EX-203, EX-208, RL-207: at the target the completion runs while application dispatch is closed, and before everything that
/// was saved or came directly.
#[tokio::test]
async fn the_target_is_told_before_its_dispatch_opens() {
    let bench = Bench::new();
    let source = game(&bench, Callback::Note);
    let request = request(&source);
    source.enqueue(Order::Mark("mark")).unwrap();
    let guard = request.await.unwrap();
    let marked = guard.is_marked();
    drop(guard.into_handoff().moved());
    assert!(marked);
    let kind = bench.engine.kind(LaneLimits::DEFAULT, GateUse::Shared);
    let kind = kind.application_signaled();
    let backlog = kind.stage::<OwnerCommitted>(Game {
        log: bench.log.clone(),
        callback: Callback::Note,
    });
    let lane = backlog.lane().unwrap();
    lane.enqueue(Order::Note("direct")).unwrap();
    settle().await;
    backlog.relocated().await.unwrap();
    assert_eq!(bench.log.text(), "mark Relocated");
    let open = backlog.open(OwnerCommitted, None).unwrap();
    open.await_quiescence().await;
    assert_eq!(bench.log.text(), "mark Relocated direct");

    let removed = kind.stage::<OwnerCommitted>(Game {
        log: bench.log.clone(),
        callback: Callback::Note,
    });
    removed.lane().unwrap();
    bench.engine.shutdown(std::future::ready(())).await;
    assert!(matches!(
        removed.relocated().await,
        Err(AskError::Unavailable)
    ));
}

/// EX-203, RL-206: elsewhere, twice in a turn, and for whatever else a turn begins after its mark: refused, with no change of
/// a queue.
#[tokio::test]
async fn marks_are_refused_where_they_are_not_offered() {
    let bench = Bench::new();
    let not_offered = Err(InvalidOperation::ReadyNotOffered);
    for (gate, signaled) in [(GateUse::Shared, false), (GateUse::Own, true)] {
        let mut kind = bench.engine.kind(LaneLimits::DEFAULT, gate);
        if signaled {
            kind = kind.application_signaled();
        }
        let other = kind.lane(Game {
            log: bench.log.clone(),
            callback: Callback::Note,
        });
        assert_eq!(other.ask(Order::Mark("mark")).await.unwrap(), not_offered);
        // Such a Spot is sealed at any boundary.
        other.request_seal().await.unwrap().restore(None);
        other.await_quiescence().await;
    }
    let game = game(&bench, Callback::Note);
    assert_eq!(
        game.ask_lifecycle(Order::Mark("mark")).await.unwrap(),
        not_offered
    );
    bench.log.clear();
    let other = bench
        .engine
        .kind(LaneLimits::DEFAULT, GateUse::Own)
        .lane(Game {
            log: bench.log.clone(),
            callback: Callback::Note,
        });
    let twice = game.ask(Order::MarkThenMore(other.clone())).await.unwrap();
    assert_eq!(twice, Err(InvalidOperation::AfterReady));
    game.await_quiescence().await;
    assert_eq!(bench.log.text(), "Continued", "the first mark stands");
    assert_eq!(other.application_usage().accepted, 0);
}

/// EX-45, EX-203: a handler that fails takes its mark back.
#[tokio::test]
async fn a_failing_handler_takes_its_mark_back() {
    let bench = Bench::new();
    let game = game(&bench, Callback::Note);
    let request = request(&game);
    game.enqueue(Order::MarkAndFail).unwrap();
    game.enqueue(Order::Note("next")).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "next");
    assert!(!request.is_finished());
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
}

/// EX-202, EX-203: a marked boundary with a suspended turn is none for the seal; the mark completes and the request stands.
#[tokio::test]
async fn a_suspended_turn_lets_a_mark_pass() {
    let bench = Bench::new();
    let game = game(&bench, Callback::Note);
    let (release, suspended) = oneshot::channel();
    game.enqueue(Order::Yield(suspended)).unwrap();
    settle().await;
    let request = request(&game);
    game.enqueue(Order::Mark("early")).unwrap();
    settle().await;
    assert_eq!(bench.log.text(), "early Continued");
    assert!(!request.is_finished());
    release.send(()).unwrap();
    settle().await;
    assert!(!request.is_finished(), "the end of that turn is not marked");
    game.enqueue(Order::Mark("mark")).unwrap();
    let guard = request.await.unwrap();
    assert_eq!(bench.log.text(), "early Continued mark");
    drop(guard);
    game.await_quiescence().await;
    assert_eq!(bench.log.text(), "early Continued mark Continued");
}

/// EX-12, EX-203: a callback that fails or panics is counted; the lane goes on.
#[tokio::test]
async fn a_failing_callback_harms_nothing_else() {
    for callback in [Callback::Fail, Callback::Panic] {
        let bench = Bench::new();
        let game = game(&bench, callback);
        let (release, wait) = oneshot::channel();
        game.enqueue(Order::Wait(wait)).unwrap();
        game.enqueue(Order::Mark("mark")).unwrap();
        game.enqueue(Order::Note("next")).unwrap();
        release.send(()).unwrap();
        game.await_quiescence().await;
        assert_eq!(bench.log.text(), "mark Continued next");
        let stats = bench.engine.stats();
        assert_eq!(stats.handlers_failed() + stats.handlers_panicked(), 1);
        assert_eq!(stats.carriers_lost(), 0);
    }
}
