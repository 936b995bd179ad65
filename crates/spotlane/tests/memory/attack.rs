//! The attack: clients that work, and among them all that the stream server has to bear.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use spotlane::prelude::*;
use spotlane::session::{SessionCounts, SessionStream};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::allocated;
use crate::app::Stores;
use crate::players::{Client, Game, Player, gate_on, players, until};

/// How long a round may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(8);
/// Clients that work, each with an Actor of its own, which moves.
const WORKERS: usize = 24;
const REQUESTS: usize = 200;
/// A round goes on until there were so many moves.
const MOVES: usize = 2_000;
/// Connections that come and go at any moment of a login, for few Actors.
const STORMS: usize = 1_500;
const STORM_ACTORS: usize = 8;
/// Connections that say what nobody understands.
const GARBAGE: usize = 600;
/// Connections that begin a frame or an upgrade and say nothing more.
const HALF_OPEN: usize = 60;
/// Clients that ask and are pushed to, and do not read.
const DEAF: usize = 8;
const DEAF_PUSHES: usize = 40;
/// Clients that send one-way packets as fast as they can.
const FLOODS: usize = 6;
const FLOOD: usize = 300;

/// Waits until all hosts are connected to each other.
pub(crate) async fn connect(hosts: &[&Host]) {
    for host in hosts {
        let peers = host.wait_for_peers(hosts.len() - 1, Duration::from_secs(30));
        peers.await.unwrap();
    }
}

/// Waits until they are connected, and each has all of them in its directory.
pub(crate) async fn acquainted(hosts: &[&Host]) {
    connect(hosts).await;
    let knows = |host: &&Host| host.nodes().len() >= hosts.len();
    until(|| hosts.iter().all(knows)).await;
}

/// A sequence that looks like chance.
struct Dice(u64);

impl Dice {
    fn new(seed: usize) -> Self {
        let seed = u64::try_from(seed + 1).unwrap();
        Self(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn roll(&mut self, sides: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(sides).unwrap()).unwrap()
    }
}

/// What one round did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    requests: AtomicUsize,
    moves: AtomicUsize,
    connections: AtomicUsize,
    packets: AtomicUsize,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |number: &AtomicUsize| number.load(Ordering::SeqCst);
        let (requests, moves) = (of(&self.requests), of(&self.moves));
        let (connections, packets) = (of(&self.connections), of(&self.packets));
        write!(
            f,
            "{requests} requests, {moves} moves, {connections} connections, {packets} floods"
        )
    }
}

impl Done {
    fn count(&self, of: impl Fn(&Self) -> &AtomicUsize) {
        of(self).fetch_add(1, Ordering::SeqCst);
    }
}

/// Two owners of Actors and a host of clients, which the attack is on.
pub(crate) struct Field {
    owners: [Host; 2],
    gate: Host,
    streams: Arc<[SessionStream; 3]>,
    names: Vec<String>,
}

impl Field {
    pub(crate) async fn set(settings: Settings) -> Self {
        let (stores, game) = (Stores::new(), Game::default());
        let a = players("a", &stores, &game, settings.clone()).await;
        let b = players("b", &stores, &game, settings.clone()).await;
        let mut streams = settings;
        streams.placement_weight = 0;
        let g = players("g", &stores, &game, streams).await;
        acquainted(&[&a, &b, &g]).await;
        let streams = [
            gate_on(&g, "tcp").await,
            gate_on(&g, "ws").await,
            gate_on(&a, "tcp").await,
        ];
        let all = [
            ("work", WORKERS),
            ("storm", STORM_ACTORS),
            ("deaf", DEAF),
            ("flood", FLOODS),
        ];
        let names = all.into_iter();
        let names = names.flat_map(|(name, count)| (0..count).map(move |n| format!("{name}-{n}")));
        Self {
            owners: [a, b],
            gate: g,
            streams: Arc::new(streams),
            names: names.collect(),
        }
    }

    pub(crate) fn hosts(&self) -> [&Host; 3] {
        [&self.owners[0], &self.owners[1], &self.gate]
    }

