//! The driver: takes a gate, runs selected items in turns, and lets the gate go (EX-72, EX-73).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::oneshot;

use crate::carrier::{Carrier, Exit, Mode, Seat};
use crate::core::{Admission, Core, Run};
use crate::desk::Desk;
use crate::driven::Hold;
use crate::engine::Shared;
use crate::hand::Hand;
use crate::host::{AnyLane, GateTurn, TicketHolder};
use crate::owner::Owner;
use crate::queue::{QueuedTick, Work};
use crate::ready::{Doings, Runnable};
use crate::serve::{Owed, serve};
use crate::signal::RelocationReady;
use crate::sync::Mutex;
use crate::turn::{Turn, TurnKind};
use crate::worker::Worker;

/// A gate, or a ticket at one, for a carrier to begin with.
pub(crate) enum Load<O: Owner> {
    /// The lane's own gate, taken from the ready set.
    Slice(Hold<O>),
    /// The lane's own gate, kept while a ticket or a resumed turn ran in it.
    Continue(Arc<Core<O>>),
    /// One item, in a turn of another lane's gate (EX-23).
    Ticket(Arc<Core<O>>, GateTurn),
}

/// What a turn is made for.
pub(crate) enum Pick<O: Owner> {
    Work(Work<O>, TurnKind),
    Tick(Box<QueuedTick>),
    /// What came of a marked boundary; whoever waits for the end of the turn.
    Ready(RelocationReady, Option<oneshot::Sender<()>>),
}

pub(crate) fn new_carrier<O: Owner>(shared: &Arc<Shared>) -> Carrier<Load<O>> {
    let seat = Arc::new(Seat::new());
    let inbox = Arc::new(Mutex::new(None));
    let body = carry::<O>(Arc::clone(shared), Arc::clone(&seat), Arc::clone(&inbox));
    Carrier::new(seat, inbox, body)
}

async fn carry<O: Owner>(shared: Arc<Shared>, seat: Arc<Seat>, inbox: Arc<Mutex<Option<Load<O>>>>) {
    let mut desk = Desk::new();
    let mut hand = Hand::new();
    loop {
        // A gate comes from the worker, or the body helps itself: a run of gates of one type costs no
        // hand-over at all.
        let mut load = poll_fn(|_| {
            desk.rest();
            let load = if seat.take_loaded() {
                inbox.lock().take()
            } else {
                next_gate(&mut desk, &shared, &seat)
            };
            load.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        loop {
            drive(&mut desk, &mut hand, &seat, load).await;
            if seat.mode() == Mode::Exit {
                break;
            }
            if desk.wants_pause() {
                pause(&mut desk, &seat).await;
            }
            match next_gate(&mut desk, &shared, &seat) {
                Some(next) => load = next,
                None => break,
            }
        }
        // At rest: what comes next is decided in the next poll, not in this one.
        let mut left = false;
        poll_fn(|_| {
            if std::mem::replace(&mut left, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

fn next_gate<O: Owner>(desk: &mut Desk, shared: &Arc<Shared>, seat: &Seat) -> Option<Load<O>> {
    desk.count_gate();
    let Some(job) = shared.ready.pop(seat.worker()) else {
        seat.count_items(desk.take_handled());
        seat.set_mode(Mode::Empty);
        return None;
    };
    match job.into_gate::<O>() {
        Ok(held) => Some(Load::Slice(held)),
        Err(other) => {
            seat.count_items(desk.take_handled());
            seat.leave(Exit::Run(other));
            seat.set_mode(Mode::Exit);
            None
        }
    }
}

/// Lets the other tasks of this thread run, with the gate in hand.
pub(crate) async fn pause(desk: &mut Desk, seat: &Seat) {
    desk.rest();
    let mut first = true;
    poll_fn(|_| {
        if std::mem::take(&mut first) {
            seat.set_mode(Mode::Pause);
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
    seat.set_mode(Mode::Waiting);
}

async fn drive<O: Owner>(desk: &mut Desk, hand: &mut Hand<O>, seat: &Arc<Seat>, load: Load<O>) {
    let mut slot = None;
    let (core, key, ticket) = match load {
        Load::Slice(held) => {
            let (core, key) = held.open(&mut slot);
            (core, Some(key), None)
        }
        Load::Continue(core) => (&*slot.insert(core), None, None),
        Load::Ticket(core, ticket) => (&*slot.insert(core), None, Some(ticket)),
    };
    let mut turn = Turn {
        core,
        seat,
        key,
        hand,
        number: 0,
        kind: TurnKind::Application,
        gate: None,
        deferred: Vec::new(),
        marked: false,
        payload_bytes: 0,
        quiet: false,
        owed: Owed::Nothing,
        ticket: None,
    };
    seat.set_mode(Mode::Waiting);
    let lost = Lost(Some(core));
    if let Some(GateTurn { gate, fence, fifo }) = ticket {
        if turn.begin_ticket(&gate, fence) {
            serve(desk, &mut turn).await;
            core.end_ticket(&mut turn, fifo);
        } else {
            // Its lane ended meanwhile; the place in the gate's FIFO was charged all the same.
            gate.ticket_ended(fifo);
        }
        let gate = turn.gate.take().unwrap_or(gate);
        seat.leave(Exit::Continue(gate));
        seat.set_mode(Mode::Exit);
    } else if turn.begin(desk) {
        serve(desk, &mut turn).await;
    }
    lost.not();
}

/// Ends the lane when its carrier is lost with the turn: nobody else would, and what was accepted has
/// to end (EX-94).
struct Lost<'a, O: Owner>(Option<&'a Arc<Core<O>>>);

impl<O: Owner> Lost<'_, O> {
    fn not(mut self) {
        self.0 = None;
    }
}

impl<O: Owner> Drop for Lost<'_, O> {
    fn drop(&mut self) {
        if let Some(core) = self.0 {
            core.lost();
        }
    }
}

impl<O: Owner> Runnable for Core<O> {
    /// A parked turn woke up.
    fn run(self: Arc<Self>, worker: &mut Worker) {
        let parked = {
            let mut inner = self.lock();
            // Otherwise the lane ended meanwhile.
            if inner.run == Run::Parked {
                inner.run = Run::Running;
                inner.ext.as_mut().and_then(|ext| ext.parked.take())
            } else {
                None
            }
        };
        if let Some(carrier) = parked {
            worker.poll_carrier(carrier);
        }
    }
}

impl<O: Owner> Core<O> {
    pub(crate) const DOINGS: &'static Doings = &Doings {
        run: |held, worker| {
            if let Ok(held) = held.downcast::<Self>() {
                Self::load(Load::Slice(held), worker);
            }
        },
        lost: |held| {
            if let Ok(held) = held.downcast::<Self>() {
                let core = Arc::clone(held.owner());
                drop(held.release(&mut core.lock()));
                core.lost();
            }
        },
    };

    fn load(load: Load<O>, worker: &mut Worker) {
        let carrier = worker.take_carrier::<O>();
        carrier.load(load);
        worker.poll_carrier(carrier);
    }

    /// Goes on with a gate that was kept.
    pub(crate) fn go_on(self: Arc<Self>, worker: &mut Worker) {
        Self::load(Load::Continue(self), worker);
    }
}

impl<O: Owner> TicketHolder for Core<O> {
    fn run_ticket(self: Arc<Self>, turn: GateTurn, worker: &mut Worker) {
        Self::load(Load::Ticket(self, turn), worker);
    }

    fn gate_ended(self: Arc<Self>) {
        // A member that moves with its Spot is in the hands of the move.
        if self.lock().admission != Admission::Held {
            self.abort();
        }
    }
}
