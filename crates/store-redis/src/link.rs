//! One domain on one connection: sends scripts once, and makes sure that a read settles what a lost answer left open.
//!
//! # The fence
//! A write whose connection died may still be on its way: in a socket of the old connection, in a proxy. If it ran
//! after the caller has read and decided, the read would have settled nothing (ST-7, ST-72). So every write names a
//! fence, a key in Redis, and does nothing when that key is gone. Once an outcome is unknown, the next operation of
//! this provider, read or write, first opens a new fence and closes the old one. What had not run by then never will.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fred::clients::WithOptions;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike;
use fred::prelude::Client;
use fred::types::config::Options;
use fred::types::{ClusterHash, CustomCommand, Value};
use spotlane_store::{Failure, StoreError};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};

use crate::classify::{Effect, Fate, class, fate, is_unwritten};
use crate::connect::{Connection, is_refusal};
use crate::encode::decimal;
use crate::key::Domain;
use crate::options::{OpenError, RedisOptions};
use crate::script::{Script, Scripts};

/// How long a fence lives. A write that finds it gone is sent again under a new one, so this costs two round trips
/// each time it passes, and bounds what a process leaves behind.
const FENCE_LIFE: Duration = Duration::from_hours(1);
/// How often a write that met a closed fence is sent again: each time it certainly has not run.
const FENCE_TRIES: usize = 4;
/// How long a read waits before it is repeated.
const READ_AGAIN_WAIT: Duration = Duration::from_millis(5);
/// How long a wait for the connection goes on before the state is looked at again.
const CONNECT_LOOK: Duration = Duration::from_millis(50);

/// The answer to a script, or what kept it from running.
pub(crate) enum Sent {
    Answer(Value),
    /// The fence was closed; nothing happened.
    Fenced,
}

/// A domain and the connection to it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) domain: Domain,
    pub(crate) scripts: Scripts,
    connection: Connection,
    client: WithOptions<Client>,
    slot: u16,
    timeout: Duration,
    /// Protects the name of the fence. It is a leaf: nothing is locked and nothing awaited while it is held.
    fence: Mutex<Option<Bytes>>,
    /// Counts unknown outcomes, and which of them the fence has caught up with. The first fence is owed as well.
    unknowns: AtomicU64,
    settled: AtomicU64,
    /// Lets one caller at a time open a fence; the others wait for it instead of opening their own.
    opening: Semaphore,
    /// The connection is no good: the server is a replica, or does not answer. The next operation replaces it.
    is_spoiled: AtomicBool,
}

impl Link {
    pub(crate) fn open(options: &RedisOptions, domain: Domain) -> Result<Self, OpenError> {
        let connection = Connection::open(options)?;
        let client = connection.client.with_options(&Options {
            max_attempts: Some(1),
            fail_fast: true,
            ..Options::default()
        });
        Ok(Self {
            slot: domain.slot(),
            domain,
            scripts: Scripts::new(),
            connection,
            client,
            timeout: options.timeout(),
            fence: Mutex::new(None),
            unknowns: AtomicU64::new(1),
            settled: AtomicU64::new(0),
            opening: Semaphore::new(1),
            is_spoiled: AtomicBool::new(false),
        })
    }

    /// When an operation that begins now is out of time.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// An outcome is unknown: the next operation opens a new fence.
    pub(crate) fn mark_unknown(&self) {
        self.unknowns.fetch_add(1, Ordering::SeqCst);
    }

    /// The connection may be gone although the client has not noticed yet. It would take a write, and nobody could say
    /// whether that ran; so the next operation opens a new fence first, whose answer shows that there is a server.
    fn mark_unproven(&self) {
        self.mark_unknown();
    }

    /// The server is not the master; the next operation looks for it.
    pub(crate) fn mark_misrouted(&self) {
        self.is_spoiled.store(true, Ordering::SeqCst);
    }

    /// This connection gave no answer in time; the next operation replaces it, unless that has happened already or
    /// the client is about to.
    fn mark_silent(&self, connection: u64) {
        let is_same = self.connection.health.connects() == connection;
        if is_same && self.connection.client.is_connected() {
            self.is_spoiled.store(true, Ordering::SeqCst);
        }
    }

    fn is_settled(&self) -> bool {
        // `settled` first: it never runs ahead of `unknowns`.
        let settled = self.settled.load(Ordering::SeqCst);
        settled == self.unknowns.load(Ordering::SeqCst)
    }

    fn lock_fence(&self) -> MutexGuard<'_, Option<Bytes>> {
        self.fence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a connection and every earlier unknown outcome is final.
    ///
    /// # Errors
    /// Transient or permanent; the caller's own operation has not been sent.
    pub(crate) async fn settle(&self, deadline: Instant) -> Result<(), StoreError> {
        if !self.is_usable() {
            self.mark_unproven();
        } else if self.is_settled() {
            return Ok(());
        }
        let connection = self.connection.health.connects();
        timeout_at(deadline, self.open_fence(deadline))
            .await
            .unwrap_or_else(|_| {
                self.mark_silent(connection);
                Err(self.unreachable())
            })
    }

