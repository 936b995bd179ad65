//! The clients of a world: each does one thing after the other, and connects again when its connection is gone.

use std::sync::Arc;

use anyhow::{Context as _, Result};

use super::World;
use crate::agenda::Event;
use crate::client::{ClientAct, Stays};
use crate::host::{HostEvent, Life};
use crate::network::HostIndex;
use crate::observation::{ClientIndex, Ending, SessionIndex, SessionSight};

impl World {
    pub(super) fn plan_clients(&mut self) {
        let plan = Arc::clone(&self.shared.plan);
        for client in plan.client_indices() {
            if let Some(client_plan) = plan.clients.get(client.0) {
                let left = client_plan.steps;
                let event = Event::Client { client, left };
                self.shared.agenda.add(client_plan.begins, event);
            }
        }
    }

    /// The next thing that a client does.
    pub(super) fn client_step(&mut self, client: ClientIndex, left: u32) -> Result<()> {
        let plan = Arc::clone(&self.shared.plan);
        let client_plan = plan.clients.get(client.0);
        let client_plan = client_plan.context("a client of this plan")?;
        let state = self.shared.clients.get_mut(client.0);
        let state = state.context("a client of this plan")?;
        if left == 0 {
            let session = state.session.filter(|_| client_plan.stays == Stays::Gone);
            let Some((host, session)) = session else {
                return Ok(());
            };
            state.cut_off();
            let act = ClientAct::Disconnect { session };
            return self.tell(host, HostEvent::Client(act));
        }
        let most = u64::try_from(client_plan.gap.as_micros()).unwrap_or(u64::MAX);
        let gap = state.random.micros(50, most.max(50));
        let Some((host, session)) = state.session else {
            let left = left - 1;
            self.shared.after(gap, Event::Client { client, left });
            return self.connect_client(client, client_plan.host);
        };
        let act = state.next_act(client_plan, session);
        let left = left - 1;
        self.shared.after(gap, Event::Client { client, left });
        match act {
            Some(act) => self.tell(host, HostEvent::Client(act)),
            None => Ok(()),
        }
    }

    /// Mostly where it was first, else anywhere.
    fn connect_client(&mut self, client: ClientIndex, first: HostIndex) -> Result<()> {
        let alive: Vec<HostIndex> = self
            .hosts
            .iter()
            .filter(|host| host.life() != Life::Dead)
            .map(crate::host::Host::index)
            .collect();
        let state = self.shared.clients.get_mut(client.0);
        let state = state.context("a client of this plan")?;
        let other = alive.get(state.random.index(alive.len())).copied();
        let stays = state.random.percent(60) && alive.contains(&first);
        let Some(host) = (if stays { Some(first) } else { other }) else {
            return Ok(());
        };
        let session: SessionIndex = self.shared.session_index();
        if let Some(state) = self.shared.clients.get_mut(client.0) {
            state.session = Some((host, session));
        }
        let act = ClientAct::Connect { client, session };
        self.tell(host, HostEvent::Client(act))
    }

    /// Its process has died.
    pub(super) fn cut_clients_off(&mut self, host: HostIndex) {
        let mut gone = Vec::new();
        for client in &mut self.shared.clients {
            if let Some((_, session)) = client.session.filter(|(at, _)| *at == host) {
                client.cut_off();
                gone.push(session);
            }
        }
        for session in gone {
            self.shared.sight(SessionSight::Closed {
                session,
                ending: Ending::Crash,
            });
        }
    }
}
