//! A server with a handler that writes down what happens, and raw clients.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use spotlane_lane::{Engine, JobQueue, JobQueueSettings, Monotonic};
use spotlane_stream::{
    Accepted, Execution, HandlerFailure, Packet, Session, SessionHandler, SessionIds, StreamServer,
    StreamSettings,
};
use spotlane_stream_proto::{
    CloseReason, Control, Extras, FlowRule, Frame, FrameDecoder, Name, Payload, Sequence,
    SizeBound, to_bytes,
};
use spotlane_types::id::ActorId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};

/// How long anything may take on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until it is so.
pub async fn until(there: impl Fn() -> bool) {
    let wait = async {
        while !there() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("in time");
}

/// What the callbacks saw, in order.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>, Arc<Notify>);

impl Log {
    pub fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
        self.1.notify_waiters();
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub fn count(&self, text: &str) -> usize {
        self.all().iter().filter(|line| *line == text).count()
    }

    /// Waits for a line.
    pub async fn wait(&self, text: &str) {
        let there = async {
            loop {
                let changed = self.1.notified();
                if self.count(text) > 0 {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, there).await;
        assert!(waited.is_ok(), "no {text:?} in {:?}", self.all());
    }
}

/// A handler that does what the names of its packets say.
pub struct Doer {
    pub log: Log,
    /// What `stall` waits for.
    pub gate: Arc<Semaphore>,
}

impl SessionHandler for Doer {
    async fn connected(&mut self, _: &Session) -> Result<(), HandlerFailure> {
        self.log.note("connected");
        Ok(())
    }

    async fn packet(&mut self, session: &Session, packet: Packet) -> Result<(), HandlerFailure> {
        let name = packet.name().to_owned();
        let text = String::from_utf8_lossy(&packet.payload().bytes).into_owned();
        self.log.note(format!("{name} {text}"));
        match name.as_str() {
            "echo" => {
                let payload = packet.payload().clone();
                packet.reply(payload).await?;
            }
            "fail" => return Err(HandlerFailure::new("NotFound", "no such bag")),
            "panic" => panic!("asked for"),
            "twice" => {
                let mut packet = packet;
                let replier = packet.take_replier().unwrap();
                replier.reply(Payload::json("1")).await?;
                return Err(HandlerFailure::new("Rejected", "too late"));
            }
            "later" => {
                let mut packet = packet;
                let replier = packet.take_replier().unwrap();
                let gate = Arc::clone(&self.gate);
                // Owned by the test: it ends with its runtime.
                drop(tokio::runtime::Handle::current().spawn(async move {
                    gate.acquire().await.unwrap().forget();
                    let _ = replier.reply(Payload::json("2")).await;
                }));
            }
            "stall" => self.gate.acquire().await.unwrap().forget(),
            "push" => {
                let name = Name::application("pushed").unwrap();
                session.send(name, packet.payload().clone()).await?;
            }
            "pour" => {
                for _ in 0..1_000 {
                    let name = Name::application("drop").unwrap();
                    let payload = Payload::json("x".repeat(10_000));
                    if let Err(error) = session.send(name, payload).await {
                        self.log.note(format!("pour {error:?}"));
                        break;
                    }
                }
            }
            "bye" => session.close(),
            _ => {}
        }
        Ok(())
    }

    async fn replaced(&mut self, _: &Session, actor: &ActorId) -> Result<(), HandlerFailure> {
        self.log.note(format!("replaced {actor}"));
        Ok(())
    }

    async fn error(&mut self, _: &Session, text: &str) {
        self.log.note(format!("error {text}"));
    }

    async fn disconnected(&mut self, _: &Session, reason: CloseReason) {
        self.log.note(format!("disconnected {reason:?}"));
    }
}

pub struct Rig {
    pub server: StreamServer,
    pub log: Log,
    pub gate: Arc<Semaphore>,
    pub jobs: JobQueue,
    _engine: Arc<Engine>,
}

pub fn engine() -> Arc<Engine> {
    let start = tokio::time::Instant::now();
    let clock = Arc::new(move || Monotonic::from_origin(start.elapsed()));
    let workers = NonZeroUsize::new(2).unwrap();
    Arc::new(Engine::start(
        &tokio::runtime::Handle::current(),
        workers,
        clock,
    ))
}

impl Rig {
    pub async fn start(endpoint: &str) -> Self {
        Self::with(StreamSettings::new(endpoint.parse().unwrap()), 1_024).await
    }

    pub async fn with(settings: StreamSettings, jobs: u64) -> Self {
        let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
        let engine = engine();
        let jobs = JobQueue::new(JobQueueSettings::manual(jobs).unwrap());
        let execution = Execution {
            engine: &engine,
            jobs: jobs.clone(),
        };
        let factory = {
            let (log, gate) = (log.clone(), Arc::clone(&gate));
            move |_: Accepted| Doer {
                log: log.clone(),
                gate: Arc::clone(&gate),
            }
        };
        let ids = SessionIds::default();
        let server = StreamServer::start(settings, execution, ids, None, factory)
            .await
            .unwrap();
        Self {
            server,
            log,
            gate,
            jobs,
            _engine: engine,
        }
    }

    pub async fn connect(&self) -> Raw {
        let socket = TcpStream::connect(self.server.endpoint().address)
            .await
            .unwrap();
        socket.set_nodelay(true).unwrap();
        Raw {
            socket,
            decoder: FrameDecoder::new(SizeBound::None, FlowRule::Judge),
        }
    }
}

/// A client that sends whatever it likes.
pub struct Raw {
    pub socket: TcpStream,
    decoder: FrameDecoder,
}

impl Raw {
    pub async fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    pub async fn send(&mut self, name: &str, payload: &str) {
        self.write(&send(name, payload)).await;
    }

    pub async fn request(&mut self, sequence: u64, name: &str, payload: &str) {
        self.write(&request(sequence, name, payload)).await;
    }

    /// The next frame that is no heartbeat; `None` at the end of the stream.
    pub async fn frame(&mut self) -> Option<Frame> {
        let next = async {
            loop {
                while let Some(frame) = self.decoder.next_frame().unwrap() {
                    match frame {
                        Frame::Control(Control::Ping) => {
                            let pong = to_bytes(&Control::Pong.into()).unwrap();
                            let _ = self.socket.write_all(&pong).await;
                        }
                        Frame::Control(Control::Pong) => {}
                        frame => return Some(frame),
                    }
                }
                match self.socket.read_buf(self.decoder.buffer()).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, next)
            .await
            .expect("a frame or the end")
    }

    pub async fn response(&mut self) -> (u64, String) {
        match self.frame().await {
            Some(Frame::Response {
                sequence, payload, ..
            }) => (
                sequence.get(),
                String::from_utf8(payload.bytes.to_vec()).unwrap(),
            ),
            other => panic!("{other:?}"),
        }
    }

    /// What the server says last before it closes.
    pub async fn closing(&mut self) -> Option<CloseReason> {
        let mut reason = None;
        while let Some(frame) = self.frame().await {
            if let Frame::Control(Control::SessionClosing(closing)) = frame {
                reason = Some(closing.reason());
            }
        }
        reason
    }
}

pub fn send(name: &str, payload: &str) -> Bytes {
    let frame = Frame::Send {
        name: Name::application(name).unwrap(),
        payload: Payload::json(payload.to_owned()),
        extras: Extras::default(),
    };
    to_bytes(&frame).unwrap()
}

pub fn request(sequence: u64, name: &str, payload: &str) -> Bytes {
    let frame = Frame::Request {
        sequence: Sequence::new(sequence).unwrap(),
        name: Name::application(name).unwrap(),
        payload: Payload::json(payload.to_owned()),
        extras: Extras::default(),
    };
    to_bytes(&frame).unwrap()
}

pub fn joined(parts: &[Bytes]) -> BytesMut {
    parts.iter().flat_map(|part| part.iter().copied()).collect()
}
