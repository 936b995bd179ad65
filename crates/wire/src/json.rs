//! The JSON form of records and values: a small tree that serde can read and write.
//!
//! The form is that of `docs/decoding.md`: contract names, 64-bit numbers as decimal strings, bytes as
//! lower-case hex. It is for tools and tests; a tree in between keeps it simple and strict.

use core::fmt;
use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use spotlane_types::hex;
use spotlane_types::kind::MeshOperationKind;

use crate::error::{Breach, ErrorKind};
use crate::layout::Layout;

/// A JSON value as far as the wire needs one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "JSON has no other values that the wire uses"
)]
pub enum Node {
    /// Nothing; only for a record without metadata or payload.
    Null,
    /// A `bool8`.
    Bool(bool),
    /// A number of at most 32 bits.
    Number(u32),
    /// An enum name, a text, bytes in hex, or a number of 64 bits.
    Text(String),
    /// A vector.
    List(Vec<Self>),
    /// A struct or union.
    Object(Members),
}

/// The members of an object in wire order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(Vec<(Cow<'static, str>, Node)>);

impl Members {
    /// Adds a member at the end.
    pub fn push(&mut self, name: &'static str, value: Node) {
        self.0.push((Cow::Borrowed(name), value));
    }

    pub(crate) fn flagged<T: Layout>(
        &mut self,
        flag: &'static str,
        name: &'static str,
        value: Option<&T>,
    ) {
        self.push(flag, Node::Bool(value.is_some()));
        if let Some(value) = value {
            self.push(name, value.to_json());
        }
    }
}

/// A JSON value that is not the form of a legal record or value. A mistake of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    kind: ErrorKind,
    path: String,
    message: String,
}

impl JsonError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::of_kind(ErrorKind::InvalidField, message)
    }

    pub(crate) fn of_kind(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            path: String::new(),
            message: message.into(),
        }
    }

    pub(crate) fn within(mut self, name: &str) -> Self {
        self.path = match self.path.as_str() {
            "" => name.to_owned(),
            path if path.starts_with('[') => format!("{name}{path}"),
            path => format!("{name}.{path}"),
        };
        self
    }

    fn at_element(self, index: usize) -> Self {
        self.within(&format!("[{index}]"))
    }

    /// What a decoder would call it: a reserved command, flags and frames that do not fit have kinds
    /// of their own, everything else is an invalid field.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The dotted path of the member at fault; empty for the value as a whole.
    pub fn field(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member '{}': {}", self.path, self.message)
    }
}

impl core::error::Error for JsonError {}

impl From<Breach> for JsonError {
    fn from(breach: Breach) -> Self {
        Self::new(breach.rule).within(breach.field)
    }
}

impl Node {
    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    fn unexpected(&self, expected: &str) -> JsonError {
        JsonError::new(format!("expected {expected}, found {}", self.kind()))
    }

    pub(crate) fn bool(self) -> Result<bool, JsonError> {
        match self {
            Self::Bool(value) => Ok(value),
            other => Err(other.unexpected("a boolean")),
        }
    }

    pub(crate) fn number(self) -> Result<u32, JsonError> {
        match self {
            Self::Number(value) => Ok(value),
            other => Err(other.unexpected("a number of at most 32 bits")),
        }
    }

    pub(crate) fn text(self) -> Result<String, JsonError> {
        match self {
            Self::Text(value) => Ok(value),
            other => Err(other.unexpected("a string")),
        }
    }

    /// A number of 64 bits: decimal digits in canonical form.
    pub(crate) fn decimal<T: core::str::FromStr + fmt::Display>(self) -> Result<T, JsonError> {
        let text = self.text()?;
        text.parse::<T>()
            .ok()
            .filter(|number| number.to_string() == text)
            .ok_or_else(|| JsonError::new("expected a number of 64 bits as decimal string"))
    }

