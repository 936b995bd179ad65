//! What has to happen once a lane's lock is left: nothing of an application runs, is dropped or is woken
//! under it (EX-360).

use std::sync::Arc;
use std::task::Waker;

use tokio::sync::oneshot;

use crate::carrier::AnyCarrier;
use crate::core::Core;
use crate::engine::Shared;
use crate::entries::Entries;
use crate::jobs::JobPermit;
use crate::owner::Owner;
use crate::queue::Ext;

/// What has to happen once the lock is left.
pub(crate) struct After<O: Owner> {
    pub(crate) wakers: Vec<Waker>,
    pub(crate) sealed: Option<oneshot::Sender<()>>,
    pub(crate) quiet: Vec<oneshot::Sender<()>>,
    pub(crate) permits: Vec<JobPermit>,
    pub(crate) schedule: Schedule,
    pub(crate) junk: Vec<Junk<O>>,
}

/// Values of the application that must not be dropped under the lock.
pub(crate) enum Junk<O: Owner> {
    Entries(Entries<O>),
    Ext(Box<Ext<O>>),
    Owner(O),
    Carriers(Vec<Box<dyn AnyCarrier>>),
}

impl<O: Owner> Junk<O> {
    /// Drops everything, one by one: a value whose drop panics harms no other.
    fn discard(self, shared: &Shared) {
        let drop_all = |entries: Entries<O>| {
            for entry in entries {
                shared.guard_drop(entry);
            }
        };
        match self {
            Self::Entries(entries) => drop_all(entries),
            Self::Owner(owner) => shared.guard_drop(owner),
            Self::Carriers(all) => {
                for one in all {
                    shared.guard_drop(one);
                }
            }
            Self::Ext(mut ext) => {
                drop_all(std::mem::take(&mut ext.lifecycle).into());
                drop_all(std::mem::take(&mut ext.hold).into());
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    No,
    /// The gate enters the ready set, preferably for this worker.
    Ready(u8),
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
            junk.discard(core.shared());
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
