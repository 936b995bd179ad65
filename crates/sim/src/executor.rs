//! The executor of a world: futures of hosts and of the store, polled one after another in one order.
//!
//! There is no thread and no clock of its own. Tasks that are ready run in the order of their numbers, not in
//! the order in which they were woken, so whoever wakes them cannot bring chance into a world.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Whose future it is: the run of a process, or the store and the network that outlive processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the two kinds of owner in a world")]
pub enum Owner {
    /// The store and the way to it.
    Store,
    /// A host process; it dies with its tasks and stands still when it is paused.
    Process(usize),
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Timers {
    now: Duration,
    sequence: u64,
    waiting: BTreeMap<(Duration, u64), Waker>,
}

/// What tasks share with their executor. A clone is the same one.
#[derive(Clone)]
pub struct Handle {
    /// Protects the clock. It is a leaf: nothing is locked while it is held.
    timers: Arc<Mutex<Timers>>,
    /// Protects tasks that were spawned by tasks. It is a leaf.
    spawned: Arc<Mutex<Vec<(Owner, Task)>>>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    /// The time of the world.
    pub fn now(&self) -> Duration {
        lock(&self.timers).now
    }

    /// Waits in virtual time.
    pub fn sleep(&self, by: Duration) -> Sleep {
        Sleep {
            handle: self.clone(),
            until: self.now().saturating_add(by),
            key: None,
        }
    }

    /// Lets a future run on its own.
    pub fn spawn(&self, owner: Owner, future: impl Future<Output = ()> + Send + 'static) {
        lock(&self.spawned).push((owner, Box::pin(future)));
    }
}

/// Ends at its moment of virtual time.
#[derive(Debug)]
pub struct Sleep {
    handle: Handle,
    until: Duration,
    key: Option<(Duration, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let timers = Arc::clone(&self.handle.timers);
        let mut timers = lock(&timers);
        if timers.now >= self.until {
            return Poll::Ready(());
        }
        let key = match self.key {
            Some(key) => key,
            None => {
                timers.sequence = timers.sequence.saturating_add(1);
                (self.until, timers.sequence)
            }
        };
        timers.waiting.insert(key, cx.waker().clone());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            lock(&self.handle.timers).waiting.remove(&key);
        }
    }
}

struct Alarm {
    number: u64,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        lock(&self.ready).insert(self.number);
    }
}

struct Entry {
    owner: Owner,
    task: Task,
    waker: Waker,
}

/// All tasks of a world.
pub struct Executor {
    handle: Handle,
    tasks: BTreeMap<u64, Entry>,
    next: u64,
    /// Protects the numbers of tasks that can run. It is a leaf.
    ready: Arc<Mutex<BTreeSet<u64>>>,
    paused: BTreeSet<Owner>,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("tasks", &self.tasks.len())
            .field("paused", &self.paused)
            .finish_non_exhaustive()
    }
}

impl Default for Executor {
    fn default() -> Self {
        Self::new()
    }
}

impl Executor {
    /// An executor at the time zero.
    pub fn new() -> Self {
        Self {
            handle: Handle {
                timers: Arc::default(),
                spawned: Arc::default(),
            },
            tasks: BTreeMap::new(),
            next: 0,
            ready: Arc::default(),
            paused: BTreeSet::new(),
        }
    }

    /// What tasks share with it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// How many tasks live.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether no task lives.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// When the next sleeper wakes.
    pub fn next_wake(&self) -> Option<Duration> {
        let timers = lock(&self.handle.timers);
        timers.waiting.keys().next().map(|(at, _)| *at)
    }

    /// Moves the clock; time does not go back.
    pub fn advance_to(&mut self, now: Duration) {
        let due: Vec<Waker> = {
            let mut timers = lock(&self.handle.timers);
            timers.now = timers.now.max(now);
            let later = timers.waiting.split_off(&(now, u64::MAX));
            let due = std::mem::replace(&mut timers.waiting, later);
            due.into_values().collect()
        };
        // Outside of the lock, because waking takes another.
        for waker in due {
            waker.wake();
        }
    }

