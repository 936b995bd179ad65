//! Both machines over a simulated network, for tests: time, connections, lanes and store as simple as
//! can be, and the promises of a move checked after every step.

use std::collections::{BTreeMap, VecDeque};

use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::kind::RelocationPhase;
use spotlane_types::machine::Machine as _;
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use spotlane_wire::frozen::FrozenRecord;

use crate::budget::{Budget, Grant, UnitId};
use crate::diagnostic::Diagnostic;
use crate::identity::{ConnectionId, RowRead};
use crate::saved::{JoinData, join_record};
use crate::settings::RelocationSettings;
use crate::source::payload::{ParticipantCapture, Payload, QueuedWork};
use crate::source::{
    CaptureOrder, CleanUpOutcome, Source, SourceEffect, SourceEvent, SourceStage, SubmitOutcome,
};
use crate::target::{
    BacklogItem, CommitAnswer, LifecycleOutcome, LifecycleStep, LocalCheck, RestoreFailure, Target,
    TargetEffect, TargetEvent, TargetStage,
};
use crate::unit::sample::{
    connection, note, plan, row_of_source, row_of_target, text_of, tick, timer,
};
use crate::vocabulary::Trace;

/// A step of the world that somebody has to take.
#[derive(Debug)]
pub(crate) enum Task {
    /// The next record to the target arrives.
    ToTarget,
    /// The next record to the source arrives.
    ToSource,
    /// An answer to the source.
    Source(SourceEvent),
    /// The source captures now.
    Capture(Box<CaptureOrder>),
    /// The source reads the row now.
    SourceReads,
    /// An answer to the target.
    Target(TargetEvent<String>),
    /// The target reads the row now.
    TargetReads,
    /// The store takes the owner change now.
    Commit,
}

/// What travels to the target on one ordered connection.
#[derive(Debug)]
enum Sent {
    Record(Box<Record>),
    /// A message that is forwarded along Message Follow.
    Message(String),
}

/// How the store treats the next owner changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Answers,
    /// Applied, but the answer is lost.
    LosesAnswers,
    /// Not applied, and no answer.
    LosesWrites,
    /// Reads fail too.
    Down,
}

/// Who serves the object according to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Source,
    Target(RelocationPhase),
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the facts that are checked")]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) source: Source,
    pub(crate) target: Target<String>,
    budget: Budget,
    pub(crate) line: Option<ConnectionId>,
    lines: u64,
    to_target: VecDeque<(ConnectionId, Sent)>,
    /// When the oldest record on its way was sent.
    on_its_way_since: Option<u64>,
    to_source: VecDeque<(ConnectionId, Record)>,
    pub(crate) tasks: VecDeque<Task>,
    pub(crate) store: Store,
    pub(crate) owner: Owner,
    pub(crate) restore: Result<(), RestoreFailure>,
    pub(crate) state: usize,
    /// The Join that the move is for.
    pub(crate) join: Option<JoinData>,
    /// The callbacks that ran at the target.
    pub(crate) lifecycle: Vec<LifecycleStep>,
    /// The queue of the source, served unless it is sealed.
    source_queue: VecDeque<FrozenRecord>,
    source_open: bool,
    source_sealed: bool,
    pub(crate) boundary: bool,
    target_queue: VecDeque<String>,
    target_open: bool,
    diverted: bool,
    pub(crate) ran_at_source: Vec<String>,
    pub(crate) ran_at_target: Vec<String>,
    pub(crate) forwarded: Vec<String>,
    /// What the source sent as command 31, and how many of commands 52, 30 and 53 there were.
    pub(crate) relayed: Vec<String>,
    pub(crate) chunks: usize,
    pub(crate) replies: usize,
    /// A tick of this timer stands behind the queue of the source when that is captured.
    pub(crate) tick: Option<&'static str>,
    /// Whether the target's owner change reaches the store.
    pub(crate) commits: bool,
    pub(crate) dropped: u64,
    pub(crate) ended: Vec<u64>,
    pub(crate) releases: usize,
    pub(crate) results: Vec<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) stages: Vec<(SourceStage, TargetStage)>,
    pub(crate) trace: Trace,
}

fn clock(millis: u64) -> Monotonic {
    crate::unit::sample::at(millis)
}

