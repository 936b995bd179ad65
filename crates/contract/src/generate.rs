//! Random valid values: every case, boundary sizes and numbers, and the rules kept.

use serde_json::{Map, Value, json};

use crate::decode::{Env, is_present, outer_discriminators};
use crate::model::{
    BlobShape, Contract, FLAG_METADATA, FLAGS, Field, Fields, IntShape, ListShape, PayloadRule,
    Shape, TypeId, UnionShape,
};
use crate::plan::{Preset, Presets, plan};
use crate::rng::Rng;
use crate::rules::Rule;
use crate::standalone::MULTIPART;
use crate::value::{enum_to_json, number_to_json, to_hex};

/// A record and the kind of the pending operation under which it is legal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GeneratedRecord {
    /// The record in its JSON form.
    pub value: Value,
    /// What to pass as `pending`.
    pub pending: Option<String>,
}

/// Makes random valid values; the same seed makes the same values.
#[derive(Debug)]
pub struct Generator<'a> {
    contract: &'a Contract,
    rng: Rng,
}

/// Sizes above this are rare.
const USUAL_BYTES: u64 = 24;
/// Sizes never go above this, so that a value stays small enough for thousands of them.
const MOST_BYTES: u64 = 70_000;

impl<'a> Generator<'a> {
    /// Starts from a seed.
    pub fn new(contract: &'a Contract, seed: u64) -> Self {
        Self {
            contract,
            rng: Rng::new(seed),
        }
    }

    /// A record of the command with this id; `None` when there is no such command.
    pub fn record(&mut self, id: u8) -> Option<GeneratedRecord> {
        let contract = self.contract;
        let command = contract.commands.get(&id)?;
        let mut flags = 0;
        for (_, bit) in FLAGS {
            if command.flags & bit != 0 && self.rng.one_in(2) {
                flags |= bit;
            }
        }
        for pair in &command.pairs {
            // WR-2: all bits of the pair or none; the first one decides.
            let is_set = flags & (pair & pair.wrapping_neg()) != 0;
            flags = if is_set { flags | pair } else { flags & !pair };
        }
        let mut pending = None;
        let mut env = Env { flags, pending: 0 };
        if let Some(kinds) = contract.pending.and_then(|id| contract.enum_shape(id))
            && self.rng.one_in(8)
        {
            // The kind must not matter to any other command.
            let (name, number) = self.rng.pick(&kinds.members);
            (pending, env.pending) = (Some(name.clone()), *number);
        }
        if let Some(kinds) = contract.pending.and_then(|id| contract.enum_shape(id))
            && command
                .body
                .fields
                .iter()
                .any(|field| !field.sources.is_empty())
        {
            let (name, number) = self.rng.pick(&kinds.members);
            (pending, env.pending) = (Some(name.clone()), *number);
        }
        let mut presets = Presets::new();
        for rule in &command.rules {
            plan(*rule, &mut self.rng, &mut presets);
        }
        let forbids_payload = presets.contains_key("hasPayload");
        let mut body = Map::new();
        self.fields(&command.body, presets, env, &mut body);
        let has_payload = match command.payload {
            PayloadRule::Required => true,
            PayloadRule::Optional => !forbids_payload && self.rng.one_in(2),
            PayloadRule::Forbidden => false,
        };
        let mut part = |id: Option<TypeId>, is_there: bool| match id {
            Some(id) if is_there => self.value(id, Presets::new(), &[]),
            _ => Value::Null,
        };
        let metadata = part(contract.metadata, flags & FLAG_METADATA != 0);
        let payload = part(contract.payload, has_payload);
        let value = json!({
            "command": id,
            "name": command.name,
            "flags": flags,
            "body": body,
            "metadata": metadata,
            "payload": payload,
        });
        Some(GeneratedRecord { value, pending })
    }

    /// A value of a standalone type; `None` when there is no such name.
    pub fn standalone(&mut self, name: &str) -> Option<Value> {
        if name == MULTIPART {
            let count = 1 + self.rng.below(4);
            let blob = BlobShape {
                is_text: false,
                prefix: crate::model::Encoding::U32,
                min: 0,
                max: MOST_BYTES,
            };
            let parts: Vec<Value> = (0..count).map(|_| self.blob(&blob)).collect();
            return Some(json!({ "parts": parts }));
        }
        let id = self.contract.generated_type(name)?;
        Some(self.value(id, Presets::new(), &[]))
    }