    /// One attack, from its first client to the end of its last Actor.
    pub(crate) async fn attacked(&self, scale: usize) -> Arc<Done> {
        let (done, over) = (Arc::new(Done::default()), Arc::new(AtomicBool::new(false)));
        for name in &self.names {
            self.owners[0]
                .actors()
                .create::<Player>(name)
                .await
                .unwrap();
        }
        let (owners, names) = (self.owners.clone(), self.names.clone());
        let wanted = scale * MOVES;
        let mover = mover(owners, names, Arc::clone(&over), Arc::clone(&done), wanted);
        let mover = tokio::spawn(mover);
        let mut tasks = JoinSet::new();
        for number in 0..WORKERS {
            tasks.spawn(works(
                number,
                scale,
                Arc::clone(&self.streams),
                Arc::clone(&done),
            ));
        }
        for number in 0..STORM_ACTORS {
            let count = scale * STORMS / STORM_ACTORS;
            tasks.spawn(storms(
                number,
                count,
                Arc::clone(&self.streams),
                Arc::clone(&done),
            ));
            let count = scale * GARBAGE / STORM_ACTORS;
            tasks.spawn(garbage(
                number,
                count,
                Arc::clone(&self.streams),
                Arc::clone(&done),
            ));
        }
        for number in 0..DEAF {
            let streams = Arc::clone(&self.streams);
            tasks.spawn(deaf(
                number,
                self.owners[0].clone(),
                streams,
                Arc::clone(&done),
            ));
        }
        for number in 0..FLOODS {
            tasks.spawn(floods(
                number,
                scale,
                Arc::clone(&self.streams),
                Arc::clone(&done),
            ));
        }
        let half_open = self.half_open(&done).await;
        let all = tokio::time::timeout(PATIENCE, async {
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
        });
        all.await.expect("in time");
        over.store(true, Ordering::SeqCst);
        let ended = tokio::time::timeout(PATIENCE, mover).await;
        ended.expect("in time").unwrap();
        drop(half_open);
        self.cleared().await;
        done
    }

    async fn half_open(&self, done: &Done) -> Vec<TcpStream> {
        let mut all = Vec::new();
        for number in 0..HALF_OPEN {
            let endpoint = self.streams[number % 3].endpoint();
            let mut socket = TcpStream::connect(endpoint.address).await.unwrap();
            let begun: &[u8] = match number % 3 {
                1 => b"GET / HTTP/1.1\r\nHost: here\r\nUpgrade: webs",
                _ => &[0, 200, 0, 0, 100, 0, 0xF2, 2],
            };
            socket
                .write_all(&begun[..number % begun.len()])
                .await
                .unwrap();
            done.count(|done| &done.connections);
            all.push(socket);
        }
        all
    }

    /// Nobody is connected and nothing lives here.
    async fn cleared(&self) {
        let hosts = self.hosts();
        let gone = async {
            while hosts.map(Host::session_counts) != [SessionCounts::default(); 3]
                || self
                    .streams
                    .iter()
                    .any(|stream| stream.stats().active() > 0)
            {
                tokio::task::yield_now().await;
            }
            for name in &self.names {
                self.destroyed(name).await;
            }
            while hosts.iter().any(|host| {
                let status = host.status();
                status.actors > 0 || status.pending_requests > 0
            }) {
                tokio::task::yield_now().await;
            }
        };
        let gone = tokio::time::timeout(PATIENCE, gone).await;
        let left = hosts.map(Host::session_counts);
        assert!(gone.is_ok(), "{left:?} {:?}", hosts.map(Host::status));
    }

