//! The contract with every name resolved to an index.

use std::collections::BTreeMap;

use crate::rules::Rule;

/// Index into [`Contract::types`].
pub(crate) type TypeId = usize;

/// How an integer stands on the wire; all are big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    U8,
    U16,
    U32,
    U64,
    I64,
}

impl Encoding {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "i64" => Self::I64,
            _ => return None,
        })
    }

    /// Number of bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::U32 => 4,
            Self::U64 | Self::I64 => 8,
        }
    }

    /// Largest value. The contract has no negative values: an `i64` with its top bit set reads as
    /// a number above this one, which no range allows.
    pub(crate) fn max(self) -> u64 {
        match self {
            Self::U8 => u64::from(u8::MAX),
            Self::U16 => u64::from(u16::MAX),
            Self::U32 => u64::from(u32::MAX),
            Self::U64 => u64::MAX,
            Self::I64 => u64::MAX >> 1,
        }
    }

    /// Whether JSON shows it as a decimal string.
    pub(crate) fn is_wide(self) -> bool {
        matches!(self, Self::U64 | Self::I64)
    }
}

/// A type of the contract.
#[derive(Debug)]
pub(crate) struct TypeDef {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// The least number of bytes a value takes.
    pub(crate) least: usize,
}

#[derive(Debug)]
pub(crate) enum Shape {
    Int(IntShape),
    Enum(EnumShape),
    Blob(BlobShape),
    Fixed(usize),
    Struct(Fields),
    Union(UnionShape),
    Envelope(EnvelopeShape),
    List(ListShape),
    Tlv(TlvShape),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct IntShape {
    pub(crate) encoding: Encoding,
    pub(crate) min: u64,
    pub(crate) max: u64,
}

#[derive(Debug)]
pub(crate) struct EnumShape {
    pub(crate) encoding: Encoding,
    pub(crate) members: Vec<(String, u64)>,
    /// Members are `false` and `true`: JSON shows a boolean.
    pub(crate) is_bool: bool,
}

impl EnumShape {
    pub(crate) fn name_of(&self, value: u64) -> Option<&str> {
        self.members
            .iter()
            .find(|(_, v)| *v == value)
            .map(|(name, _)| name.as_str())
    }

    pub(crate) fn value_of(&self, name: &str) -> Option<u64> {
        self.members
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| *value)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BlobShape {
    pub(crate) is_text: bool,
    pub(crate) prefix: Encoding,
    pub(crate) min: u64,
    pub(crate) max: u64,
}

/// Fields in wire order and the rules over them.
#[derive(Debug)]
pub(crate) struct Fields {
    pub(crate) fields: Vec<Field>,
    pub(crate) rules: Vec<Rule>,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) type_id: TypeId,
    /// Narrows the range of an integer type.
    pub(crate) range: Option<(u64, u64)>,
    /// The only legal value.
    pub(crate) constant: Option<u64>,
    pub(crate) condition: Option<Condition>,
    /// One entry per discriminator of the union that is not on the wire.
    pub(crate) sources: Vec<Source>,
    /// The operation id of a frozen record may be zero (WR-34): the rules of its type are left out.
    pub(crate) waives_rules: bool,
}

/// When a field is present. Indices point to earlier fields of the same list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition {
    Equals(usize, u64),
    Present(usize),
    Flags(u8),
}

/// Where a discriminator that is not on the wire comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Field(usize),
    Pending,
}

#[derive(Debug)]
pub(crate) struct UnionShape {
    pub(crate) discriminators: Vec<Discriminator>,
    pub(crate) prefix: Option<Encoding>,
    pub(crate) cases: Vec<Case>,
}

impl UnionShape {
    /// The case for these discriminator values; resolving made sure that there is one.
    pub(crate) fn case(&self, values: &[u64]) -> Option<&Case> {
        let named = self
            .cases
            .iter()
            .find(|case| case.labels.as_deref() == Some(values));
        named.or_else(|| self.cases.iter().find(|case| case.labels.is_none()))
    }
}

