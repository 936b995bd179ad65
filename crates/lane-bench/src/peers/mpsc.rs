//! A tokio task with a channel: no actor runtime, for orientation.

use tokio::sync::{mpsc, oneshot};

use super::{Peer, two_threads};
use crate::work::{Adder, Countdown};

/// Not an actor runtime: a task with a channel per actor, for orientation.
pub(crate) struct Mpsc(tokio::runtime::Runtime);

pub(crate) enum Message {
    Add(u64),
    Next(u64, oneshot::Sender<u64>),
}

impl Peer for Mpsc {
    type Actor = mpsc::UnboundedSender<Message>;
    const NAME: &'static str = "tokio-mpsc";

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
                let (sender, mut receiver) = mpsc::unbounded_channel();
                let mut adder = Adder::new(per_report, done);
                tokio::spawn(async move {
                    up.one();
                    while let Some(message) = receiver.recv().await {
                        match message {
                            Message::Add(value) => adder.add(value),
                            Message::Next(value, reply) => drop(reply.send(adder.next(value))),
                        }
                    }
                });
                sender
            };
            (0..n).map(one).collect()
        });
        self.0.block_on(all).expect("spawned")
    }

    async fn tell(actor: &Self::Actor, value: u64) {
        actor.send(Message::Add(value)).expect("the task lives");
    }

    async fn ask(actor: &Self::Actor, value: u64) -> u64 {
        let (reply, answer) = oneshot::channel();
        actor
            .send(Message::Next(value, reply))
            .expect("the task lives");
        answer.await.expect("the task answers")
    }

    fn client<F: Future<Output = ()> + Send + 'static>(&self, _: usize, body: F) {
        self.0.spawn(body);
    }
}
