//! The hosts of a demo and the actors that live on them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use spotlane::session::StreamSettings;
use spotlane::{Error, Host, Json, Policy, StartError};
use spotlane_counter::{Blob, Counter, CounterAdapter, CounterSessions};
use tokio::sync::Notify;

use crate::stores::Stores;

use super::args::DemoArgs;
use super::clients::ClientError;

/// How many hosts there are.
pub(crate) const HOSTS: u32 = 3;
/// How long the hosts may take to find each other.
const MEET_TIMEOUT: Duration = Duration::from_secs(20);
/// How many actors are prepared at a time.
const PREPARED_AT_ONCE: usize = 16;

/// Why a demo did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum WorldError {
    /// The store.
    #[error("--store: {0}")]
    Store(#[from] spotlane::redis::OpenError),
    /// A host.
    #[error("a host did not start: {0}")]
    Start(#[from] StartError),
    /// The stream endpoint of a host.
    #[error("a host did not listen for clients: {0}")]
    Stream(#[from] spotlane::session::StartError),
    /// The clients.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Hosts or actors did not get ready.
    #[error(
        "the hosts did not get ready: {0}; with --store redis://… check that the server answers"
    )]
    Ready(#[from] Error),
}

/// Where an actor stands in the row of its moves: odd while it is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u32);

impl Epoch {
    /// Whether the actor is on its way.
    pub(crate) fn is_moving(self) -> bool {
        !self.0.is_multiple_of(2)
    }
}

/// The moves of one actor.
#[derive(Debug, Default)]
struct Journey {
    /// Beginnings and ends.
    epoch: AtomicU32,
    /// Moves that ended at another host.
    completed: AtomicU32,
    /// Says that a move begins.
    begins: Notify,
}

/// Three hosts with their actors.
#[derive(Debug)]
pub(crate) struct World {
    hosts: Vec<Host>,
    actors: Vec<String>,
    /// Where the mover believes each actor to be. Held only for one look or change. A leaf lock.
    places: Mutex<Vec<Place>>,
    /// The moves of each actor.
    journeys: Vec<Journey>,
    /// How many actors have moved as often as they have to.
    done: AtomicU32,
    /// So often each has to.
    rounds: u32,
    streams: Vec<String>,
    store: &'static str,
}

/// Where an actor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the host of this index.
    At(u32),
    /// On its way.
    Moving,
}

impl World {
    /// Starts the hosts, creates the actors and gives them their state.
    ///
    /// # Errors
    /// [`WorldError`].
    pub(crate) async fn start(args: &DemoArgs, run: u64) -> Result<Self, WorldError> {
        let stores = Stores::open(
            &args.store,
            &format!("spotlane-demo-{run}"),
            Duration::from_secs(3),
        )?;
        let mut hosts = Vec::new();
        for index in 0..HOSTS {
            let host = Host::builder()
                .mesh("demo")
                .node_id(format!("host-{index}"))
                .actor(Policy::preserve(CounterAdapter), Counter::default);
            hosts.push(stores.give(host).start().await?);
        }
        for host in &hosts {
            host.wait_for_peers(hosts.len() - 1, MEET_TIMEOUT).await?;
        }
        let actors = (0..args.actors)
            .map(|index| format!("counter-{index}"))
            .collect();
        let mut streams = Vec::new();
        for host in hosts.iter().filter(|_| args.clients > 0) {
            streams.push(listen(host).await?);
        }
        let mut world = Self {
            hosts,
            actors,
            places: Mutex::default(),
            journeys: (0..args.actors).map(|_| Journey::default()).collect(),
            done: AtomicU32::new(0),
            rounds: args.rounds(),
            streams,
            store: stores.name(),
        };
        let places: Vec<Place> = stream::iter(0..args.actors)
            .map(|actor| world.prepare(actor, args.state))
            .buffered(PREPARED_AT_ONCE)
            .try_collect()
            .await?;
        world.places = Mutex::new(places);
        Ok(world)
    }

    async fn prepare(&self, actor: u32, state: u64) -> Result<Place, Error> {
        let id = self.id(actor);
        self.host(actor).actors().create::<Counter>(id).await?;
        let call = self
            .host(actor)
            .actor(id)
            .request("blob", Json(Blob { bytes: state }));
        call.reply::<Json<Blob>>().await?;
        self.find(actor).await
    }

    /// The host of this index; larger ones start over.
    pub(crate) fn host(&self, index: u32) -> &Host {
        let count = u32::try_from(self.hosts.len()).unwrap_or(1);
        let index = usize::try_from(index.checked_rem(count).unwrap_or(0)).unwrap_or(0);
        &self.hosts[index]
    }

