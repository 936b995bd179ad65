//! Gathers the operations of concurrent callers into few script calls.
//!
//! A caller that is alone sends for itself. As soon as there are several, one worker takes what has queued up and sends
//! it as one call of many independent writes, each atomic on its own, and one of many reads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use bytes::Bytes;
use fred::types::Value;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use spotlane_store::bound::{PAGE_BYTES_MAX, REQUEST_BYTES_MAX};
use spotlane_store::{Failure, ReadOutcome, StoreError, StoreKey, WriteOutcome, WriteRequest};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use crate::classify::{Effect, Fate, class};
use crate::encode::{Batch, decimal, observed, of_read, time, unexpected};
use crate::link::{Link, Sent, too_often_fenced};

/// Most operations that wait for the worker; a caller above that waits in line before it.
const QUEUE_MAX: usize = 4_096;
/// Most operations of one call, and most records of the writes among them: what keeps Redis busy for a few
/// milliseconds at most. A single batch may have more records, up to the bound of the contract.
const CALL_OPERATIONS_MAX: usize = 128;
const CALL_RECORDS_MAX: usize = 512;
/// Most calls under way: one that Redis works on and one that waits behind it.
const CALLS_MAX: usize = 2;
/// How often a write is sent again after its fence was closed.
const FENCE_TRIES: u8 = 4;

/// The stages of an operation: only one side can take it out of the queue.
const QUEUED: u8 = 0;
const SENT: u8 = 1;
const WITHDRAWN: u8 = 2;

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

struct Item<O, T> {
    operation: O,
    stage: Arc<AtomicU8>,
    answer: Answer<T>,
    tries: u8,
}

type Write = Item<Batch, WriteOutcome>;
type Read = Item<(StoreKey, Bytes), ReadOutcome>;

enum Work {
    Write(Write),
    Read(Read),
}

/// The way in: shared by all clones of a store.
#[derive(Debug)]
pub(crate) struct Gather {
    link: Arc<Link>,
    queue: mpsc::Sender<Work>,
    /// How many callers are inside; the first sends for itself.
    callers: AtomicUsize,
    _worker: JoinSet<()>,
}

impl Gather {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        let (queue, arrivals) = mpsc::channel(QUEUE_MAX);
        let mut worker = JoinSet::new();
        worker.spawn(Worker::new(Arc::clone(&link), arrivals).run());
        Self {
            link,
            queue,
            callers: AtomicUsize::new(0),
            _worker: worker,
        }
    }

    pub(crate) async fn write(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        let batch = Batch::encode(&self.link.domain, request);
        let (_inside, is_alone) = self.enter();
        if !is_alone {
            return self.enqueue(batch, Effect::Changes, Work::Write).await;
        }
        let (keys, arguments) = write_call(&self.link, std::iter::once(&batch));
        let deadline = self.link.deadline();
        let answer = self
            .link
            .write(&self.link.scripts.write, &keys, &arguments, deadline)
            .await?;
        let mut parts = open(answer, &self.link)?;
        let now = time(parts.pop_front().as_ref())?;
        note(
            &self.link,
            batch.outcome(parts.pop_front().unwrap_or(Value::Null), now),
        )
    }

    pub(crate) async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        let record = self.link.domain.record(key);
        let (_inside, is_alone) = self.enter();
        if !is_alone {
            let operation = (key.clone(), record);
            return self.enqueue(operation, Effect::None, Work::Read).await;
        }
        let room = [decimal(PAGE_BYTES_MAX)];
        let deadline = self.link.deadline();
        let answer = self
            .link
            .read(&self.link.scripts.read, &[record], &room, deadline)
            .await?;
        let mut parts: VecDeque<_> = answer.into_array().into();
        let now = time(parts.pop_front().as_ref()).map_err(of_read)?;
        observed(key, parts.pop_front().unwrap_or(Value::Null), now)
            .unwrap_or_else(|| Err(of_read(unexpected("a record"))))
    }

    fn enter(&self) -> (Inside<'_>, bool) {
        let before = self.callers.fetch_add(1, Ordering::AcqRel);
        (Inside(&self.callers), before == 0)
    }

    async fn enqueue<O, T>(
        &self,
        operation: O,
        effect: Effect,
        kind: impl Fn(Item<O, T>) -> Work,
    ) -> Result<T, StoreError> {
        let deadline = self.link.deadline();
        let (answer, answered) = oneshot::channel();
        let stage = Arc::new(AtomicU8::new(QUEUED));
        let item = Item {
            operation,
            stage: Arc::clone(&stage),
            answer,
            tries: 0,
        };
        // Also when this future is dropped: a queued operation is withdrawn, a sent one leaves an unknown outcome.
        let mut leave = Leave {
            link: &self.link,
            stage: &stage,
            effect,
            is_answered: false,
        };
        let queued = timeout_at(deadline, self.queue.send(kind(item))).await;
        if !matches!(queued, Ok(Ok(()))) {
            return Err(StoreError::transient(
                "too many operations wait, this one was not sent",
            ));
        }
        match timeout_at(deadline, answered).await {
            Ok(Ok(answer)) => {
                leave.is_answered = true;
                answer
            }
            // The worker ends with the store only.
            Ok(Err(_)) => Err(leave.left("the store was closed")),
            Err(_) => Err(leave.left("no answer within the operation timeout")),
        }
    }
}

