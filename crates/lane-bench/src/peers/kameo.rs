//! kameo: actors as tokio tasks.

use kameo::error::Infallible;
use kameo::mailbox;
use kameo::message::Context;
use kameo::prelude::*;

use super::{Peer, two_threads};
use crate::work::{Adder, Countdown};

/// Bounded mailboxes hold 64 messages, kameo's default.
pub(crate) struct Kameo<const BOUNDED: bool>(tokio::runtime::Runtime);

pub(crate) struct Node(Adder);
pub(crate) struct Add(u64);
pub(crate) struct Next(u64);

impl Actor for Node {
    type Args = (u64, &'static Countdown, &'static Countdown);
    type Error = Infallible;

    async fn on_start(
        (per_report, done, up): Self::Args,
        _: ActorRef<Self>,
    ) -> Result<Self, Infallible> {
        up.one();
        Ok(Self(Adder::new(per_report, done)))
    }
}

impl Message<Add> for Node {
    type Reply = ();
    async fn handle(&mut self, message: Add, _: &mut Context<Self, ()>) {
        self.0.add(message.0);
    }
}

impl Message<Next> for Node {
    type Reply = u64;
    async fn handle(&mut self, message: Next, _: &mut Context<Self, u64>) -> u64 {
        self.0.next(message.0)
    }
}

impl<const BOUNDED: bool> Peer for Kameo<BOUNDED> {
    type Actor = ActorRef<Node>;
    const NAME: &'static str = if BOUNDED { "kameo-bounded" } else { "kameo" };

    fn start() -> Self {
        Self(two_threads())
    }

    fn actors(
        &self,
        n: usize,
        per_report: u64,
        done: &'static Countdown,
        up: &'static Countdown,
    ) -> Vec<Self::Actor> {
        let all = self.0.spawn(async move {
            let one = |_| {
                let mailbox = if BOUNDED {
                    mailbox::bounded(64)
                } else {
                    mailbox::unbounded()
                };
                Node::spawn_with_mailbox((per_report, done, up), mailbox)
            };
            (0..n).map(one).collect()
        });
        self.0.block_on(all).expect("spawned")
    }

    async fn tell(actor: &Self::Actor, value: u64) {
        actor
            .tell(Add(value))
            .send()
            .await
            .expect("the actor lives");
    }

    async fn ask(actor: &Self::Actor, value: u64) -> u64 {
        actor
            .ask(Next(value))
            .send()
            .await
            .expect("the actor answers")
    }

    fn client<F: Future<Output = ()> + Send + 'static>(&self, _: usize, body: F) {
        self.0.spawn(body);
    }
}