    /// The id of an actor.
    pub(crate) fn id(&self, actor: u32) -> &str {
        usize::try_from(actor)
            .ok()
            .and_then(|actor| self.actors.get(actor))
            .map_or("", String::as_str)
    }

    /// Where the clients of the host of this index connect; larger ones start over.
    pub(crate) fn stream(&self, index: u32) -> &str {
        self.streams
            .iter()
            .cycle()
            .nth(usize::try_from(index % HOSTS).unwrap_or(0))
            .map_or("", String::as_str)
    }

    /// Where an actor stands in the row of its moves.
    pub(crate) fn epoch(&self, actor: u32) -> Epoch {
        let epoch = |journey: &Journey| journey.epoch.load(Ordering::Acquire);
        Epoch(self.journey(actor).map_or(0, epoch))
    }

    /// Waits until a move of an actor begins, or returns at once when one has begun since the last time.
    pub(crate) async fn begins_to_move(&self, actor: u32) {
        match self.journey(actor) {
            Some(journey) => journey.begins.notified().await,
            None => std::future::pending().await,
        }
    }

    fn journey(&self, actor: u32) -> Option<&Journey> {
        self.journeys.get(usize::try_from(actor).ok()?)
    }

    /// Whether every actor has moved as often as it has to.
    pub(crate) fn all_have_moved(&self) -> bool {
        let all = u32::try_from(self.actors.len()).unwrap_or(u32::MAX);
        self.rounds == 0 || self.done.load(Ordering::Acquire) >= all
    }

    /// How often the actor has moved that has moved least.
    pub(crate) fn fewest_moves(&self) -> u64 {
        let completed = |journey: &Journey| journey.completed.load(Ordering::Acquire);
        self.journeys
            .iter()
            .map(completed)
            .min()
            .unwrap_or(0)
            .into()
    }

    /// What the store is.
    pub(crate) fn store(&self) -> &'static str {
        self.store
    }

    /// Asks the store where an actor is.
    pub(crate) async fn find(&self, actor: u32) -> Result<Place, Error> {
        let found = self.host(0).actors().find(self.id(actor)).await?;
        let at = found.and_then(|found| {
            self.hosts
                .iter()
                .position(|host| host.node_id() == found.node())
        });
        Ok(at
            .and_then(|at| u32::try_from(at).ok())
            .map_or(Place::Moving, Place::At))
    }

    /// Takes an actor for a move: where it is, unless it is moving.
    pub(crate) fn take(&self, actor: u32) -> Option<u32> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = usize::try_from(actor)
            .ok()
            .and_then(|actor| places.get_mut(actor))?;
        match *place {
            Place::At(host) => {
                *place = Place::Moving;
                drop(places);
                if let Some(journey) = self.journey(actor) {
                    journey.epoch.fetch_add(1, Ordering::AcqRel);
                    journey.begins.notify_one();
                }
                Some(host)
            }
            Place::Moving => None,
        }
    }

    /// A move has ended at another host.
    pub(crate) fn arrive(&self, actor: u32, host: u32) {
        if let Some(journey) = self.journey(actor)
            && journey.completed.fetch_add(1, Ordering::AcqRel) + 1 == self.rounds
        {
            self.done.fetch_add(1, Ordering::AcqRel);
        }
        self.put(actor, Place::At(host));
    }

    /// Records where an actor is now.
    pub(crate) fn put(&self, actor: u32, place: Place) {
        if let (Place::At(_), Some(journey)) = (place, self.journey(actor)) {
            journey.epoch.fetch_add(1, Ordering::AcqRel);
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = usize::try_from(actor)
            .ok()
            .and_then(|actor| places.get_mut(actor))
        {
            *slot = place;
        }
    }

    /// Moves an actor that was taken.
    ///
    /// # Errors
    /// It did not move, or nobody knows.
    pub(crate) async fn relocate(&self, actor: u32, from: u32, to: u32) -> Result<(), Error> {
        let target = self.host(to).node_id();
        self.host(from).relocate(self.id(actor), target).await
    }

    /// Ends the hosts in order.
    pub(crate) async fn shutdown(self) {
        futures_util::future::join_all(self.hosts.iter().map(|host| host.shutdown(None))).await;
    }
}

/// Listens for clients and returns where.
async fn listen(host: &Host) -> Result<String, WorldError> {
    let settings = StreamSettings::new("tcp://127.0.0.1:0".parse()?).message_bytes_max(8 << 20);
    let stream = host
        .listen_for_sessions(settings, CounterSessions::new(host.clone()))
        .await?;
    Ok(stream.endpoint().to_string())
}