    /// Runs every task that can run until none can.
    pub fn run(&mut self) {
        loop {
            self.adopt();
            let Some(number) = self.take_ready() else {
                return;
            };
            let Some(entry) = self.tasks.get_mut(&number) else {
                continue;
            };
            let mut context = Context::from_waker(&entry.waker);
            if entry.task.as_mut().poll(&mut context).is_ready() {
                self.tasks.remove(&number);
            }
        }
    }

    fn adopt(&mut self) {
        let spawned = std::mem::take(&mut *lock(&self.handle.spawned));
        for (owner, task) in spawned {
            let number = self.next;
            self.next = self.next.saturating_add(1);
            let alarm = Arc::new(Alarm {
                number,
                ready: Arc::clone(&self.ready),
            });
            let waker = Waker::from(alarm);
            self.tasks.insert(number, Entry { owner, task, waker });
            lock(&self.ready).insert(number);
        }
    }

    /// The first task that is ready and whose process runs.
    fn take_ready(&mut self) -> Option<u64> {
        let mut ready = lock(&self.ready);
        let runs = |number: &&u64| {
            let owner = self.tasks.get(number).map(|entry| entry.owner);
            owner.is_none_or(|owner| !self.paused.contains(&owner))
        };
        let number = *ready.iter().find(runs)?;
        ready.remove(&number);
        Some(number)
    }

    /// Lets the tasks of an owner stand still.
    pub fn pause(&mut self, owner: Owner) {
        self.paused.insert(owner);
    }

    /// Lets them go on.
    pub fn resume(&mut self, owner: Owner) {
        self.paused.remove(&owner);
    }

    /// Drops the tasks of an owner: its process has died.
    pub fn kill(&mut self, owner: Owner) {
        self.adopt();
        self.paused.remove(&owner);
        self.tasks.retain(|_, entry| entry.owner != owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(notes: &Arc<Mutex<Vec<u64>>>, what: u64) {
        lock(notes).push(what);
    }

    /// Runs until nobody sleeps any more.
    fn finish(executor: &mut Executor) {
        executor.run();
        while let Some(at) = executor.next_wake() {
            executor.advance_to(at);
            executor.run();
        }
    }

    #[test]
    fn sleepers_wake_in_the_order_of_time_and_then_of_number() {
        let mut executor = Executor::new();
        let notes = Arc::default();
        for (number, millis) in [(1, 20), (2, 10), (3, 20)] {
            let (handle, notes) = (executor.handle(), Arc::clone(&notes));
            executor.handle().spawn(Owner::Store, async move {
                handle.sleep(Duration::from_millis(millis)).await;
                note(&notes, number);
            });
        }
        finish(&mut executor);
        assert_eq!(*lock(&notes), [2, 1, 3]);
        assert_eq!(executor.handle().now(), Duration::from_millis(20));
        assert!(executor.is_empty());
    }

    #[test]
    fn a_paused_process_stands_still_and_a_dead_one_never_goes_on() {
        let mut executor = Executor::new();
        let notes = Arc::default();
        for number in [1, 2] {
            let (handle, notes) = (executor.handle(), Arc::clone(&notes));
            let owner = Owner::Process(usize::try_from(number).unwrap());
            executor.handle().spawn(owner, async move {
                handle.sleep(Duration::from_millis(1)).await;
                note(&notes, number);
            });
        }
        executor.run();
        executor.pause(Owner::Process(1));
        executor.kill(Owner::Process(2));
        finish(&mut executor);
        assert!(lock(&notes).is_empty());
        executor.resume(Owner::Process(1));
        executor.run();
        assert_eq!(*lock(&notes), [1]);
        assert_eq!(executor.len(), 0);
    }
}