/// Counts a caller out.
struct Inside<'a>(&'a AtomicUsize);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Leave<'a> {
    link: &'a Link,
    stage: &'a AtomicU8,
    effect: Effect,
    is_answered: bool,
}

impl Leave<'_> {
    fn withdraw(&self) -> bool {
        self.stage
            .compare_exchange(QUEUED, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire)
            .is_ok_and(|_| true)
    }

    fn left(&self, message: &'static str) -> StoreError {
        if self.withdraw() {
            return StoreError::Transient(Failure::new(format!("{message}, it was not sent")));
        }
        // A read that was sent has no unknown outcome.
        class(Fate::Unknown, self.effect, Failure::new(message))
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if self.is_answered || self.withdraw() || self.effect == Effect::None {
            return;
        }
        if self.stage.load(Ordering::Acquire) == SENT {
            self.link.mark_unknown();
        }
    }
}

struct Worker {
    link: Arc<Link>,
    arrivals: mpsc::Receiver<Work>,
    writes: VecDeque<Write>,
    reads: VecDeque<Read>,
    calls: FuturesUnordered<BoxFuture<'static, Back>>,
}

/// What a call hands back: operations that certainly did not run and go again.
#[derive(Default)]
struct Back {
    writes: Vec<Write>,
    reads: Vec<Read>,
}

impl Worker {
    fn new(link: Arc<Link>, arrivals: mpsc::Receiver<Work>) -> Self {
        Self {
            link,
            arrivals,
            writes: VecDeque::new(),
            reads: VecDeque::new(),
            calls: FuturesUnordered::new(),
        }
    }

    async fn run(mut self) {
        loop {
            let is_idle = self.writes.is_empty() && self.reads.is_empty();
            tokio::select! {
                Some(back) = self.calls.next() => self.take_back(back),
                arrived = self.arrivals.recv(), if is_idle => match arrived {
                    Some(work) => self.sort(work),
                    None => return,
                },
                () = std::future::ready(()), if !is_idle && self.calls.len() < CALLS_MAX => {}
            }
            if self.calls.len() >= CALLS_MAX || (self.writes.is_empty() && self.reads.is_empty()) {
                continue;
            }
            // Once round the scheduler: callers that are ready to run join this call instead of the next.
            tokio::task::yield_now().await;
            self.sort_arrivals();
            if self.settle().await {
                self.start_calls();
            }
        }
    }