    async fn open_fence(&self, deadline: Instant) -> Result<(), StoreError> {
        let _one = self.opening.acquire().await.map_err(|error| {
            StoreError::Permanent(Failure::new("defect: a semaphore closed").with_source(error))
        })?;
        loop {
            self.usable().await?;
            if self.is_settled() {
                return Ok(());
            }
            let covered = self.unknowns.load(Ordering::SeqCst);
            let connection = self.connection.health.connects();
            let sequence = self.domain.sequence.clone();
            let old = self
                .lock_fence()
                .clone()
                .unwrap_or_else(|| sequence.clone());
            let life = FENCE_LIFE.as_millis().to_string();
            let arguments = [self.domain.name.clone(), Bytes::from(life)];
            match self
                .call(&self.scripts.attach, None, &[sequence, old], &arguments)
                .await
            {
                Ok(Value::Array(problem)) => return Err(refused_fence(&problem)),
                Ok(answer) => {
                    let fence = answer.into_bytes().ok_or_else(|| {
                        StoreError::permanent("defect: the fence script returned no name")
                    })?;
                    *self.lock_fence() = Some(fence);
                    // Not `unknowns`: what became unknown meanwhile needs a fence of its own.
                    self.settled.store(covered, Ordering::SeqCst);
                }
                Err(error) => {
                    self.note(&error, connection);
                    self.again_or(fence_error(error), deadline).await?;
                }
            }
        }
    }

    /// The fence that is open now, as far as is known.
    ///
    /// Whoever sends for others takes it first and asks then whether they still wait. One that leaves later marks an
    /// unknown outcome, which closes this fence, so its write cannot run behind its back.
    pub(crate) fn fence(&self) -> Bytes {
        self.lock_fence().clone().unwrap_or_default()
    }

    /// Sends a script that writes, once, under this fence, which becomes its first key.
    ///
    /// # Errors
    /// Indeterminate when it may have run; every other class says that it has not (ST-7).
    pub(crate) async fn send_write(
        &self,
        script: &Script,
        fence: Bytes,
        keys: &[Bytes],
        arguments: &[Bytes],
        deadline: Instant,
    ) -> Result<Sent, StoreError> {
        // From here on a dropped future leaves an unknown outcome behind.
        let mut unknown = MarkUnknown {
            link: self,
            is_armed: true,
        };
        let connection = self.connection.health.connects();
        let call = self.call(script, Some(&fence), keys, arguments);
        let Ok(answer) = timeout_at(deadline, call).await else {
            self.mark_silent(connection);
            return Err(StoreError::indeterminate(
                "no answer within the operation timeout",
            ));
        };
        match answer {
            Ok(Value::String(text)) if &*text == "FENCED" => {
                // The mark stays armed: whatever closed the fence, a new one is needed.
                Ok(Sent::Fenced)
            }
            Ok(Value::Bytes(text)) if text.as_ref() == b"FENCED" => Ok(Sent::Fenced),
            Ok(answer) => {
                unknown.is_armed = false;
                Ok(Sent::Answer(answer))
            }
            Err(error) => {
                self.note(&error, connection);
                let fate = fate(&error, Effect::Changes);
                unknown.is_armed = fate == Fate::Unknown;
                Err(class(fate, Effect::Changes, describe(script, error)))
            }
        }
    }

    /// Sends a script that writes and repeats it while it certainly has not run.
    ///
    /// # Errors
    /// As [`Link::send_write`].
    pub(crate) async fn write(
        &self,
        script: &Script,
        keys: &[Bytes],
        arguments: &[Bytes],
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        for _ in 0..FENCE_TRIES {
            self.settle(deadline).await?;
            let sent = self
                .send_write(script, self.fence(), keys, arguments, deadline)
                .await?;
            if let Sent::Answer(answer) = sent {
                return Ok(answer);
            }
        }
        Err(too_often_fenced())
    }

    /// Sends a script that changes nothing a caller can see, and repeats it within the deadline (ST-36).
    ///
    /// # Errors
    /// Transient or permanent.
    pub(crate) async fn read(
        &self,
        script: &Script,
        keys: &[Bytes],
        arguments: &[Bytes],
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        loop {
            self.settle(deadline).await?;
            let connection = self.connection.health.connects();
            let call = self.call(script, None, keys, arguments);
            let Ok(answer) = timeout_at(deadline, call).await else {
                self.mark_silent(connection);
                return Err(StoreError::transient(
                    "no answer within the operation timeout",
                ));
            };
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            self.note(&error, connection);
            let fate = fate(&error, Effect::None);
            self.again_or(class(fate, Effect::None, describe(script, error)), deadline)
                .await?;
        }
    }

