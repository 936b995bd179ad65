//! The least size of every type, which bounds how many elements a count may announce (WR-4).

use crate::model::{Encoding, Fields, Shape, TypeDef, TypeId};
use crate::parser::ParseError;
use crate::resolve::Resolved;

/// Computes sizes depth first, and finds types that contain themselves on the way.
pub(crate) struct Least<'a> {
    types: &'a [TypeDef],
    lines: &'a [usize],
    states: Vec<State>,
}

#[derive(Clone, Copy)]
enum State {
    New,
    Open,
    Done(usize),
}

impl<'a> Least<'a> {
    /// Sets [`TypeDef::least`] of every type.
    pub(crate) fn fill(types: &mut [TypeDef], lines: &'a [usize]) -> Resolved<()> {
        let mut sizes = Vec::new();
        let mut least = Least {
            types,
            lines,
            states: vec![State::New; types.len()],
        };
        for id in 0..least.types.len() {
            sizes.push(least.of(id)?);
        }
        for (def, size) in types.iter_mut().zip(sizes) {
            def.least = size;
        }
        Ok(())
    }

    fn of(&mut self, id: TypeId) -> Resolved<usize> {
        match self.states[id] {
            State::Done(size) => return Ok(size),
            State::Open => return Err(ParseError::new(self.lines[id], "contains itself")),
            State::New => self.states[id] = State::Open,
        }
        let types = self.types;
        let size = match &types[id].shape {
            Shape::Int(shape) => shape.encoding.size(),
            Shape::Enum(shape) => shape.encoding.size(),
            Shape::Blob(shape) => shape
                .prefix
                .size()
                .saturating_add(usize::try_from(shape.min).unwrap_or(usize::MAX)),
            Shape::Fixed(size) => *size,
            Shape::Struct(fields) => self.fields(fields)?,
            Shape::Union(shape) => {
                let mut size = shape.prefix.map_or(0, Encoding::size);
                for discriminator in &shape.discriminators {
                    let own = self.of(discriminator.type_id)?;
                    size += if discriminator.is_on_wire { own } else { 0 };
                }
                let mut cases = Vec::new();
                for case in &shape.cases {
                    cases.push(self.fields(&case.fields)?);
                }
                size.saturating_add(cases.into_iter().min().unwrap_or(0))
            }
            Shape::Envelope(shape) => {
                let fields = self.fields(&shape.fields)?;
                fields.saturating_add(1 + shape.prefix.size())
            }
            Shape::List(shape) => {
                self.of(shape.element)?;
                usize::from(shape.is_envelope) + shape.count.size()
            }
            Shape::Tlv(shape) => {
                let mut size = shape.total.size();
                for entry in &shape.entries {
                    let own = self.of(entry.field.type_id)? + shape.id.size() + shape.length.size();
                    size += if entry.is_required { own } else { 0 };
                }
                size
            }
        };
        self.states[id] = State::Done(size);
        Ok(size)
    }

    fn fields(&mut self, fields: &Fields) -> Resolved<usize> {
        let mut size = 0_usize;
        for field in &fields.fields {
            let own = self.of(field.type_id)?;
            if field.condition.is_none() {
                size = size.saturating_add(own);
            }
        }
        Ok(size)
    }
}
