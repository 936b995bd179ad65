//! The books of the pacing: what is granted, charged and given back.

use std::num::NonZeroU64;

use super::*;

/// Keeps what it was granted.
#[derive(Default)]
struct Unit {
    starts: Mutex<usize>,
    charges: Mutex<Vec<Charge>>,
}

impl Granted for Unit {
    fn start(&self) {
        *self.starts.lock().unwrap() += 1;
    }

    fn chunk(&self, charge: Charge) {
        self.charges.lock().unwrap().push(charge);
    }
}

impl Unit {
    fn chunks(&self) -> usize {
        self.charges.lock().unwrap().len()
    }

    /// The transport has released the oldest chunk, or nothing came of its grant.
    fn release(&self) {
        let charge = self.charges.lock().unwrap().remove(0);
        drop(charge);
    }
}

fn pacing(of_connection: u64, of_node: u64) -> Arc<Pacing> {
    let settings = RelocationSettings::builder()
        .in_flight_budget(of_connection)
        .node_in_flight_budget(of_node)
        .build()
        .unwrap();
    Pacing::new(&settings)
}

fn connection(number: u64) -> ConnectionId {
    ConnectionId::new(NonZeroU64::new(number).unwrap())
}

fn unit(pacing: &Pacing) -> (UnitId, Arc<Unit>) {
    (pacing.unit(), Arc::new(Unit::default()))
}

/// RL-131, RL-125, RL-293: a full budget delays the next chunk and the next unit, and a chunk that left lets both go on.
#[test]
fn a_released_chunk_lets_the_next_one_and_the_next_unit_go() {
    let pacing = pacing(100, 0);
    let ((one, large), (two, small), to) = (unit(&pacing), unit(&pacing), connection(1));
    pacing.want_chunk(one, Arc::<Unit>::clone(&large), to, 60);
    assert_eq!((large.chunks(), pacing.in_flight()), (1, 60));
    pacing.want_chunk(one, Arc::<Unit>::clone(&large), to, 60);
    pacing.want_start(two, Arc::<Unit>::clone(&small), to);
    assert_eq!((large.chunks(), *small.starts.lock().unwrap()), (1, 0));
    large.release();
    assert_eq!((large.chunks(), *small.starts.lock().unwrap()), (1, 1));
    large.release();
    assert_eq!(pacing.in_flight(), 0);
}

/// RL-294: the budget of the node holds over all its connections.
#[test]
fn the_node_has_a_budget_of_its_own() {
    let pacing = pacing(0, 100);
    let ((one, first), (two, second)) = (unit(&pacing), unit(&pacing));
    pacing.want_chunk(one, Arc::<Unit>::clone(&first), connection(1), 80);
    pacing.want_chunk(two, Arc::<Unit>::clone(&second), connection(2), 80);
    assert_eq!((first.chunks(), second.chunks()), (1, 0));
    first.release();
    assert_eq!(second.chunks(), 1);
}

/// RL-131: a grant that leads to no chunk gives its charge back, and so does a unit that ends with one.
#[test]
fn a_grant_that_nobody_wants_any_more_is_given_back() {
    let pacing = pacing(100, 0);
    let ((one, gone), (two, next), to) = (unit(&pacing), unit(&pacing), connection(1));
    pacing.want_chunk(one, Arc::<Unit>::clone(&gone), to, 90);
    pacing.want_chunk(two, Arc::<Unit>::clone(&next), to, 90);
    pacing.unit_ended(one);
    assert_eq!(next.chunks(), 0);
    drop(gone);
    assert_eq!((next.chunks(), pacing.in_flight()), (1, 90));
    drop(next);
    assert_eq!(pacing.in_flight(), 0);
}

/// RL-131: a connection that ended gives its charges back once, whatever is released late.
#[test]
fn a_lost_connection_gives_its_charges_back_once() {
    let pacing = pacing(100, 100);
    let ((one, first), (two, second)) = (unit(&pacing), unit(&pacing));
    pacing.want_chunk(one, Arc::<Unit>::clone(&first), connection(1), 100);
    pacing.want_chunk(two, Arc::<Unit>::clone(&second), connection(2), 100);
    pacing.connection_lost(connection(1));
    assert_eq!((second.chunks(), pacing.in_flight()), (1, 100));
    first.release();
    assert_eq!(pacing.in_flight(), 100);
}

/// RL-131, RL-294, SRC-11: the connection of a unit is lost just before it asks for its next chunk, so it asks again on the next
/// one. It is granted one chunk, which is charged where it goes, and nothing stays charged.
#[test]
fn a_unit_that_asks_again_on_its_next_connection_waits_there_alone() {
    let pacing = pacing(0, 100);
    let ((one, first), (two, second)) = (unit(&pacing), unit(&pacing));
    let [busy, lost, next] = [1, 2, 3].map(connection);
    pacing.want_chunk(one, Arc::<Unit>::clone(&first), busy, 80);
    pacing.connection_lost(lost);
    pacing.want_chunk(two, Arc::<Unit>::clone(&second), lost, 80);
    pacing.want_chunk(two, Arc::<Unit>::clone(&second), next, 80);
    assert_eq!(second.chunks(), 0);
    first.release();
    assert_eq!((second.chunks(), pacing.in_flight()), (1, 80));
    assert_eq!(second.charges.lock().unwrap()[0].connection(), next);
    second.release();
    assert_eq!((second.chunks(), pacing.in_flight()), (0, 0));
    pacing.want_chunk(one, Arc::<Unit>::clone(&first), busy, 100);
    assert_eq!(first.chunks(), 1);
}