    fn take_back(&mut self, back: Back) {
        back.writes
            .into_iter()
            .rev()
            .for_each(|write| self.writes.push_front(write));
        back.reads
            .into_iter()
            .rev()
            .for_each(|read| self.reads.push_front(read));
    }

    fn sort(&mut self, work: Work) {
        match work {
            Work::Write(write) => self.writes.push_back(write),
            Work::Read(read) => self.reads.push_back(read),
        }
    }

    fn sort_arrivals(&mut self) {
        while self.writes.len() + self.reads.len() < CALL_OPERATIONS_MAX * 2 {
            let Ok(work) = self.arrivals.try_recv() else {
                break;
            };
            self.sort(work);
        }
    }

    /// Before anything counts as sent: is there a connection, is the past settled? If not within the timeout, what
    /// has queued up by now is answered with the reason.
    async fn settle(&mut self) -> bool {
        let link = Arc::clone(&self.link);
        let mut settled = std::pin::pin!(link.settle(link.deadline()));
        let result = loop {
            tokio::select! {
                biased;
                result = &mut settled => break result,
                Some(back) = self.calls.next() => self.take_back(back),
            }
        };
        let Err(error) = result else { return true };
        self.writes
            .drain(..)
            .for_each(|write| refuse(write, &error));
        self.reads.drain(..).for_each(|read| refuse(read, &error));
        false
    }

    fn start_calls(&mut self) {
        // Before anybody is asked whether it still waits, see `Link::fence`.
        let fence = self.link.fence();
        let (mut writes, mut bytes, mut records) = (Vec::new(), 0, 0);
        while let Some(write) = self.writes.pop_front() {
            bytes += write.operation.bytes;
            records += write.operation.keys.len();
            let is_over = writes.len() >= CALL_OPERATIONS_MAX
                || bytes > REQUEST_BYTES_MAX
                || records > CALL_RECORDS_MAX;
            if is_over && !writes.is_empty() {
                self.writes.push_front(write);
                break;
            }
            if write.take() {
                writes.push(write);
            }
        }
        if !writes.is_empty() {
            self.calls
                .push(Box::pin(run_writes(Arc::clone(&self.link), fence, writes)));
        }
        let mut reads = Vec::new();
        while reads.len() < CALL_OPERATIONS_MAX {
            let Some(read) = self.reads.pop_front() else {
                break;
            };
            if read.take() {
                reads.push(read);
            }
        }
        if !reads.is_empty() {
            self.calls
                .push(Box::pin(run_reads(Arc::clone(&self.link), reads)));
        }
    }
}

impl<O, T> Item<O, T> {
    /// Takes it out of the queue, or finds that its caller has left. One that comes back is asked again.
    fn take(&self) -> bool {
        let took = self
            .stage
            .compare_exchange(QUEUED, SENT, Ordering::AcqRel, Ordering::Acquire);
        (took.is_ok() || self.tries > 0) && !self.answer.is_closed()
    }

    fn reply(self, result: Result<T, StoreError>) {
        // A caller that has left needs no answer; it marked the outcome as unknown itself.
        drop(self.answer.send(result));
    }
}

fn refuse<O, T>(item: Item<O, T>, error: &StoreError) {
    item.reply(Err(like(error)));
}

/// The same error for another caller of the same call.
fn like(error: &StoreError) -> StoreError {
    let failure = || Failure::new(error.to_string());
    match error {
        StoreError::Argument(cause) => StoreError::Argument(cause.clone()),
        StoreError::Transient(_) => StoreError::Transient(failure()),
        StoreError::Indeterminate(_) => StoreError::Indeterminate(failure()),
        StoreError::Permanent(_) => StoreError::Permanent(failure()),
    }
}