    fn value(&mut self, id: TypeId, presets: Presets, outer: &[u64]) -> Value {
        let contract = self.contract;
        match contract.shape(id) {
            Shape::Int(shape) => {
                let number = self.number(shape.min, shape.max);
                number_to_json(shape.encoding, number)
            }
            Shape::Enum(shape) => {
                let (_, number) = self.rng.pick(&shape.members);
                enum_to_json(shape, *number).unwrap_or_default()
            }
            Shape::Blob(shape) => self.blob(shape),
            Shape::Fixed(size) => Value::String(self.hex(*size)),
            Shape::Struct(fields) => {
                let mut map = Map::new();
                self.fields(fields, presets, Env::default(), &mut map);
                Value::Object(map)
            }
            Shape::Union(shape) => self.union(shape, presets, outer),
            Shape::Envelope(shape) => {
                let mut map = Map::new();
                self.fields(&shape.fields, presets, Env::default(), &mut map);
                Value::Object(map)
            }
            Shape::List(shape) if shape.is_envelope => self.envelope_list(id, shape),
            Shape::List(shape) => self.vector(shape),
            Shape::Tlv(shape) => {
                let mut map = Map::new();
                for entry in &shape.entries {
                    if entry.is_required || self.rng.one_in(2) {
                        let value = self.field(&entry.field, Presets::new(), &[]);
                        map.insert(entry.field.name.clone(), value);
                    }
                }
                Value::Object(map)
            }
        }
    }

    fn fields(
        &mut self,
        fields: &Fields,
        mut presets: Presets,
        env: Env,
        map: &mut Map<String, Value>,
    ) {
        for rule in &fields.rules {
            plan(*rule, &mut self.rng, &mut presets);
        }
        let mut scalars = Vec::new();
        for field in &fields.fields {
            if !is_present(field, &scalars, env) {
                scalars.push(0);
                continue;
            }
            let outer = outer_discriminators(field, &scalars, env);
            let value = match presets.remove(field.name.as_str()) {
                Some(Preset::Exactly(value)) => value,
                Some(Preset::Inside(inner)) => self.field(field, inner, &outer),
                None => self.field(field, Presets::new(), &outer),
            };
            scalars.push(
                self.contract
                    .scalar(field.type_id, &value)
                    .unwrap_or_default(),
            );
            map.insert(field.name.clone(), value);
        }
        for rule in &fields.rules {
            mend(*rule, map);
        }
    }

    fn field(&mut self, field: &Field, presets: Presets, outer: &[u64]) -> Value {
        match (
            self.contract.shape(field.type_id),
            field.range,
            field.constant,
        ) {
            (Shape::Int(IntShape { encoding, .. }), _, Some(constant)) => {
                number_to_json(*encoding, constant)
            }
            (Shape::Enum(shape), _, Some(constant)) => {
                enum_to_json(shape, constant).unwrap_or_default()
            }
            (Shape::Int(IntShape { encoding, .. }), Some((min, max)), None) => {
                number_to_json(*encoding, self.number(min, max))
            }
            _ => self.value(field.type_id, presets, outer),
        }
    }

    fn union(&mut self, shape: &UnionShape, mut presets: Presets, outer: &[u64]) -> Value {
        let mut map = Map::new();
        let mut outer = outer.iter();
        let mut values = Vec::new();
        for discriminator in &shape.discriminators {
            if !discriminator.is_on_wire {
                values.push(outer.next().copied().unwrap_or_default());
                continue;
            }
            let value = match presets.remove(discriminator.name.as_str()) {
                Some(Preset::Exactly(value)) => value,
                _ => self.value(discriminator.type_id, Presets::new(), &[]),
            };
            values.push(
                self.contract
                    .scalar(discriminator.type_id, &value)
                    .unwrap_or_default(),
            );
            map.insert(discriminator.name.clone(), value);
        }
        if let Some(case) = shape.case(&values) {
            self.fields(&case.fields, presets, Env::default(), &mut map);
        }
        Value::Object(map)
    }

    fn vector(&mut self, shape: &ListShape) -> Value {
        let usual = if self.rng.one_in(64) { 40 } else { 4 };
        let count = self.number(0, shape.max.min(usual));
        let mut elements = Vec::new();
        for _ in 0..count {
            let element = self.value(shape.element, Presets::new(), &[]);
            elements.push((self.contract.key_of(shape, &element), element));
        }
        if shape.is_sorted {
            elements.sort_by(|a, b| a.0.cmp(&b.0));
        }
        if shape.is_unique {
            elements.dedup_by(|a, b| a.0 == b.0);
        }
        elements.into_iter().map(|(_, element)| element).collect()
    }