impl World {
    pub(crate) fn new(settings: RelocationSettings) -> Self {
        Self {
            now: 0,
            source: Source::new(settings),
            target: Target::new(settings),
            budget: Budget::new(&settings),
            line: Some(connection(1)),
            lines: 1,
            to_target: VecDeque::new(),
            on_its_way_since: None,
            to_source: VecDeque::new(),
            tasks: VecDeque::new(),
            store: Store::Answers,
            owner: Owner::Source,
            restore: Ok(()),
            state: 100,
            join: None,
            lifecycle: Vec::new(),
            source_queue: VecDeque::new(),
            source_open: true,
            source_sealed: false,
            boundary: false,
            target_queue: VecDeque::new(),
            target_open: false,
            diverted: false,
            ran_at_source: Vec::new(),
            ran_at_target: Vec::new(),
            forwarded: Vec::new(),
            relayed: Vec::new(),
            chunks: 0,
            replies: 0,
            tick: None,
            commits: true,
            dropped: 0,
            ended: Vec::new(),
            releases: 0,
            results: Vec::new(),
            diagnostics: Vec::new(),
            stages: Vec::new(),
            trace: Trace::new(),
        }
    }

    /// Somebody asks for the move.
    pub(crate) fn request(&mut self) {
        let mut plan = plan(1);
        plan.deadline = clock(self.now + 10_000);
        plan.connection = self.line.unwrap_or(plan.connection);
        self.give_source(SourceEvent::MoveRequested(Box::new(plan)));
    }

    /// A message is sent to the address at the source.
    pub(crate) fn send(&mut self, text: &str) {
        let record = note(text);
        if self.source_open || self.source.stage() == SourceStage::Waiting {
            // Up to S0 the lane takes it, and captures it if its turn does not come before.
            self.source_queue.push_back(record);
            self.serve();
        } else {
            self.give_source(SourceEvent::Arrived(Box::new(record)));
        }
    }

    /// A message that stays queued at the source, because its turn has not come.
    pub(crate) fn queue(&mut self, text: &str) {
        self.source_queue.push_back(note(text));
    }

    /// A message comes to the target directly.
    pub(crate) fn send_to_target(&mut self, text: &str) {
        if self.diverted {
            self.give_target(TargetEvent::Arrived(text.to_owned()));
        } else if self.target.stage() == TargetStage::OwnerCommitted || self.target_open {
            self.target_queue.push_back(text.to_owned());
            self.serve();
        }
    }

    /// The connection breaks; what was on its way is lost.
    pub(crate) fn cut(&mut self) {
        let Some(lost) = self.line.take() else { return };
        self.to_target.clear();
        self.to_source.clear();
        let moving = |task: &Task| !matches!(task, Task::ToTarget | Task::ToSource);
        self.tasks.retain(moving);
        let mut grants = Vec::new();
        self.budget.connection_lost(lost, &mut grants);
        self.granted(grants);
        self.give_source(SourceEvent::ConnectionLost(lost));
        self.give_target(TargetEvent::ConnectionLost(lost));
    }

    /// The peers are connected again.
    pub(crate) fn connect(&mut self) {
        if self.line.is_none() {
            self.lines += 1;
            let line = connection(self.lines);
            self.line = Some(line);
            self.give_source(SourceEvent::ConnectionReady(line));
        }
    }

    /// Takes the task at `index` (of those that are there); `false` when there is none.
    pub(crate) fn step(&mut self, index: usize) -> bool {
        if self.tasks.is_empty() {
            return false;
        }
        let index = index % self.tasks.len();
        let Some(task) = self.tasks.remove(index) else {
            return false;
        };
        match task {
            Task::ToTarget => self.deliver_to_target(),
            Task::ToSource => self.deliver_to_source(),
            Task::Source(event) => self.give_source(event),
            Task::Target(event) => self.give_target(event),
            Task::Capture(order) => {
                let payload = self.capture(&order);
                self.give_source(SourceEvent::Captured(Ok(payload)));
            }
            Task::SourceReads => {
                let row = self.read();
                self.give_source(SourceEvent::AuthorityRead(row));
            }
            Task::TargetReads => {
                let row = self.read();
                self.give_target(TargetEvent::AuthorityRead(row));
            }
            Task::Commit => self.commit(),
        }
        true
    }

    /// Whether time may pass without a record being on its way for too long: a network is slow, but not
    /// for half a minute.
    pub(crate) fn may_wait(&self) -> bool {
        let deadlines = [self.source.next_deadline(), self.target.next_deadline()];
        let next = deadlines.into_iter().flatten().min();
        let latest = self.on_its_way_since.map(|since| clock(since + 10_000));
        match (next, latest) {
            (Some(next), Some(latest)) => next <= latest,
            (_, None) | (None, _) => true,
        }
    }

