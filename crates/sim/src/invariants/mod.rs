//! What must hold in every world, a file for each.
//!
//! An invariant sees the stream of observations and, after each step, the hosts themselves. It reports the first
//! break in words that a reader of the trace understands.

mod budget;
mod client_order;
mod exactly_once;
mod held_once;
mod moves_settle;
mod no_handler_before_commit;
mod no_return;
mod nothing_resident;
mod one_binding;
mod one_disconnect;
mod one_notice;
mod one_owner;
mod one_terminal;
mod payload_released_once;
mod push_to_current;
mod replaced_closes;
mod seal_holds;
mod seals_end;
mod sender_order;
mod state_lineage;

use std::fmt;
use std::time::Duration;

use spotlane_types::generation::{AuthorityOwnerGeneration, ObjectGeneration};
use spotlane_types::kind::RelocationPhase;

use crate::host::Host;
use crate::network::HostIndex;
use crate::observation::{ActorIndex, Observation};
use crate::oracle::Oracle;
use crate::plan::Plan;

/// Whether the lease that a row names is alive in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it lives or it does not")]
pub enum Lease {
    /// It lives.
    Live,
    /// It has ended.
    Ended,
}

/// What the store says of an Actor, seen by nobody in the world.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the world fills it in")]
pub struct OwnerRow {
    /// The owner.
    pub owner: HostIndex,
    /// How far a move has got, if one is in the row.
    pub phase: Option<RelocationPhase>,
    /// The incarnation.
    pub object_generation: ObjectGeneration,
    /// The tenure.
    pub generation: AuthorityOwnerGeneration,
    /// The lease of the owner.
    pub lease: Lease,
}

/// A look at a world.
#[expect(clippy::exhaustive_structs, reason = "the world fills it in")]
pub struct View<'a> {
    /// The time.
    pub now: Duration,
    /// The plan.
    pub plan: &'a Plan,
    /// The hosts.
    pub hosts: &'a [Host],
    /// What was promised.
    pub oracle: &'a Oracle,
    /// Reads the store.
    pub row: Box<dyn Fn(ActorIndex) -> Option<OwnerRow> + 'a>,
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl View<'_> {
    /// The host that serves an Actor.
    pub fn server(&self, actor: ActorIndex) -> Option<&Host> {
        self.hosts.iter().find(|host| host.serves(actor))
    }
}

/// A promise that is checked.
pub trait Invariant: fmt::Debug {
    /// Its name on the command line and in failures.
    fn name(&self) -> &'static str;

    /// Looks at one observation, in order.
    ///
    /// # Errors
    /// What is broken.
    fn observe(&mut self, _seen: &Observation, _view: &View<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Looks at the hosts after each step.
    ///
    /// # Errors
    /// What is broken.
    fn after_step(&mut self, _view: &View<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Looks at what is left when nothing happens any more.
    ///
    /// # Errors
    /// What is broken.
    fn at_end(&mut self, _view: &View<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Which invariant reports it.
    pub invariant: &'static str,
    /// When.
    pub at: Duration,
    /// What is broken.
    pub what: String,
}

impl Violation {
    /// A broken promise at a moment.
    pub fn new(invariant: &dyn Invariant, at: Duration, what: String) -> Self {
        Self {
            invariant: invariant.name(),
            at,
            what,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.at.as_micros() / 1000;
        write!(f, "{} at {millis} ms: {}", self.invariant, self.what)
    }
}

/// All of them.
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(one_owner::OneOwner),
        Box::new(no_handler_before_commit::NoHandlerBeforeCommit),
        Box::<no_return::NoReturn>::default(),
        Box::new(one_binding::OneBinding),
        Box::<push_to_current::PushToCurrent>::default(),
        Box::<held_once::HeldOnce>::default(),
        Box::new(one_disconnect::OneDisconnect),
        Box::<seal_holds::SealHolds>::default(),
        Box::<seals_end::SealsEnd>::default(),
        Box::<replaced_closes::ReplacedCloses>::default(),
        Box::<client_order::ClientOrder>::default(),
        Box::<sender_order::SenderOrder>::default(),
        Box::<exactly_once::ExactlyOnce>::default(),
        Box::new(state_lineage::StateLineage),
        Box::new(one_terminal::OneTerminal),
        Box::<payload_released_once::PayloadReleasedOnce>::default(),
        Box::new(budget::Budget),
        Box::<one_notice::OneNotice>::default(),
        Box::new(nothing_resident::NothingResident),
        Box::new(moves_settle::MovesSettle),
    ]
}