    pub(crate) fn hex(self) -> Result<Vec<u8>, JsonError> {
        hex::decode(&self.text()?)
            .ok_or_else(|| JsonError::new("expected an even number of lower-case hex digits"))
    }
}

/// Bytes as lower-case hex.
pub(crate) fn to_hex(bytes: &[u8]) -> Node {
    Node::Text(hex::encode(bytes))
}

/// Makes an object.
pub(crate) fn object(fill: impl FnOnce(&mut Members)) -> Node {
    let mut members = Members::default();
    fill(&mut members);
    Node::Object(members)
}

/// Makes a list.
pub(crate) fn list<T: Layout>(elements: &[T]) -> Node {
    Node::List(elements.iter().map(Layout::to_json).collect())
}

/// Reads a list.
pub(crate) fn read_list<T: Layout>(node: Node) -> Result<Vec<T>, JsonError> {
    match node {
        Node::List(nodes) => nodes
            .into_iter()
            .enumerate()
            .map(|(index, node)| T::from_json(node).map_err(|e| e.at_element(index)))
            .collect(),
        other => Err(other.unexpected("an array")),
    }
}

/// Takes members out of an object and knows which are left.
#[derive(Debug)]
pub struct ObjectReader {
    members: Members,
    /// The operation that a reply answers, for its tail (WR-21).
    pending: MeshOperationKind,
}

impl ObjectReader {
    /// Takes the raw value of a member, if there is one.
    pub(crate) fn node(&mut self, name: &str) -> Option<Node> {
        let index = self
            .members
            .0
            .iter()
            .position(|(member, _)| member == name)?;
        Some(self.members.0.remove(index).1)
    }

    pub(crate) const fn pending(&self) -> MeshOperationKind {
        self.pending
    }

    pub(crate) fn take<T: Layout>(&mut self, name: &'static str) -> Result<T, JsonError> {
        let node = self
            .node(name)
            .ok_or_else(|| JsonError::new("missing").within(name))?;
        T::from_json(node).map_err(|e| e.within(name))
    }

    /// A member that may be absent.
    pub(crate) fn optional<T: Layout>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, JsonError> {
        match self.node(name) {
            Some(node) => T::from_json(node).map(Some).map_err(|e| e.within(name)),
            None => Ok(None),
        }
    }

    /// A member that is an object without a type of its own.
    pub(crate) fn nested<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, JsonError>,
    ) -> Result<T, JsonError> {
        let node = self
            .node(name)
            .ok_or_else(|| JsonError::new("missing").within(name))?;
        read_object(node, read).map_err(|e| e.within(name))
    }

    pub(crate) fn flagged<T: Layout>(
        &mut self,
        flag: &'static str,
        name: &'static str,
    ) -> Result<Option<T>, JsonError> {
        if self.take::<bool>(flag)? {
            self.take(name).map(Some)
        } else {
            Ok(None)
        }
    }
}

/// Reads an object and refuses members that nobody took.
pub(crate) fn read_object<T>(
    node: Node,
    read: impl FnOnce(&mut ObjectReader) -> Result<T, JsonError>,
) -> Result<T, JsonError> {
    read_object_with(node, MeshOperationKind::None, read)
}

/// [`read_object`] with the operation that a reply answers.
pub(crate) fn read_object_with<T>(
    node: Node,
    pending: MeshOperationKind,
    read: impl FnOnce(&mut ObjectReader) -> Result<T, JsonError>,
) -> Result<T, JsonError> {
    let members = match node {
        Node::Object(members) => members,
        other => return Err(other.unexpected("an object")),
    };
    let mut object = ObjectReader { members, pending };
    let value = read(&mut object)?;
    match object.members.0.first() {
        None => Ok(value),
        Some((name, _)) => Err(JsonError::new("not a member of this value").within(name)),
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => serializer.serialize_u32(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(nodes) => {
                let mut seq = serializer.serialize_seq(Some(nodes.len()))?;
                for node in nodes {
                    seq.serialize_element(node)?;
                }
                seq.end()
            }
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.0.len()))?;
                for (name, node) in &members.0 {
                    map.serialize_entry(name, node)?;
                }
                map.end()
            }
        }
    }
}

