//! The end of a lane: closing, quiescence, and what is left when nothing runs any more (EX-74, EX-112, EX-306).

use std::sync::Arc;
use std::task::Waker;

use tokio::sync::oneshot;

use crate::after::{After, Junk};
use crate::core::{ATTENTION, Admission, Bound, Core, Run};
use crate::error::Refusal;
use crate::host::AnyLane;
use crate::owner::Owner;
use crate::signal::Mark;

impl<O: Owner> AnyLane for Core<O> {
    // EX-180: the end of an object is state of every lane and of no policy.
    fn close(&self) -> Result<(), Refusal> {
        let mut after = After::<O>::default();
        let reason = self.end_reason();
        let mut inner = self.lock();
        if inner.admission == Admission::Held {
            return Err(Refusal::Sealed);
        }
        let mut requester = None;
        if inner.admission != Admission::Ended {
            // What waits for room was not accepted and ends here; what was accepted goes on (EX-74).
            inner.end_waiters(&reason, &mut after);
            inner.admission = Admission::Closed;
            requester = inner.withdraw_seal();
        }
        inner.check_quiet(&mut after);
        drop(inner);
        drop(requester);
        let After { wakers, quiet, .. } = after;
        for quiet in quiet {
            let _nobody_waits = quiet.send(());
        }
        wakers.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn quiet(self: Arc<Self>) -> Option<oneshot::Receiver<()>> {
        let mut inner = self.lock();
        if inner.is_quiet() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        inner.ext().quiet.push(sender);
        Some(receiver)
    }

    fn abort(self: Arc<Self>) {
        let mut after = After::default();
        let reason = self.end_reason();
        let mut inner = self.lock();
        inner.end_waiters(&reason, &mut after);
        inner.admission = Admission::Ended;
        let requester = inner.withdraw_seal();
        let mut mark = Mark::None;
        if let Some(spot) = inner.spot() {
            mark = std::mem::take(&mut spot.mark);
            let carriers = std::mem::take(&mut spot.suspended);
            spot.suspended_len = 0;
            after
                .junk
                .push(Junk::Carriers(carriers.into_values().collect()));
        }
        after
            .junk
            .push(Junk::Entries(std::mem::take(&mut inner.app)));
        if inner.run != Run::Running || inner.bound == Bound::Shared {
            inner.run = Run::Stopped;
            let key = inner.take();
            let held = key.map(|key| key.hold(Arc::clone(&self)));
            after.junk.extend(held.map(Junk::Driven));
            if let Some(mut ext) = inner.ext.take() {
                after.quiet.append(&mut ext.quiet);
                after.junk.push(Junk::Ext(ext));
            }
        } else if let Some(ext) = inner.ext.as_mut() {
            // A turn on a worker is stopped by its driver at the boundary, with what it has in hand.
            after
                .junk
                .push(Junk::Entries(std::mem::take(&mut ext.lifecycle)));
            after
                .junk
                .push(Junk::Entries(std::mem::take(&mut ext.hold)));
        }
        self.signal(ATTENTION);
        drop(inner);
        drop((requester, mark));
        after.run(&self);
    }
}

impl<O: Owner> Core<O> {
    /// The turn that held the gate is gone with its carrier.
    pub(crate) fn lost(self: &Arc<Self>) {
        {
            let mut inner = self.lock();
            inner.run = Run::Stopped;
        }
        Arc::clone(self).abort();
    }
}