    /// It may be on its way, so that neither is possible at once.
    async fn destroyed(&self, name: &str) {
        let actors = self.owners[0].actors();
        loop {
            match actors.find(name).await {
                Ok(Some(found)) => drop(actors.destroy(&found).await),
                Ok(None) => return,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    }

    /// Waits until no move is kept in mind any more, here or at a target, and gives what is allocated then.
    pub(crate) async fn calm(&self) -> usize {
        let hosts = self.hosts();
        let forgotten = |host: &Host| {
            let status = host.status();
            status.moving == 0 && status.arrived == 0
        };
        until(|| hosts.iter().all(|host| forgotten(host))).await;
        allocated()
    }
}

async fn mover(
    owners: [Host; 2],
    names: Vec<String>,
    over: Arc<AtomicBool>,
    done: Arc<Done>,
    wanted: usize,
) {
    let mut dice = Dice::new(77);
    while !over.load(Ordering::SeqCst) || done.moves.load(Ordering::SeqCst) < wanted {
        let (name, from) = (&names[dice.roll(names.len())], dice.roll(2));
        let to = owners[1 - from].node_id();
        if owners[from].relocate(name, to).await.is_ok() {
            done.count(|done| &done.moves);
        }
        tokio::task::yield_now().await;
    }
}

async fn works(number: usize, scale: usize, streams: Arc<[SessionStream; 3]>, done: Arc<Done>) {
    for _ in 0..scale {
        done.count(|done| &done.connections);
        let mut client = Client::login(&streams[number % 3], &format!("work-{number}")).await;
        for request in 0..REQUESTS {
            let name = if request % 20 == 0 { "note" } else { "count" };
            client.ask(name, "x").await.unwrap();
            done.count(|done| &done.requests);
        }
    }
}

async fn storms(number: usize, count: usize, streams: Arc<[SessionStream; 3]>, done: Arc<Done>) {
    let mut dice = Dice::new(number);
    for _ in 0..count {
        done.count(|done| &done.connections);
        let stream = &streams[dice.roll(3)];
        let mut client = Client::connect(stream).await;
        let id = format!("storm-{}", dice.roll(STORM_ACTORS));
        match dice.roll(5) {
            0 => {}
            1 => client.try_send("login", &id).await,
            2 => {
                let (_, bytes) = client.request("login", &id);
                let cut = dice.roll(bytes.len());
                drop(client.socket.write_all(&bytes[..cut]).await);
                drop(client.socket.set_zero_linger());
            }
            turn => {
                client.try_send("login", &id).await;
                client.any_answer().await;
                client.try_send("count", "").await;
                if turn == 3 {
                    client.try_send("logout", "").await;
                }
            }
        }
    }
}

async fn garbage(number: usize, count: usize, streams: Arc<[SessionStream; 3]>, done: Arc<Done>) {
    let mut dice = Dice::new(1_000 + number);
    for _ in 0..count {
        done.count(|done| &done.connections);
        let endpoint = streams[dice.roll(3)].endpoint();
        let mut socket = TcpStream::connect(endpoint.address).await.unwrap();
        let length = dice.roll(2_000);
        let bytes: Vec<u8> = (0..length).map(|_| dice.next().to_le_bytes()[0]).collect();
        drop(socket.write_all(&bytes).await);
    }
}

async fn deaf(number: usize, host: Host, streams: Arc<[SessionStream; 3]>, done: Arc<Done>) {
    let id = format!("deaf-{number}");
    done.count(|done| &done.connections);
    let mut client = Client::login(&streams[number % 3], &id).await;
    for _ in 0..50 {
        client.try_send("count", "").await;
    }
    let large = "x".repeat(20_000);
    for _ in 0..DEAF_PUSHES {
        let tell = host
            .actor(&id)
            .request("tell", Payload::bytes(large.clone()));
        // Its client may have been cut off.
        drop(tell.reply::<()>().await);
        done.count(|done| &done.packets);
    }
}

async fn floods(number: usize, scale: usize, streams: Arc<[SessionStream; 3]>, done: Arc<Done>) {
    done.count(|done| &done.connections);
    let mut client = Client::login(&streams[number % 3], &format!("flood-{number}")).await;
    let packet = client.one_way("jot", &"x".repeat(16_384));
    for _ in 0..scale * FLOOD {
        // Cut off when its Actor was on its way for longer than its seal may last.
        if client.socket.write_all(&packet).await.is_err() {
            return;
        }
        done.count(|done| &done.packets);
    }
}