    /// Lets time pass to the next deadline; `false` when nothing waits for time.
    pub(crate) fn wait(&mut self) -> bool {
        let deadlines = [self.source.next_deadline(), self.target.next_deadline()];
        let Some(next) = deadlines.into_iter().flatten().min() else {
            return false;
        };
        let millis = u64::try_from(next.since(Monotonic::ORIGIN).as_millis()).unwrap();
        self.now = self.now.max(millis);
        let mut out = Vec::new();
        self.source.on_deadline(clock(self.now), &mut out);
        self.do_source(out);
        let mut out = Vec::new();
        self.target.on_deadline(clock(self.now), &mut out);
        self.do_target(out);
        self.check();
        true
    }

    /// Runs everything that is due now, in order.
    pub(crate) fn settle_now(&mut self) {
        while self.step(0) {}
    }

    /// Runs on until nothing waits for anything.
    pub(crate) fn settle(&mut self) {
        for _ in 0..2000 {
            self.settle_now();
            let idle = self.source.stage() == SourceStage::Unavailable && self.now > 200_000;
            if idle || !self.wait() {
                return;
            }
        }
    }

    #[expect(clippy::unnecessary_box_returns, reason = "the event takes a box")]
    fn capture(&mut self, order: &CaptureOrder) -> Box<Payload> {
        let saved = core::mem::take(&mut self.source_queue);
        let join = self.join.as_ref();
        let join = join.map(|join| join_record(note("join").source, join));
        let queue = join.into_iter().chain(saved.iter().cloned());
        let queue = queue.map(|record| QueuedWork::Record(Box::new(record)));
        let tick = self.tick.map(|name| QueuedWork::Tick(Box::new(tick(name))));
        let timers = self.tick.map(timer);
        let capture = ParticipantCapture {
            state: Some(vec![1; self.state].into()),
            queue: queue.chain(tick).collect(),
            timers: timers.into_iter().collect(),
        };
        self.source_queue = saved;
        Box::new(Payload::encode(order, &[capture]).unwrap())
    }

    fn read(&self) -> RowRead {
        if self.store == Store::Down {
            return RowRead::Unreadable;
        }
        RowRead::Row(Box::new(match self.owner {
            Owner::Source => row_of_source(),
            Owner::Target(phase) => row_of_target(1, phase),
        }))
    }

    /// The compare-and-set: only the first one finds the source's row.
    fn commit(&mut self) {
        let takes = matches!(self.store, Store::Answers | Store::LosesAnswers);
        let fits = self.owner == Owner::Source;
        if takes && fits {
            self.owner = Owner::Target(RelocationPhase::Committed);
        }
        let answer = match (self.store, fits) {
            (Store::Answers, true) => CommitAnswer::Applied {
                authority_owner_generation: AuthorityOwnerGeneration::new(42).unwrap(),
            },
            (Store::Answers, false) => CommitAnswer::NotApplied,
            (Store::LosesAnswers | Store::LosesWrites | Store::Down, _) => CommitAnswer::Unknown,
        };
        self.give_target(TargetEvent::CommitAnswered(answer));
    }

    fn give_source(&mut self, event: SourceEvent) {
        self.trace.source_event(&event);
        let mut out = Vec::new();
        self.source.on_event(clock(self.now), event, &mut out);
        self.do_source(out);
        self.check();
    }

    fn give_target(&mut self, event: TargetEvent<String>) {
        let mut out = Vec::new();
        self.target.on_event(clock(self.now), event, &mut out);
        self.do_target(out);
        self.check();
    }

    fn granted(&mut self, grants: Vec<Grant>) {
        for grant in grants {
            self.tasks.push_back(Task::Source(match grant {
                Grant::Start(_) => SourceEvent::BudgetOpen,
                Grant::Chunk(_) => SourceEvent::ChunkOpen,
            }));
        }
    }

    fn send_record(&mut self, on: ConnectionId, record: Record) -> SubmitOutcome {
        if self.line != Some(on) {
            let lost = SourceEvent::ConnectionLost(on);
            self.tasks.push_back(Task::Source(lost));
            return SubmitOutcome::FailedOrUnknown;
        }
        match &record {
            Record::RelocationData(relay) => self.relayed.push(text_of(&relay.record)),
            Record::RelocationState(_) => self.chunks += 1,
            _ => {}
        }
        self.to_target
            .push_back((on, Sent::Record(Box::new(record))));
        self.tasks.push_back(Task::ToTarget);
        SubmitOutcome::Submitted
    }

