//! The throughput figures.

use std::sync::Arc;

use crate::peers::Peer;
use crate::work::Countdown;
use crate::{Runner, seconds};

/// How much one run of a figure does.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) messages: u64,
}

/// One throughput figure.
#[derive(Clone, Copy)]
pub(crate) enum Figure {
    /// So many producers tell so many actors, in scattered order.
    OneWay {
        name: &'static str,
        actors: usize,
        producers: usize,
    },
    /// So many clients, each with one request on its way, ask so many actors.
    Ask {
        name: &'static str,
        actors: usize,
        clients: usize,
    },
}

impl Figure {
    pub(crate) const ALL: [Self; 8] = [
        Self::OneWay {
            name: "one-way, 1 owner, 1 producer",
            actors: 1,
            producers: 1,
        },
        Self::OneWay {
            name: "one-way, 1 owner, 4 producers",
            actors: 1,
            producers: 4,
        },
        Self::OneWay {
            name: "one-way, 1,000 owners",
            actors: 1000,
            producers: 2,
        },
        Self::OneWay {
            name: "one-way, 100,000 owners",
            actors: 100_000,
            producers: 2,
        },
        Self::Ask {
            name: "ask, 1 client",
            actors: 1,
            clients: 1,
        },
        Self::Ask {
            name: "ask, 64 clients, 1 owner",
            actors: 1,
            clients: 64,
        },
        Self::Ask {
            name: "ask, 64 clients, 1,000 owners",
            actors: 1000,
            clients: 64,
        },
        Self::Ask {
            name: "ask, 64 clients, 100,000 owners",
            actors: 100_000,
            clients: 64,
        },
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneWay { name, .. } | Self::Ask { name, .. } => name,
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::OneWay { .. } => "messages/s",
            Self::Ask { .. } => "requests/s",
        }
    }
}

pub(crate) fn runner<P: Peer>(figure: Figure, scale: Scale) -> Runner {
    match figure {
        Figure::OneWay {
            actors, producers, ..
        } => one_way::<P>(actors, producers, scale.messages),
        Figure::Ask {
            actors, clients, ..
        } => ask::<P>(actors, clients, scale.messages / 4),
    }
}

/// Visits all of `0..n` before it repeats, far apart from one visit to the next.
#[derive(Clone, Copy)]
struct Scattered {
    at: usize,
    step: usize,
    n: usize,
}

impl Scattered {
    fn new(n: usize, from: usize) -> Self {
        let mut step = n * 5 / 8 + 1;
        while n > 1 && gcd(step, n) != 1 {
            step += 1;
        }
        Self {
            at: from % n,
            step: step % n,
            n,
        }
    }

    #[inline]
    fn next(&mut self) -> usize {
        let at = self.at;
        self.at += self.step;
        if self.at >= self.n {
            self.at -= self.n;
        }
        at
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn one_way<P: Peer>(actors: usize, producers: usize, messages: u64) -> Runner {
    let (done, up) = (Countdown::forever(), Countdown::forever());
    let peer = P::start();
    up.arm(actors as u64);
    let all = Arc::new(peer.actors(actors, messages / actors as u64, done, up));
    up.sleep_until_zero();
    let run = move || {
        done.arm(actors as u64);
        let took = seconds(|| {
            for producer in 0..producers {
                let all = Arc::clone(&all);
                let mut next = Scattered::new(actors, producer * actors / producers);
                peer.client(producer, async move {
                    for value in 0..messages / producers as u64 {
                        P::tell(&all[next.next()], value).await;
                        if value % 256 == 255 {
                            tokio::task::yield_now().await;
                        }
                    }
                });
            }
            done.sleep_until_zero();
        });
        messages as f64 / took
    };
    Runner {
        peer: P::NAME,
        run: Box::new(run),
    }
}

fn ask<P: Peer>(actors: usize, clients: usize, requests: u64) -> Runner {
    let (done, up) = (Countdown::forever(), Countdown::forever());
    let peer = P::start();
    up.arm(actors as u64);
    let all = Arc::new(peer.actors(actors, u64::MAX, done, up));
    up.sleep_until_zero();
    let each = requests / clients as u64;
    let run = move || {
        done.arm(clients as u64);
        let took = seconds(|| {
            for client in 0..clients {
                let all = Arc::clone(&all);
                let mut next = Scattered::new(actors, client * actors / clients);
                peer.client(client, async move {
                    for value in 0..each {
                        assert_eq!(P::ask(&all[next.next()], value).await, value + 1);
                    }
                    done.one();
                });
            }
            done.sleep_until_zero();
        });
        (each * clients as u64) as f64 / took
    };
    Runner {
        peer: P::NAME,
        run: Box::new(run),
    }
}
