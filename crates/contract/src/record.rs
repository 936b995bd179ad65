//! Whole records: head frame, metadata frame, payload frame.

use serde_json::{Map, Value, json};

use crate::cursor::Cursor;
use crate::decode::Env;
use crate::model::{Command, Contract, FLAG_METADATA, PayloadRule, TypeId};
use crate::refusal::{Fault, Kind, Refusal};

/// The first bytes of every head frame; the third is the major version.
const MAGIC: [u8; 3] = [0x5a, 0x4d, 0x01];
/// Magic, version, command and flags.
const HEAD_BYTES: usize = 5;

impl Contract {
    /// Reads a record in the order of docs/decoding.md. `pending` is the kind of the pending
    /// operation (`None` for none), on which the tail of command 20 depends.
    ///
    /// # Errors
    ///
    /// The first check that fails, see [`Kind`]. A `pending` that the contract does not know is an
    /// invalid field `pending`.
    pub fn decode_record(
        &self,
        frames: &[Vec<u8>],
        pending: Option<&str>,
    ) -> Result<Value, Refusal> {
        let Some(head) = frames.first() else {
            return Err(Refusal::new(Kind::FrameCount, "", ""));
        };
        let wrong = head
            .iter()
            .zip(MAGIC)
            .position(|(found, wanted)| *found != wanted);
        if let Some(offset) = wrong {
            let field = if offset < 2 { "magic" } else { "major" };
            return Err(Refusal::new(Kind::InvalidField, "", field).at(0, offset));
        }
        let (&[_, _, _, id, flags], body) = head
            .split_first_chunk::<HEAD_BYTES>()
            .ok_or_else(|| Refusal::new(Kind::TruncatedField, "", "head").at(0, head.len()))?;
        let Some(command) = self.commands.get(&id) else {
            return Err(Refusal::new(Kind::UnknownCommand, "", "command").at(0, 3));
        };
        let name = command.name.as_str();
        if !flags_are_legal(command, flags) {
            return Err(Refusal::new(Kind::InvalidFlags, name, "flags").at(0, 4));
        }
        let has_metadata = flags & FLAG_METADATA != 0;
        let least = 1 + usize::from(has_metadata);
        let has_payload = frames.len() > least;
        let fits = match command.payload {
            PayloadRule::Required => frames.len() == least + 1,
            PayloadRule::Optional => frames.len() == least || frames.len() == least + 1,
            PayloadRule::Forbidden => frames.len() == least,
        };
        if !fits {
            return Err(Refusal::new(Kind::FrameCount, name, ""));
        }
        let env = Env {
            flags,
            pending: self.pending_number(pending, name)?,
        };
        let mut cursor = Cursor::new(head, head.len() - body.len());
        let mut map = Map::new();
        self.read_fields(&mut cursor, &command.body, env, &mut map)
            .and_then(|()| at_end(&cursor))
            .map_err(|fault| fault.into_refusal(name, 0))?;
        let frame = |index: usize, id: Option<TypeId>, part: &str| match id {
            Some(id) => self
                .read_whole(&frames[index], id)
                .map_err(|fault| fault.within(part).into_refusal(name, index)),
            None => Ok(Value::Null),
        };
        let metadata_type = self.metadata.filter(|_| has_metadata);
        let metadata = frame(1, metadata_type, "metadata")?;
        let payload = frame(least, self.payload.filter(|_| has_payload), "payload")?;
        for rule in &command.rules {
            if let Err(field) = rule.check(&map, has_payload) {
                return Err(Refusal::new(Kind::InvalidField, name, field).at(0, HEAD_BYTES));
            }
        }
        Ok(json!({
            "command": id,
            "name": name,
            "flags": flags,
            "body": map,
            "metadata": metadata,
            "payload": payload,
        }))
    }

    /// Writes the frames of a record.
    ///
    /// # Errors
    ///
    /// The JSON form has not exactly the members and types it must have (invalid field), or the
    /// frames would not decode to the same value again.
    pub fn encode_record(
        &self,
        record: &Value,
        pending: Option<&str>,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        let frames = self.write_record(record, pending)?;
        if self.decode_record(&frames, pending)? == *record {
            Ok(frames)
        } else {
            Err(Refusal::new(Kind::InvalidField, "", "name"))
        }
    }

    fn write_record(&self, record: &Value, pending: Option<&str>) -> Result<Vec<Vec<u8>>, Refusal> {
        let invalid = |field: &str| Refusal::new(Kind::InvalidField, "", field);
        let members = ["command", "name", "flags", "body", "metadata", "payload"];
        let object = record.as_object().ok_or_else(|| invalid(""))?;
        if object.len() != members.len() {
            return Err(invalid(""));
        }
        let member = |name: &str| object.get(name).ok_or_else(|| invalid(name));
        let byte = |name: &str| -> Result<u8, Refusal> {
            let number = member(name)?
                .as_u64()
                .and_then(|number| u8::try_from(number).ok());
            number.ok_or_else(|| invalid(name))
        };
        let (id, flags) = (byte("command")?, byte("flags")?);
        let command = self
            .commands
            .get(&id)
            .ok_or_else(|| Refusal::new(Kind::UnknownCommand, "", "command"))?;
        let name = command.name.as_str();
        let env = Env {
            flags,
            pending: self.pending_number(pending, name)?,
        };
        let mut head = MAGIC.to_vec();
        head.extend([id, flags]);
        let body = member("body")?.as_object().ok_or_else(|| invalid("body"))?;
        self.write_fields(&mut head, &command.body, body, 0, env)
            .map_err(|fault| fault.into_refusal(name, 0))?;
        let mut frames = vec![head];
        for (part, id) in [("metadata", self.metadata), ("payload", self.payload)] {
            let value = member(part)?;
            // A flag that promises another frame than there is shows when the frames are decoded.
            if !value.is_null() {
                let mut frame = Vec::new();
                let id = id.ok_or_else(|| invalid(part))?;
                self.write(&mut frame, id, value, &[])
                    .map_err(|fault| fault.within(part).into_refusal(name, frames.len()))?;
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    fn pending_number(&self, pending: Option<&str>, record: &str) -> Result<u64, Refusal> {
        let Some(name) = pending else { return Ok(0) };
        let known = self.pending.and_then(|id| self.enum_shape(id));
        known
            .and_then(|shape| shape.value_of(name))
            .ok_or_else(|| Refusal::new(Kind::InvalidField, record, "pending"))
    }

    /// Reads a value that fills a frame or stands alone.
    pub(crate) fn read_whole(&self, bytes: &[u8], id: TypeId) -> Result<Value, Fault> {
        let mut cursor = Cursor::new(bytes, 0);
        let slot = self.read(&mut cursor, id, &[])?;
        at_end(&cursor)?;
        Ok(slot.value)
    }
}

fn flags_are_legal(command: &Command, flags: u8) -> bool {
    let are_listed = flags & !command.flags == 0;
    let pairs_fit = |pair: &u8| matches!(flags & pair, 0) || flags & pair == *pair;
    are_listed && command.pairs.iter().all(pairs_fit)
}

pub(crate) fn at_end(cursor: &Cursor<'_>) -> Result<(), Fault> {
    if cursor.remaining() == 0 {
        Ok(())
    } else {
        Err(Fault::new(Kind::TrailingByte, cursor.at()))
    }
}