    fn deliver_to_target(&mut self) {
        let Some((connection, sent)) = self.to_target.pop_front() else {
            return;
        };
        let record = match sent {
            Sent::Record(record) => *record,
            Sent::Message(text) => return self.send_to_target(&text),
        };
        let event = match record {
            Record::RelocationPrepare(prepare) => TargetEvent::Prepare {
                connection,
                prepare,
                local: LocalCheck::Fits,
            },
            Record::RelocationState(chunk) => TargetEvent::Chunk { connection, chunk },
            Record::RelocationData(relay) => TargetEvent::Relay { connection, relay },
            Record::RelocationCutover(cutover) => TargetEvent::Cutover {
                connection,
                cutover,
            },
            other => panic!("no command of a source: {other:?}"),
        };
        self.give_target(event);
    }

    fn deliver_to_source(&mut self) {
        let Some((_, record)) = self.to_source.pop_front() else {
            return;
        };
        let event = match record {
            Record::RelocationReady(ready) => SourceEvent::Ready(ready),
            Record::RelocationFailed(failed) => SourceEvent::Failed(failed),
            other => panic!("no command of a target: {other:?}"),
        };
        self.give_source(event);
    }

    fn do_source(&mut self, effects: Vec<SourceEffect>) {
        for effect in effects {
            self.trace.source(&effect);
            self.do_one_of_source(effect);
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each effect")]
    fn do_one_of_source(&mut self, effect: SourceEffect) {
        let unit = UnitId::new(1);
        let line = self.line.unwrap_or_else(|| connection(1));
        let answer = |event| Some(Task::Source(event));
        let task = match effect {
            SourceEffect::AwaitBudget => {
                let mut grants = Vec::new();
                self.budget.want_start(unit, line, &mut grants);
                self.granted(grants);
                None
            }
            SourceEffect::AwaitChunk { charge } => {
                let mut grants = Vec::new();
                self.budget.want_chunk(unit, line, charge, &mut grants);
                self.budget.released(line, charge, &mut grants);
                self.granted(grants);
                None
            }
            SourceEffect::RefuseBinds => answer(SourceEvent::BindsRefused(Vec::new())),
            SourceEffect::RequestSeal => {
                // S0 is granted with the task, so that nothing runs in between.
                self.source_sealed = true;
                self.source_open = false;
                answer(SourceEvent::SafePoint)
            }
            SourceEffect::WithdrawSeal | SourceEffect::Reopen => {
                self.reopen();
                None
            }
            SourceEffect::Capture(order) => Some(Task::Capture(order)),
            SourceEffect::Send { connection, record } => {
                let _outcome = self.send_record(connection, *record);
                None
            }
            SourceEffect::DrainHold => {
                self.boundary = true;
                answer(SourceEvent::HoldDrained)
            }
            SourceEffect::SubmitCutover { connection, record } => {
                let outcome = self.send_record(connection, *record);
                answer(SourceEvent::CutoverSubmitted(outcome))
            }
            SourceEffect::ReadAuthority => Some(Task::SourceReads),
            SourceEffect::RestoreQueue { held } => {
                self.source_queue.extend(held);
                None
            }
            SourceEffect::FixAbort => answer(SourceEvent::AbortFixed),
            SourceEffect::ReleasePayload => {
                self.releases += 1;
                None
            }
            SourceEffect::Forward(record) => {
                let text = text_of(&record);
                self.forwarded.push(text.clone());
                if let Some(line) = self.line {
                    self.to_target.push_back((line, Sent::Message(text)));
                    Some(Task::ToTarget)
                } else {
                    self.send_to_target(&text);
                    None
                }
            }
            SourceEffect::EndRequests(requests) => {
                let ids = requests.iter().map(|request| request.reply_route.get());
                self.ended.extend(ids);
                None
            }
            SourceEffect::Dropped { records } => {
                self.dropped += records;
                None
            }
            SourceEffect::CleanUp(_) => answer(SourceEvent::CleanedUp(CleanUpOutcome::Done)),
            SourceEffect::Finished(result) => {
                self.results.push(format!("{result:?}"));
                None
            }
            SourceEffect::Diagnose(diagnostic) => {
                self.diagnostics.push(diagnostic);
                None
            }
            SourceEffect::Entered(_)
            | SourceEffect::AllowBinds
            | SourceEffect::SendToSession { .. }
            | SourceEffect::ReturnPermit
            | SourceEffect::FollowTo { .. }
            | SourceEffect::RemoveFollow
            | SourceEffect::Refused(_)
            | SourceEffect::Reached(_)
            | SourceEffect::Ignored(_) => None,
        };
        self.tasks.extend(task);
    }

    fn reopen(&mut self) {
        assert!(!self.boundary, "the source reopened behind the boundary");
        self.source_sealed = false;
        self.source_open = true;
        self.serve();
    }

    fn do_target(&mut self, effects: Vec<TargetEffect<String>>) {
        for effect in effects {
            self.trace.target(&effect);
            self.do_one_of_target(effect);
        }
    }

    fn do_one_of_target(&mut self, effect: TargetEffect<String>) {
        let task = match effect {
            TargetEffect::RegisterQueue => {
                self.diverted = true;
                None
            }
            TargetEffect::ReadAuthority => Some(Task::TargetReads),
            TargetEffect::Restore(_) => Some(Task::Target(TargetEvent::Restored(self.restore))),
            TargetEffect::Send { connection, record } => {
                self.replies += 1;
                if self.line == Some(connection) {
                    self.to_source.push_back((connection, *record));
                    Some(Task::ToSource)
                } else {
                    None
                }
            }
            TargetEffect::Commit(_) => self.commits.then_some(Task::Commit),
            TargetEffect::Merge(items) => {
                self.diverted = false;
                self.target_queue.extend(items.iter().map(text_of_item));
                None
            }
            TargetEffect::RunLifecycle(step) => {
                self.lifecycle.push(step);
                let done = TargetEvent::LifecycleEnded(LifecycleOutcome::Done);
                Some(Task::Target(done))
            }
            TargetEffect::Open(_proof) => {
                assert!(
                    matches!(self.owner, Owner::Target(_)),
                    "opened without a commit"
                );
                self.target_open = true;
                self.serve();
                None
            }
            TargetEffect::RecordActivated => {
                self.owner = Owner::Target(RelocationPhase::Activated);
                None
            }
            TargetEffect::Deliver(record) => {
                self.target_queue.push_back(text_of(&record));
                self.serve();
                None
            }
            TargetEffect::Remove { .. } => {
                self.diverted = false;
                None
            }
            TargetEffect::Diagnose(diagnostic) => {
                self.diagnostics.push(diagnostic);
                None
            }
            TargetEffect::Entered(_)
            | TargetEffect::AdmitJoin(_)
            | TargetEffect::AcceptJoin { .. }
            | TargetEffect::RefuseJoin(_)
            | TargetEffect::SendToNode { .. }
            | TargetEffect::Forward(_)
            | TargetEffect::GiveBack(_)
            | TargetEffect::Reached(_)
            | TargetEffect::Ignored(_) => None,
        };
        self.tasks.extend(task);
    }

    /// Handlers run at once wherever dispatch is open.
    fn serve(&mut self) {
        if self.source_open {
            let queue = core::mem::take(&mut self.source_queue);
            self.ran_at_source.extend(queue.iter().map(text_of));
        }
        if self.target_open {
            self.ran_at_target.extend(self.target_queue.drain(..));
        }
    }

    /// What holds after every step.
    fn check(&mut self) {
        if self.to_target.is_empty() && self.to_source.is_empty() {
            self.on_its_way_since = None;
        } else {
            let since = self.on_its_way_since.unwrap_or(self.now);
            self.on_its_way_since = Some(since);
        }
        let stages = (self.source.stage(), self.target.stage());
        if self.stages.last() != Some(&stages) {
            self.stages.push(stages);
        }
        assert!(
            !(self.source_open && self.target_open),
            "two owners at work: {stages:?}"
        );
        assert!(self.releases <= 1, "the payload was released twice");
        assert!(self.results.len() <= 1, "the operation ended twice");
        let ran = self.ran();
        let doubled = ran.iter().find(|(_, times)| **times > 1);
        assert_eq!(doubled, None, "a message ran twice");
    }

    /// How often each message ran.
    pub(crate) fn ran(&self) -> BTreeMap<&str, usize> {
        let mut ran = BTreeMap::new();
        for text in self.ran_at_source.iter().chain(&self.ran_at_target) {
            *ran.entry(text.as_str()).or_insert(0) += 1;
        }
        ran
    }
}

fn text_of_item(item: &BacklogItem<String>) -> String {
    match item {
        BacklogItem::Saved(entry) => text_of(&entry.record),
        BacklogItem::Tick(tick) => tick.timer_name.as_str().to_owned(),
        BacklogItem::Relay(record) => text_of(record),
        BacklogItem::Direct(message) => message.clone(),
    }
}
