//! actix: an actor with its own mailbox.

use actix::prelude::*;

use super::Peer;
use crate::work::{Adder, Countdown};

/// Two arbiters, a thread each; actors and clients are dealt out to them in turn.
pub(crate) struct Actix([ArbiterHandle; 2]);

pub(crate) struct Node {
    adder: Adder,
    up: &'static Countdown,
}

#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Add(u64);

#[derive(Message)]
#[rtype(result = "u64")]
pub(crate) struct Next(u64);

impl Actor for Node {
    type Context = Context<Self>;
    fn started(&mut self, _: &mut Self::Context) {
        self.up.one();
    }
}

impl Handler<Add> for Node {
    type Result = ();
    fn handle(&mut self, message: Add, _: &mut Self::Context) {
        self.adder.add(message.0);
    }
}

impl Handler<Next> for Node {
    type Result = u64;
    fn handle(&mut self, message: Next, _: &mut Self::Context) -> u64 {
        self.adder.next(message.0)
    }
}

impl Peer for Actix {
    type Actor = Addr<Node>;
    const NAME: &'static str = "actix";

    fn start() -> Self {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let system = System::new();
            system.block_on(async move {
                let arbiters = [Arbiter::new(), Arbiter::new()];
                let handles = [arbiters[0].handle(), arbiters[1].handle()];
                // Dropping an arbiter would wait for its thread, which runs as long as the process.
                std::mem::forget(arbiters);
                sender.send(handles).expect("the bench waits for it");
            });
            system.run().expect("the system runs");
        });
        Self(receiver.recv().expect("the system starts"))
    }

    fn actors(
        &self,
        n: usize,
        per_report: u64,
        done: &'static Countdown,
        up: &'static Countdown,
    ) -> Vec<Self::Actor> {
        let one = |at: usize| {
            let start = move |_: &mut Context<Node>| Node {
                adder: Adder::new(per_report, done),
                up,
            };
            Node::start_in_arbiter(&self.0[at % 2], start)
        };
        (0..n).map(one).collect()
    }

    async fn tell(actor: &Self::Actor, value: u64) {
        actor.do_send(Add(value));
    }

    async fn ask(actor: &Self::Actor, value: u64) -> u64 {
        actor.send(Next(value)).await.expect("the actor answers")
    }

    fn client<F: Future<Output = ()> + Send + 'static>(&self, n: usize, body: F) {
        // As few clients as possible share a thread with the actor they talk to: client 0 does not.
        self.0[(n + 1) % 2].spawn(body);
    }
}
