//! ractor: actors as tokio tasks.

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use super::{Peer, two_threads};
use crate::work::{Adder, Countdown};

pub(crate) struct Ractor(tokio::runtime::Runtime);

pub(crate) enum Message {
    Add(u64),
    Next(u64, RpcReplyPort<u64>),
}

pub(crate) struct Node;

impl Actor for Node {
    type Msg = Message;
    type State = Adder;
    type Arguments = (u64, &'static Countdown, &'static Countdown);

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        (per_report, done, up): Self::Arguments,
    ) -> Result<Adder, ActorProcessingErr> {
        up.one();
        Ok(Adder::new(per_report, done))
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        adder: &mut Adder,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Add(value) => adder.add(value),
            Message::Next(value, reply) => drop(reply.send(adder.next(value))),
        }
        Ok(())
    }
}

impl Peer for Ractor {
    type Actor = ActorRef<Message>;
    const NAME: &'static str = "ractor";

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
            let mut all = Vec::with_capacity(n);
            for _ in 0..n {
                let started = Actor::spawn(None, Node, (per_report, done, up)).await;
                all.push(started.expect("it starts").0);
            }
            all
        });
        self.0.block_on(all).expect("spawned")
    }

    async fn tell(actor: &Self::Actor, value: u64) {
        actor.cast(Message::Add(value)).expect("the actor lives");
    }

    async fn ask(actor: &Self::Actor, value: u64) -> u64 {
        let answer = actor.call(|reply| Message::Next(value, reply), None).await;
        answer.expect("the actor lives").expect("the actor answers")
    }

    fn client<F: Future<Output = ()> + Send + 'static>(&self, _: usize, body: F) {
        self.0.spawn(body);
    }
}