/// Keys (but for the fence, which the link adds) and arguments of `write.lua`.
fn write_call<'a>(
    link: &Link,
    batches: impl ExactSizeIterator<Item = &'a Batch>,
) -> (Vec<Bytes>, Vec<Bytes>) {
    let domain = &link.domain;
    let parts = [&domain.sequence, &domain.index, &domain.scans, &domain.due];
    let mut keys: Vec<_> = parts.into_iter().cloned().collect();
    let again = crate::scan::IDLE_LIFE.as_millis().to_string();
    let mut arguments = vec![
        domain.name.clone(),
        Bytes::from(again),
        decimal(batches.len()),
    ];
    for batch in batches {
        keys.extend_from_slice(&batch.keys);
        arguments.extend_from_slice(&batch.arguments);
    }
    (keys, arguments)
}

/// The parts of an answer of `write.lua`, or the error that it has in their place.
fn open(answer: Value, link: &Link) -> Result<VecDeque<Value>, StoreError> {
    let parts: VecDeque<_> = answer.into_array().into();
    if let Some(Value::Bytes(_) | Value::String(_)) = parts.front() {
        let text = parts.front().and_then(Value::as_string).unwrap_or_default();
        return note(link, Err(crate::classify::returned(&text, "")));
    }
    Ok(parts)
}

/// A write that met a replica is the sign to look for the master.
fn note<T>(link: &Link, result: Result<T, StoreError>) -> Result<T, StoreError> {
    if let Err(StoreError::Transient(failure)) = &result
        && failure.message().contains("READONLY")
    {
        link.mark_misrouted();
    }
    result
}

async fn run_writes(link: Arc<Link>, fence: Bytes, mut writes: Vec<Write>) -> Back {
    let (keys, arguments) = write_call(&link, writes.iter().map(|write| &write.operation));
    let deadline = link.deadline();
    let reply = link
        .send_write(&link.scripts.write, fence, &keys, &arguments, deadline)
        .await;
    let parts = match reply {
        Ok(Sent::Answer(answer)) => open(answer, &link),
        Ok(Sent::Fenced) => {
            let (returning, spent): (Vec<_>, Vec<_>) = writes
                .into_iter()
                .partition(|write| write.tries < FENCE_TRIES);
            for write in spent {
                write.reply(Err(too_often_fenced()));
            }
            writes = returning;
            for write in &mut writes {
                write.tries += 1;
            }
            return Back {
                writes,
                reads: Vec::new(),
            };
        }
        Err(error) => Err(error),
    };
    let mut answers = match parts {
        Ok(parts) => parts,
        Err(error) => {
            for write in writes {
                refuse(write, &error);
            }
            return Back::default();
        }
    };
    let now = time(answers.pop_front().as_ref());
    for write in writes {
        let answer = answers.pop_front().unwrap_or(Value::Null);
        let result = match &now {
            Ok(now) => note(&link, write.operation.outcome(answer, *now)),
            Err(error) => Err(like(error)),
        };
        write.reply(result);
    }
    Back::default()
}

async fn run_reads(link: Arc<Link>, reads: Vec<Read>) -> Back {
    let keys: Vec<_> = reads.iter().map(|read| read.operation.1.clone()).collect();
    let room = [decimal(PAGE_BYTES_MAX)];
    let mut back = Back::default();
    let answer = link
        .read(&link.scripts.read, &keys, &room, link.deadline())
        .await;
    let mut answers: VecDeque<_> = match answer {
        Ok(answer) => answer.into_array().into(),
        Err(error) => {
            for read in reads {
                refuse(read, &error);
            }
            return back;
        }
    };
    let now = time(answers.pop_front().as_ref()).map_err(of_read);
    for mut read in reads {
        let answer = answers.pop_front().unwrap_or(Value::Null);
        let now = match &now {
            Ok(now) => *now,
            Err(error) => {
                refuse(read, error);
                continue;
            }
        };
        if let Some(result) = observed(&read.operation.0, answer, now) {
            read.reply(result);
        } else {
            // No room: the next call begins with it, so it does not come back twice.
            read.tries = 1;
            back.reads.push(read);
        }
    }
    back
}
