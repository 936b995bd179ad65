//! Ours.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use spotlane_lane::{
    ActorDelivery, Engine, GateUse, HandlerError, KeepGate, Kind, Lane, LaneLimits, Monotonic,
    Owner, Turn,
};

use super::{Peer, two_threads};
use crate::work::{Adder, Countdown};

/// The lane engine with the contract's limits: 1,024 items a lane, senders wait.
pub(crate) struct Ours {
    runtime: tokio::runtime::Runtime,
    _engine: Engine,
    kind: Kind<Adder>,
}

pub(crate) enum Item {
    Add(u64),
    Next(u64),
}

impl Owner for Adder {
    type Policy = ActorDelivery;
    type Waits = KeepGate;
    type Item = Item;
    type Reply = u64;

    async fn handle(turn: &mut Turn<'_, Self>, item: Item) -> Result<u64, HandlerError> {
        Ok(match item {
            Item::Add(value) => {
                turn.state().add(value);
                0
            }
            Item::Next(value) => turn.state().next(value),
        })
    }
}

impl Peer for Ours {
    type Actor = Lane<Adder>;
    const NAME: &'static str = "spotlane";

    fn start() -> Self {
        let runtime = two_threads();
        let origin = Instant::now();
        let clock = move || Monotonic::from_origin(origin.elapsed());
        let workers = NonZeroUsize::new(2).expect("two is not zero");
        let engine = Engine::start(runtime.handle(), workers, Arc::new(clock));
        let kind = engine.kind(LaneLimits::DEFAULT, GateUse::Own);
        Self {
            runtime,
            _engine: engine,
            kind,
        }
    }

    fn actors(
        &self,
        n: usize,
        per_report: u64,
        done: &'static Countdown,
        up: &'static Countdown,
    ) -> Vec<Lane<Adder>> {
        let one = |_| {
            let lane = self.kind.lane(Adder::new(per_report, done));
            up.one();
            lane
        };
        (0..n).map(one).collect()
    }

    async fn tell(actor: &Lane<Adder>, value: u64) {
        actor
            .submit(Item::Add(value))
            .await
            .expect("the lane is open");
    }

    async fn ask(actor: &Lane<Adder>, value: u64) -> u64 {
        actor
            .ask(Item::Next(value))
            .await
            .expect("the lane answers")
    }

    fn client<F: Future<Output = ()> + Send + 'static>(&self, _: usize, body: F) {
        self.runtime.spawn(body);
    }
}