#[derive(Debug)]
pub(crate) struct Discriminator {
    pub(crate) name: String,
    pub(crate) type_id: TypeId,
    pub(crate) is_on_wire: bool,
}

#[derive(Debug)]
pub(crate) struct Case {
    /// One value per discriminator; `None` for `*`.
    pub(crate) labels: Option<Vec<u64>>,
    pub(crate) fields: Fields,
}

#[derive(Debug)]
pub(crate) struct EnvelopeShape {
    pub(crate) prefix: Encoding,
    pub(crate) max: u64,
    pub(crate) fields: Fields,
}

/// A vector, or with `is_envelope` an envelope list.
#[derive(Debug)]
pub(crate) struct ListShape {
    pub(crate) is_envelope: bool,
    pub(crate) count: Encoding,
    /// Vector: most elements. Envelope list: most bytes, version and count included.
    pub(crate) max: u64,
    pub(crate) element: TypeId,
    /// Parts of the key, most significant first; empty when there is no order.
    pub(crate) keys: Vec<Key>,
    pub(crate) is_sorted: bool,
    pub(crate) is_unique: bool,
}

/// One part of the key of an element.
#[derive(Debug)]
pub(crate) struct Key {
    /// Member of the element; `None` for the element itself.
    pub(crate) field: Option<String>,
    pub(crate) type_id: TypeId,
    pub(crate) by_authority: bool,
}

#[derive(Debug)]
pub(crate) struct TlvShape {
    pub(crate) total: Encoding,
    pub(crate) max: u64,
    pub(crate) id: Encoding,
    pub(crate) length: Encoding,
    pub(crate) entries: Vec<TlvEntry>,
}

#[derive(Debug)]
pub(crate) struct TlvEntry {
    pub(crate) id: u64,
    pub(crate) field: Field,
    pub(crate) is_required: bool,
}

/// Whether a record ends with a payload frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadRule {
    Required,
    Optional,
    Forbidden,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: String,
    /// Every bit that may be set.
    pub(crate) flags: u8,
    /// Masks whose bits go together (WR-2).
    pub(crate) pairs: Vec<u8>,
    pub(crate) payload: PayloadRule,
    pub(crate) body: Fields,
    /// Checked after the last frame.
    pub(crate) rules: Vec<Rule>,
}

#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) name: String,
    pub(crate) magic: [u8; 4],
    pub(crate) body: TypeId,
}

/// A parsed contract file: the slow codec.
#[derive(Debug)]
pub struct Contract {
    pub(crate) types: Vec<TypeDef>,
    pub(crate) names: BTreeMap<String, TypeId>,
    pub(crate) commands: BTreeMap<u8, Command>,
    pub(crate) durables: Vec<Durable>,
    /// `metadata-frame`, where the contract has one.
    pub(crate) metadata: Option<TypeId>,
    /// `application-payload-envelope-v1`, where the contract has one.
    pub(crate) payload: Option<TypeId>,
    /// The enum of pending operations, where a command depends on one.
    pub(crate) pending: Option<TypeId>,
}

/// Flag bits of the head frame, in the order of the contract's head comment.
pub(crate) const FLAGS: [(&str, u8); 4] = [
    ("metadata", 0x01),
    ("boundSession", 0x02),
    ("sourceSpotId", 0x04),
    ("extension", 0x08),
];

/// The bit that announces a metadata frame.
pub(crate) const FLAG_METADATA: u8 = 0x01;

impl Contract {
    /// The ids of all commands, ascending.
    pub fn command_ids(&self) -> impl Iterator<Item = u8> {
        self.commands.keys().copied()
    }

    pub(crate) fn type_def(&self, id: TypeId) -> &TypeDef {
        &self.types[id]
    }

    pub(crate) fn shape(&self, id: TypeId) -> &Shape {
        &self.types[id].shape
    }

    /// The enum behind a discriminator.
    pub(crate) fn enum_shape(&self, id: TypeId) -> Option<&EnumShape> {
        match self.shape(id) {
            Shape::Enum(shape) => Some(shape),
            _ => None,
        }
    }
}
