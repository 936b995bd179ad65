//! What has to happen once a lane's lock is left: nothing of an application runs, is dropped or is woken
//! under it (EX-360).

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use tokio::sync::oneshot;

use crate::carrier::AnyCarrier;
use crate::core::Core;
use crate::driven::Hold;
use crate::jobs::JobPermit;
use crate::owner::Owner;
use crate::queue::{Entry, Ext};

/// What has to happen once the lock is left.
pub(crate) struct After<O: Owner> {
    pub(crate) wakers: Vec<Waker>,
    pub(crate) sealed: Option<oneshot::Sender<()>>,
    pub(crate) quiet: Vec<oneshot::Sender<()>>,
    pub(crate) permits: Vec<JobPermit>,
    pub(crate) schedule: Schedule<O>,
    pub(crate) junk: Vec<Junk<O>>,
}

/// Values of the application that must not be dropped under the lock.
pub(crate) enum Junk<O: Owner> {
    Entries(VecDeque<Entry<O>>),
    Ext(Box<Ext<O>>),
    /// What the gate of this lane guards.
    Driven(Hold<O>),
    Carriers(Vec<Box<dyn AnyCarrier>>),
}

impl<O: Owner> Junk<O> {
    /// Drops everything, one by one: a value whose drop panics harms no other.
    fn discard(self, core: &Core<O>) {
        let shared = core.shared();
        let drop_all = |entries: VecDeque<Entry<O>>| {
            for entry in entries {
                shared.guard_drop(entry);
            }
        };
        match self {
            Self::Entries(entries) => drop_all(entries),
            Self::Driven(held) => core.discard(held),
            Self::Carriers(all) => {
                for one in all {
                    shared.guard_drop(one);
                }
            }
            Self::Ext(mut ext) => {
                drop_all(std::mem::take(&mut ext.lifecycle));
                drop_all(std::mem::take(&mut ext.hold));
                let barriers = std::mem::take(&mut ext.barriers);
                for item in barriers {
                    shared.guard_drop(item);
                }
                shared.guard_drop(ext);
            }
        }
    }
}

/// How a lane that became runnable gets its turn; carried out after the lock is left (EX-72).
#[must_use]
pub(crate) enum Schedule<O: Owner> {
    No,
    /// The gate enters the ready set, preferably for this worker.
    Ready(Hold<O>, u8),
    /// The lane is bound: a ticket enters the FIFO of its gate's lane (EX-23).
    Ticket,
}

impl<O: Owner> Default for After<O> {
    fn default() -> Self {
        Self {
            wakers: Vec::new(),
            sealed: None,
            quiet: Vec::new(),
            permits: Vec::new(),
            schedule: Schedule::No,
            junk: Vec::new(),
        }
    }
}

impl<O: Owner> After<O> {
    /// Runs what was collected, with no lock held.
    pub(crate) fn run(self, core: &Arc<Core<O>>) {
        for junk in self.junk {
            junk.discard(core);
        }
        drop(self.permits);
        core.enter(self.schedule);
        if let Some(sealed) = self.sealed {
            // A requester that went away withdrew; the guard's drop reopens in that case.
            let _withdrawn = sealed.send(());
        }
        for quiet in self.quiet {
            let _nobody_waits = quiet.send(());
        }
        for waker in self.wakers {
            waker.wake();
        }
    }
}
