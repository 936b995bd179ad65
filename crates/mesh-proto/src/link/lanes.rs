//! The two connections of a link.

use bytes::Bytes;
use spotlane_types::time::Monotonic;

use crate::machine::Machine as _;
use crate::zmp::{Connection, ConnectionEffect, ConnectionEvent, Lane};

/// The state of one connection.
#[derive(Debug)]
pub(super) enum LaneState {
    /// We asked for it.
    Dialling,
    /// The peer has to open it.
    Missing,
    /// It is there.
    Open(Box<Connection>),
    /// It is there, and its driver runs it.
    Detached,
    /// It is over.
    Closed,
}

#[derive(Debug)]
pub(super) struct Lanes {
    application: LaneState,
    completion: LaneState,
}

impl Lanes {
    pub(super) const fn dialled() -> Self {
        Self {
            application: LaneState::Dialling,
            completion: LaneState::Dialling,
        }
    }

    pub(super) const fn accepted() -> Self {
        Self {
            application: LaneState::Missing,
            completion: LaneState::Missing,
        }
    }

    const fn of(&self, lane: Lane) -> &LaneState {
        match lane {
            Lane::Application => &self.application,
            Lane::Completion => &self.completion,
        }
    }

    const fn of_mut(&mut self, lane: Lane) -> &mut LaneState {
        match lane {
            Lane::Application => &mut self.application,
            Lane::Completion => &mut self.completion,
        }
    }

    /// Whether a dialled lane still waits to be opened.
    pub(super) const fn is_dialling(&self, lane: Lane) -> bool {
        matches!(self.of(lane), LaneState::Dialling)
    }

    /// Puts a connection in its place; false when the place is taken.
    pub(super) fn put(&mut self, lane: Lane, connection: Connection) -> bool {
        let place = self.of_mut(lane);
        match place {
            LaneState::Dialling | LaneState::Missing => {
                *place = LaneState::Open(Box::new(connection));
                true
            }
            LaneState::Open(_) | LaneState::Detached | LaneState::Closed => false,
        }
    }

    /// Gives away the connection of a lane.
    pub(super) fn detach(&mut self, lane: Lane) -> Option<Connection> {
        let place = self.of_mut(lane);
        match core::mem::replace(place, LaneState::Detached) {
            LaneState::Open(connection) => Some(*connection),
            other @ (LaneState::Dialling
            | LaneState::Missing
            | LaneState::Detached
            | LaneState::Closed) => {
                *place = other;
                None
            }
        }
    }

    /// Whether the driver runs the connection of a lane.
    pub(super) const fn is_detached(&self, lane: Lane) -> bool {
        matches!(self.of(lane), LaneState::Detached)
    }

    /// What the connection of a lane makes of an event; `None` when there is no connection.
    pub(super) fn on_event(
        &mut self,
        now: Monotonic,
        lane: Lane,
        event: ConnectionEvent,
    ) -> Option<Vec<ConnectionEffect>> {
        match self.of_mut(lane) {
            LaneState::Open(connection) => {
                let mut out = Vec::new();
                connection.on_event(now, event, &mut out);
                Some(out)
            }
            LaneState::Dialling | LaneState::Missing | LaneState::Detached | LaneState::Closed => {
                None
            }
        }
    }

    pub(super) fn received(
        &mut self,
        now: Monotonic,
        lane: Lane,
        bytes: Bytes,
    ) -> Option<Vec<ConnectionEffect>> {
        self.on_event(now, lane, ConnectionEvent::Received(bytes))
    }

    /// What the connection of a lane keeps of a message that is not whole yet.
    pub(super) fn begun_bytes(&self, lane: Lane) -> u64 {
        match self.of(lane) {
            LaneState::Open(connection) => connection.begun_bytes(),
            LaneState::Dialling | LaneState::Missing | LaneState::Detached | LaneState::Closed => 0,
        }
    }

    /// Closes what is open or on its way, and names it.
    pub(super) fn close(&mut self) -> impl Iterator<Item = Lane> + use<> {
        let closed =
            Lane::ALL.map(
                |lane| match core::mem::replace(self.of_mut(lane), LaneState::Closed) {
                    LaneState::Dialling | LaneState::Open(_) | LaneState::Detached => Some(lane),
                    LaneState::Missing | LaneState::Closed => None,
                },
            );
        closed.into_iter().flatten()
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        let deadlines = Lane::ALL.map(|lane| match self.of(lane) {
            LaneState::Open(connection) => connection.next_deadline(),
            LaneState::Dialling | LaneState::Missing | LaneState::Detached | LaneState::Closed => {
                None
            }
        });
        deadlines.into_iter().flatten().min()
    }

    pub(super) fn on_deadline(&mut self, lane: Lane, now: Monotonic) -> Vec<ConnectionEffect> {
        let mut out = Vec::new();
        match self.of_mut(lane) {
            LaneState::Open(connection) => connection.on_deadline(now, &mut out),
            LaneState::Dialling | LaneState::Missing | LaneState::Detached | LaneState::Closed => {}
        }
        out
    }
}
