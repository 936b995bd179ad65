//! What a world consists of and what is to happen in it: everything that follows from the seed.

use std::time::Duration;

use anyhow::Result;
use spotlane_location::lease::LeaseSettings;
use spotlane_relocation::settings::RelocationSettings;
use spotlane_session::SessionTimes;

use crate::client::{self, ClientPlan, SESSION_TIMES};
use crate::faults::{self, Climate, Fault, Scope};
use crate::network::HostIndex;
use crate::observation::{ActorIndex, ClientIndex, SenderIndex};
use crate::random::Random;
use crate::workload::{self, ActorPlan, MovePlan, SenderPlan};

/// A whole world, before it begins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// Where it comes from.
    pub seed: u64,
    /// Which faults it has.
    pub climate: Climate,
    /// How many hosts there are.
    pub hosts: usize,
    /// The Actors.
    pub actors: Vec<ActorPlan>,
    /// The senders.
    pub senders: Vec<SenderPlan>,
    /// The clients; without any, a world is as it was before there were sessions.
    pub clients: Vec<ClientPlan>,
    /// The moves, by time.
    pub moves: Vec<(Duration, MovePlan)>,
    /// The faults, by time.
    pub faults: Vec<(Duration, Fault)>,
    /// The times and sizes of every host.
    pub settings: RelocationSettings,
    /// The times of every session.
    pub session_times: SessionTimes,
    /// The lease of every host.
    pub lease: LeaseSettings,
    /// How long a caller waits for its terminal.
    pub request_timeout: Duration,
    /// How long a move may take up to the boundary.
    pub move_timeout: Duration,
    /// When everything heals that can.
    pub heal_at: Duration,
    /// When every connection is made anew, long after the last message.
    pub renew_at: Duration,
    /// When everything has to be settled.
    pub end_at: Duration,
}

/// Short waits: virtual time is free, but what happens again and again in it is not.
const CUTOVER_WAIT: Duration = Duration::from_millis(100);
const RESTORE_VALIDITY: Duration = Duration::from_millis(1_500);
const FOLLOW_DURATION: Duration = Duration::from_secs(6);
const POLLING_INTERVAL: Duration = Duration::from_millis(400);
const LEASE_TTL: Duration = Duration::from_millis(1_200);
const RENEW_INTERVAL: Duration = Duration::from_millis(350);
const RENEW_TIMEOUT: Duration = Duration::from_millis(200);
const FENCING_MARGIN: Duration = Duration::from_millis(300);

/// The lease of every host of a world.
///
/// # Errors
/// The times contradict each other.
pub fn lease_settings() -> Result<LeaseSettings> {
    Ok(LeaseSettings::new(
        LEASE_TTL,
        RENEW_INTERVAL,
        RENEW_TIMEOUT,
        FENCING_MARGIN,
    )?)
}

fn settings(random: &mut Random) -> Result<RelocationSettings> {
    // A small chunk size, so that a small payload is many chunks; sometimes a budget below one payload.
    let chunk = u32::try_from(random.between(64, 4_096))?;
    let budget = match random.below(3) {
        0 => 0,
        1 => random.between(128, 2_048),
        _ => 16 * 1024 * 1024,
    };
    Ok(RelocationSettings::builder()
        .cutover_wait(CUTOVER_WAIT)
        .seal_timeout(SESSION_TIMES.seal_timeout)
        .restore_validity(RESTORE_VALIDITY)
        .follow_duration(FOLLOW_DURATION)
        .polling_interval(POLLING_INTERVAL)
        .chunk_limit(chunk)
        .in_flight_budget(budget)
        .build()?)
}

impl Plan {
    /// The world of a seed.
    ///
    /// # Errors
    /// The settings contradict each other: a defect of this file.
    pub fn of(seed: u64) -> Result<Self> {
        Self::with_climate(seed, Climate::of(seed))
    }

    /// The world of a seed in a given climate.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub fn with_climate(seed: u64, climate: Climate) -> Result<Self> {
        let root = Random::new(seed);
        let mut random = root.fork("plan");
        let servers = usize::try_from(random.between(3, 4))?;
        let actors = workload::actors(&mut root.fork("actors"), servers);
        let busy = Duration::from_millis(random.between(400, 900));
        let senders = workload::senders(&mut root.fork("senders"), servers, &actors);
        let moves = workload::moves(&mut root.fork("moves"), servers, &actors, busy);
        // Sometimes a host more, which holds connections and never an Actor.
        let gates = usize::from(root.fork("gates").percent(50));
        let mut draws = root.fork("clients");
        let clients = client::clients(&mut draws, climate, servers + gates, actors.len());
        let hosts = servers + if clients.is_empty() { 0 } else { gates };
        let scope = Scope {
            hosts,
            actors: actors.len(),
            until: busy,
            lease_ttl: LEASE_TTL,
        };
        let faults = faults::draw(&mut root.fork("faults"), climate, scope);
        let heal_at = busy + LEASE_TTL + Duration::from_millis(600);
        Ok(Self {
            seed,
            climate,
            hosts,
            actors,
            senders,
            clients,
            moves,
            faults,
            settings: settings(&mut root.fork("settings"))?,
            session_times: SESSION_TIMES,
            lease: lease_settings()?,
            // Where nothing may be lost, nobody gives up either.
            request_timeout: if climate.is_gentle() {
                Duration::from_secs(5)
            } else {
                Duration::from_millis(1_500)
            },
            move_timeout: Duration::from_secs(1),
            heal_at,
            renew_at: heal_at + FOLLOW_DURATION,
            end_at: heal_at + FOLLOW_DURATION * 2 + RESTORE_VALIDITY * 4,
        })
    }

    /// All hosts.
    pub fn host_indices(&self) -> impl Iterator<Item = HostIndex> + use<> {
        (0..self.hosts).map(HostIndex)
    }

    /// All Actors.
    pub fn actor_indices(&self) -> impl Iterator<Item = ActorIndex> + use<> {
        (0..self.actors.len()).map(ActorIndex)
    }

    /// All clients.
    pub fn client_indices(&self) -> impl Iterator<Item = ClientIndex> + use<> {
        (0..self.clients.len()).map(ClientIndex)
    }

    /// All senders.
    pub fn sender_indices(&self) -> impl Iterator<Item = SenderIndex> + use<> {
        (0..self.senders.len()).map(SenderIndex)
    }
}