/// Gives a type the serde form that its [`Layout`] describes.
macro_rules! serde_form {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::layout::Layout::to_json(self).serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let node = <$crate::json::Node as serde::Deserialize>::deserialize(deserializer)?;
                <Self as $crate::layout::Layout>::from_json(node).map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use serde_form;

/// No struct of the contract has nearly as many; members are looked for one after another.
const MEMBERS_MAX: usize = 64;

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null, a boolean, a number of at most 32 bits, a string, an array or an object")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Node, E> {
        u32::try_from(value).map(Node::Number).map_err(|_| {
            E::custom(format_args!(
                "{value} needs more than 32 bits; write it as a decimal string"
            ))
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = seq.next_element()? {
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members: Vec<(Cow<'static, str>, Node)> = Vec::new();
        while let Some((name, node)) = map.next_entry::<String, Node>()? {
            if members.iter().any(|(member, _)| *member == name) {
                return Err(serde::de::Error::custom(format_args!(
                    "member '{name}' twice"
                )));
            }
            if members.len() >= MEMBERS_MAX {
                return Err(serde::de::Error::custom(format_args!(
                    "an object with more than {MEMBERS_MAX} members"
                )));
            }
            members.push((Cow::Owned(name), node));
        }
        Ok(Node::Object(Members(members)))
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

/// A number of at most 32 bits.
pub(crate) fn number(value: impl Into<u32>) -> Node {
    Node::Number(value.into())
}

/// A number of 64 bits.
pub(crate) fn decimal(value: impl fmt::Display) -> Node {
    Node::Text(value.to_string())
}

/// A text; its bytes are UTF-8 by construction of every text type.
pub(crate) fn text(bytes: &[u8]) -> Node {
    Node::Text(String::from_utf8_lossy(bytes).into_owned())
}

/// The two words of a wide id.
pub(crate) fn words(high: u64, low: u64) -> Node {
    object(|m| {
        m.push("high", decimal(high));
        m.push("low", decimal(low));
    })
}

/// The two words of a wide id.
pub(crate) fn read_words(node: Node) -> Result<(u64, u64), JsonError> {
    read_object(node, |object| {
        Ok((object.take("high")?, object.take("low")?))
    })
}

/// 32 bytes in hex.
pub(crate) fn digest(node: Node) -> Result<[u8; 32], JsonError> {
    let bytes = node.hex()?;
    bytes
        .try_into()
        .map_err(|_| JsonError::new("expected 64 hex digits"))
}

/// A frame that a command does not have.
pub(crate) fn refuse(name: &'static str, present: bool) -> Result<(), JsonError> {
    if present {
        let error = JsonError::of_kind(ErrorKind::FrameCount, "the command has no such frame");
        return Err(error.within(name));
    }
    Ok(())
}

/// A frame that a command always has.
pub(crate) fn require<T>(name: &'static str, frame: Option<T>) -> Result<T, JsonError> {
    frame.ok_or_else(|| {
        let message = "the command has this frame always";
        JsonError::of_kind(ErrorKind::FrameCount, message).within(name)
    })
}

impl Node {
    /// Whether it is an object with this member.
    pub(crate) fn has(&self, name: &str) -> bool {
        matches!(self, Self::Object(Members(members)) if members.iter().any(|(own, _)| own == name))
    }
}

impl ObjectReader {
    /// A member that may be absent or null.
    pub(crate) fn nullable<T: Layout>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, JsonError> {
        match self.node(name) {
            None | Some(Node::Null) => Ok(None),
            Some(node) => T::from_json(node).map(Some).map_err(|e| e.within(name)),
        }
    }
}