    /// Elements with different keys while they fit into the bytes that are allowed, sometimes
    /// filled up to the last one.
    fn envelope_list(&mut self, id: TypeId, shape: &ListShape) -> Value {
        let mut elements: Vec<Value> = Vec::new();
        for _ in 0..self.rng.within(0, 5) {
            let element = self.value(shape.element, Presets::new(), &[]);
            let key = self.contract.key_of(shape, &element);
            if elements
                .iter()
                .any(|other| self.contract.key_of(shape, other) == key)
            {
                continue;
            }
            elements.push(element);
            if self
                .encoded_bytes(id, &elements)
                .is_none_or(|bytes| bytes > shape.max)
            {
                elements.pop();
            }
        }
        let room = self
            .encoded_bytes(id, &elements)
            .map(|bytes| shape.max.saturating_sub(bytes));
        if self.rng.one_in(16)
            && let Some(room) = room.and_then(|room| usize::try_from(room).ok())
            && let Some(Value::String(text)) = elements.last_mut().and_then(|e| e.get_mut("value"))
        {
            text.push_str(&"x".repeat(room));
        }
        Value::Array(elements)
    }

    fn encoded_bytes(&self, id: TypeId, elements: &[Value]) -> Option<u64> {
        let mut bytes = Vec::new();
        self.contract
            .write(&mut bytes, id, &Value::from(elements.to_vec()), &[])
            .ok()?;
        u64::try_from(bytes.len()).ok()
    }
}

/// Scalars.
impl Generator<'_> {
    fn number(&mut self, min: u64, max: u64) -> u64 {
        match self.rng.below(8) {
            0 => min,
            1 => max,
            2 => min.saturating_add(1).min(max),
            3 => max.saturating_sub(1).max(min),
            4 => self.rng.within(min, max),
            _ => self.rng.within(min, max.min(min.saturating_add(20))),
        }
    }

    fn blob(&mut self, shape: &BlobShape) -> Value {
        let max = shape.max.min(MOST_BYTES).max(shape.min);
        let usual = max.min(shape.min.saturating_add(USUAL_BYTES));
        let size = match self.rng.below(16) {
            0 => shape.min,
            // The largest sizes cost time, so they come the more seldom the larger they are.
            1 if max <= 255 || self.rng.one_in(if max <= 4096 { 8 } else { 64 }) => max,
            _ => self.rng.within(shape.min, usual),
        };
        let size = usize::try_from(size).unwrap_or_default();
        Value::String(if shape.is_text {
            self.text(size)
        } else {
            self.hex(size)
        })
    }

    fn hex(&mut self, size: usize) -> String {
        let bytes: Vec<u8> = (0..size).map(|_| self.rng.byte()).collect();
        to_hex(&bytes)
    }

    /// Text of exactly so many bytes, with characters of one to four bytes.
    fn text(&mut self, size: usize) -> String {
        let letters = ['a', 'b', 'Z', '0', '-', ':', ' ', '\u{1}', '\u{7f}'];
        let others = ['é', 'ß', '한', '語', '\u{ffff}', '😀', '\u{10ffff}'];
        let is_plain = self.rng.one_in(2);
        let mut text = String::with_capacity(size);
        while text.len() < size {
            let other = *self.rng.pick(&others);
            let fits = text.len() + other.len_utf8() <= size;
            let is_other = fits && !is_plain && self.rng.one_in(3);
            text.push(if is_other {
                other
            } else {
                *self.rng.pick(&letters)
            });
        }
        text
    }
}

/// Repairs what a rule forbids where no other field depends on it.
fn mend(rule: Rule, map: &mut Map<String, Value>) {
    match rule {
        Rule::NotBothZero if map.values().all(|word| word == "0") => {
            map.insert("low".to_owned(), json!("1"));
        }
        Rule::RelocationEnvelope => {
            let place = |entry: &Value| (entry["participantId"].clone(), entry["order"].clone());
            let saved = map.get("savedWork").and_then(Value::as_array);
            let saved: Vec<_> = saved.into_iter().flatten().map(place).collect();
            if let Some(Value::Array(ticks)) = map.get_mut("pendingTimerTicks") {
                ticks.retain(|tick| !saved.contains(&place(tick)));
            }
        }
        _ => {}
    }
}
