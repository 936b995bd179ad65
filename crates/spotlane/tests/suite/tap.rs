//! What hosts say to each other, read from the bytes between them.

use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use spotlane_mesh_proto::zmp::{
    Assembler, Decoder, Edition, Expect, Frames, Hello, Lane, Message, Sequence,
};
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::Record;

use crate::proxy::Way;

/// Hears all connections of some proxies.
#[derive(Clone, Default)]
pub(crate) struct Tap(Arc<Mutex<Vec<Heard>>>);

/// One connection, from who dialled and from who listens.
#[derive(Default)]
struct Heard {
    dialler: BytesMut,
    listener: BytesMut,
}

/// How a record travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    OneWay,
    /// The number that ties its answer to it.
    Request(Sequence),
    Answer(Sequence),
}

/// A record between two hosts.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) form: Form,
    /// The command byte as it stands in the head (WR-1).
    pub(crate) command: u8,
    pub(crate) frames: Frames,
}

impl Said {
    /// The record. `asked` is what an answer is to.
    pub(crate) fn record(&self, asked: MeshOperationKind) -> Record {
        Record::decode(&self.frames, asked).unwrap()
    }
}

impl Tap {
    pub(crate) fn connection(&self) -> usize {
        let mut all = self.0.lock().unwrap();
        all.push(Heard::default());
        all.len() - 1
    }

    pub(crate) fn hears(&self, connection: usize, way: Way, bytes: &[u8]) {
        let heard = &mut self.0.lock().unwrap()[connection];
        match way {
            Way::In => heard.dialler.extend_from_slice(bytes),
            Way::Out => heard.listener.extend_from_slice(bytes),
        }
    }

    /// All records so far, in their order on each connection.
    pub(crate) fn said(&self) -> Vec<Said> {
        let all = self.0.lock().unwrap();
        let mut said = Vec::new();
        for heard in all.iter() {
            let ways = [&heard.dialler, &heard.listener];
            let [one, other] = ways.map(|bytes| read(bytes.clone().freeze()));
            let (Some(one), Some(other)) = (one, other) else {
                continue;
            };
            said.extend(one.records(&other.name));
            said.extend(other.records(&one.name));
        }
        said
    }
}

/// One direction.
struct Direction {
    name: String,
    messages: Vec<Frames>,
}

/// `None` when there is not even a HELLO.
fn read(mut bytes: Bytes) -> Option<Direction> {
    let mut decoder = Decoder::new(Edition::E1, u32::MAX);
    let hello = decoder.next(Expect::Hello, &mut bytes).unwrap()?;
    let id = Hello::parse(&hello.body).unwrap().id.unwrap();
    let name = String::from_utf8_lossy(id.as_bytes()).into_owned();
    let mut messages = Vec::new();
    let mut assembler = Assembler::default();
    loop {
        let expect = if assembler.is_inside_message() {
            Expect::More(assembler.bytes())
        } else {
            Expect::Any
        };
        let Some(frame) = decoder.next(expect, &mut bytes).unwrap() else {
            break;
        };
        // READY and what else controls the connection.
        if frame.flags.is_data()
            && let Some((_, frames)) = assembler.push(frame).unwrap()
        {
            messages.push(frames);
        }
    }
    Some(Direction { name, messages })
}

impl Direction {
    fn records(&self, to: &str) -> Vec<Said> {
        let each = self.messages.iter();
        let said = each.filter_map(|frames| {
            let on = |lane| Message::classify(lane, frames.clone());
            let (form, frames) = match (on(Lane::Application), on(Lane::Completion)) {
                (Message::Request { sequence, payload }, _) => (Form::Request(sequence), payload),
                (_, Message::Reply { sequence, payload }) => (Form::Answer(sequence), payload),
                (_, Message::CompletionControl(frames))
                | (Message::Plain(frames), Message::Misplaced) => (Form::OneWay, frames),
                other => panic!("{other:?}"),
            };
            // Other profiles of a link say nothing of Actors.
            let command = match frames.first().map(|head| &head[..]) {
                Some([b'Z', b'M', 1, command, ..]) => *command,
                _ => return None,
            };
            Some(Said {
                from: self.name.clone(),
                to: to.to_owned(),
                form,
                command,
                frames,
            })
        });
        said.collect()
    }
}
