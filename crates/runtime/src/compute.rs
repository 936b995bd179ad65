//! Work that computes for long, off the workers that run handlers (EX-279).

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::error::Error;

/// As many slots as processors, each on a thread of its own while something computes in it.
#[derive(Debug)]
pub(crate) struct Processors {
    runtime: Handle,
    slots: Arc<Semaphore>,
}

impl Processors {
    pub(crate) fn new(runtime: Handle, slots: NonZeroUsize) -> Self {
        Self {
            runtime,
            slots: Arc::new(Semaphore::new(slots.get().min(Semaphore::MAX_PERMITS))),
        }
    }

    /// EX-279: full, it waits for a slot until the deadline. A slot is taken while the callback computes and no longer; a
    /// callback whose caller went away keeps its slot to its end, and its late result goes nowhere.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let call = async {
            let slot = Arc::clone(&self.slots).acquire_owned().await;
            let slot = slot.map_err(|_| Error::shutting_down())?;
            let computed = self.runtime.spawn_blocking(move || {
                let outcome = work();
                drop(slot);
                outcome
            });
            match computed.await {
                Ok(outcome) => Ok(outcome),
                Err(fault) if fault.is_panic() => {
                    Err(Error::internal("the computation panicked").with_source(fault))
                }
                Err(fault) => Err(Error::shutting_down().with_source(fault)),
            }
        };
        match tokio::time::timeout(timeout, call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::deadline(format!(
                "the computation did not end in {timeout:?}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::error::ErrorKind;

    const LONG: Duration = Duration::from_secs(30);

    fn one_slot() -> Processors {
        Processors::new(Handle::current(), NonZeroUsize::MIN)
    }

    /// EX-279: the second computation waits for the slot of the first, to its deadline and no longer; what waits for
    /// something else than the processor takes no slot.
    #[tokio::test]
    async fn a_full_processor_is_waited_for_until_the_deadline() {
        let processors = Arc::new(one_slot());
        let (go_on, gate) = mpsc::channel::<()>();
        let (began, has_begun) = tokio::sync::oneshot::channel();
        let first = Arc::clone(&processors);
        let first = async move {
            let work = move || {
                began.send(()).unwrap();
                gate.recv().unwrap();
                1
            };
            first.run(LONG, work).await
        };
        let others = async {
            has_begun.await.unwrap();
            let late = processors.run(Duration::from_millis(5), || 2).await;
            assert_eq!(late.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
            go_on.send(()).unwrap();
            processors.run(LONG, || 3).await
        };
        let (first, last) = tokio::join!(first, others);
        assert_eq!((first.unwrap(), last.unwrap()), (1, 3));
    }

    /// EX-279: a caller that went away takes nothing back: the slot is free when its callback has ended, once.
    #[tokio::test]
    async fn a_late_computation_gives_its_slot_back_at_its_end() {
        let processors = one_slot();
        let (go_on, gate) = mpsc::channel::<()>();
        let work = move || {
            gate.recv().unwrap();
        };
        let late = processors.run(Duration::from_millis(5), work).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        assert_eq!(processors.slots.available_permits(), 0);
        go_on.send(()).unwrap();
        assert_eq!(processors.run(LONG, || 7).await.unwrap(), 7);
        assert_eq!(processors.slots.available_permits(), 1);
    }

    /// EX-279, EX-351: work that panics is an error of its caller, and harms no slot.
    #[tokio::test]
    async fn a_failing_computation_is_an_error_of_its_caller() {
        let processors = one_slot();
        let panicked = processors.run::<()>(LONG, || panic!("as asked")).await;
        assert_eq!(panicked.unwrap_err().kind(), ErrorKind::InternalFailure);
        assert_eq!(processors.run(LONG, || 1).await.unwrap(), 1);
    }
}