    /// Waits a moment when the error is one that passes and there is time left, else returns it.
    async fn again_or(&self, error: StoreError, deadline: Instant) -> Result<(), StoreError> {
        let again = Instant::now() + READ_AGAIN_WAIT;
        if !matches!(error, StoreError::Transient(_)) || again >= deadline {
            return Err(error);
        }
        sleep(READ_AGAIN_WAIT).await;
        Ok(())
    }

    /// ST-33: EVALSHA, and EVAL when the server has forgotten the script; NOSCRIPT says that nothing ran.
    ///
    /// A fence goes before the keys.
    async fn call(
        &self,
        script: &Script,
        fence: Option<&Bytes>,
        keys: &[Bytes],
        arguments: &[Bytes],
    ) -> Result<Value, Error> {
        let parts = |name: &Bytes| {
            let count = decimal(keys.len() + usize::from(fence.is_some()));
            let mut parts = Vec::with_capacity(keys.len() + arguments.len() + 3);
            let head = [name.clone(), count].into_iter().chain(fence.cloned());
            parts.extend(head.map(Value::Bytes));
            parts.extend(keys.iter().chain(arguments).cloned().map(Value::Bytes));
            parts
        };
        match self.evaluate("EVALSHA", parts(&script.sha)).await {
            Err(error) if fate(&error, Effect::Changes) == Fate::NoScript => {
                self.evaluate("EVAL", parts(&script.source)).await
            }
            answer => answer,
        }
    }

    async fn evaluate(&self, command: &'static str, parts: Vec<Value>) -> Result<Value, Error> {
        // All keys are of one domain and so of one slot; fred need not hash them.
        let command = CustomCommand::new_static(command, ClusterHash::Custom(self.slot), false);
        self.client.custom(command, parts).await
    }

    fn is_usable(&self) -> bool {
        self.connection.client.is_connected()
            && self.connection.health.is_well()
            && !self.is_spoiled.load(Ordering::SeqCst)
    }

    /// Waits until there is a connection. The caller bounds the time.
    async fn usable(&self) -> Result<(), StoreError> {
        // Taken back first: a caller that gives up waiting has asked for the new connection all the same.
        // Without a connection the client is looking for one anyway; orders to do so would pile up before it.
        let is_spoiled = self.is_spoiled.swap(false, Ordering::SeqCst);
        if is_spoiled && self.connection.client.is_connected() {
            let replaced = self.connection.client.force_reconnection().await;
            replaced.map_err(|error| StoreError::Transient(reconnect_failure(error)))?;
        }
        if !self.connection.health.is_well() {
            self.connection.health.recover().await;
        }
        while !self.connection.client.is_connected() {
            let connected = self.connection.client.wait_for_connect();
            // The state is looked at again in any case, so a missed event costs a moment only.
            drop(tokio::time::timeout(CONNECT_LOOK, connected).await);
        }
        Ok(())
    }

    fn unreachable(&self) -> StoreError {
        let fault = self.connection.health.fault();
        let is_final = fault.as_ref().is_some_and(is_refusal);
        let mut failure =
            Failure::new("no connection within the operation timeout, nothing was sent");
        if let Some(cause) = fault {
            failure = failure.with_source(cause);
        }
        if is_final {
            StoreError::Permanent(failure)
        } else {
            StoreError::Transient(failure)
        }
    }

    fn note(&self, error: &Error, connection: u64) {
        let text = error.details();
        if text.starts_with("READONLY") || text.starts_with("MASTERDOWN") {
            self.mark_misrouted();
        }
        if *error.kind() == ErrorKind::Timeout {
            self.mark_silent(connection);
        }
        if is_unwritten(error) {
            self.mark_unproven();
        }
    }
}

pub(crate) fn too_often_fenced() -> StoreError {
    StoreError::transient("the fence was closed each time, nothing happened")
}

fn describe(script: &Script, error: Error) -> Failure {
    Failure::new(format!("script {} failed", script.name)).with_source(error)
}

fn reconnect_failure(error: Error) -> Failure {
    Failure::new("the connection had to be replaced, and was not").with_source(error)
}

/// Nothing of the caller's was sent, so there is no unknown outcome here; a missing permission will stay missing.
fn fence_error(error: Error) -> StoreError {
    let is_denied = error.details().contains("NOPERM") || error.details().contains("ACL failure");
    let fate = if is_denied {
        Fate::Refused
    } else {
        fate(&error, Effect::None)
    };
    let failure = Failure::new("no fence could be opened, nothing was sent").with_source(error);
    class(fate, Effect::None, failure)
}

fn refused_fence(problem: &[Value]) -> StoreError {
    let text = problem
        .first()
        .and_then(Value::as_string)
        .unwrap_or_default();
    crate::classify::returned(&text, "")
}

/// Marks an unknown outcome unless it is told that the outcome is known; also when the future is dropped.
struct MarkUnknown<'a> {
    link: &'a Link,
    is_armed: bool,
}

impl Drop for MarkUnknown<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.link.mark_unknown();
        }
    }
}
