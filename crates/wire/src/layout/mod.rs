//! The trait that every wire type has, and the macros that write a layout down once.
//!
//! A declaration in this crate reads like its line in the contract: the fields in wire order, each
//! with its contract name. Reader, writer, length check and JSON form all come from that one place,
//! so they cannot disagree.

mod structs;
mod unions;
mod vectors;

use crate::error::{Breach, Reason};
#[cfg(feature = "serde")]
use crate::json::{JsonError, Members, Node, ObjectReader};
use crate::reader::{Read, Reader};
use crate::writer::{Writer, Written};

/// How a value stands on the wire.
pub trait Layout: Sized {
    /// The least number of bytes that any value takes; counts are checked with it (WR-4).
    const MIN: usize;

    /// Reads one value at the cursor.
    fn read(r: &mut Reader<'_>) -> Read<Self>;
    /// Writes the value in its only form (WR-6).
    fn write(&self, w: &mut Writer<'_>) -> Written;
    /// The JSON form.
    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node;
    /// Takes the JSON form back.
    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError>;
}

/// A box keeps rare and large cases from making the common ones large.
impl<T: Layout> Layout for Box<T> {
    const MIN: usize = T::MIN;

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        T::read(r).map(Self::new)
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        T::write(self, w)
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        T::to_json(self)
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        T::from_json(node).map(Self::new)
    }
}

/// A group of fields that stands inside its parent without being a struct of its own in the contract.
pub trait FlatLayout: Sized {
    /// The least number of bytes that any value takes.
    const MIN: usize;

    /// Reads the fields.
    fn read_flat(r: &mut Reader<'_>) -> Read<Self>;
    /// Writes the fields.
    fn write_flat(&self, w: &mut Writer<'_>) -> Written;
    /// Adds the fields to the JSON members of the parent.
    #[cfg(feature = "serde")]
    fn to_members(&self, members: &mut Members);
    /// Takes the fields from the JSON members of the parent.
    #[cfg(feature = "serde")]
    fn from_members(object: &mut ObjectReader) -> Result<Self, JsonError>;
}

/// A rule over several fields of one struct. Most structs have none.
#[expect(clippy::unnecessary_wraps, reason = "has the form of every other rule")]
pub(crate) fn no_rule<T>(_: &T) -> Result<(), Breach> {
    Ok(())
}

/// The least of several sizes.
pub(crate) const fn least(sizes: &[usize]) -> usize {
    match sizes {
        [] => 0,
        [only] => *only,
        [first, rest @ ..] => {
            let other = least(rest);
            if *first < other { *first } else { other }
        }
    }
}

/// The version byte of an envelope, which is always 1.
#[inline]
pub(crate) fn read_version(r: &mut Reader<'_>) -> Read<()> {
    let at = r.offset();
    match r.u8()? {
        1 => Ok(()),
        version => {
            let reason = Reason::Expected {
                expected: 1,
                actual: u64::from(version),
            };
            Err(Reader::invalid(at, reason))
        }
    }
}

/// `hasX: bool8 ; x: … if hasX==true`
#[inline]
pub(crate) fn read_flagged<T: Layout>(
    r: &mut Reader<'_>,
    flag: &'static str,
    name: &'static str,
) -> Read<Option<T>> {
    if bool::read(r).map_err(|e| e.within(flag))? {
        return T::read(r).map(Some).map_err(|e| e.within(name));
    }
    Ok(None)
}

#[inline]
pub(crate) fn write_flagged<T: Layout>(
    w: &mut Writer<'_>,
    value: Option<&T>,
    name: &'static str,
) -> Written {
    value.is_some().write(w)?;
    match value {
        Some(value) => value.write(w).map_err(|e| e.within(name)),
        None => Ok(()),
    }
}

macro_rules! field_min {
    ($ty:ty, (flag $flag:literal $name:literal)) => {
        1
    };
    ($ty:ty, (flat)) => {
        <$ty as $crate::layout::FlatLayout>::MIN
    };
    ($ty:ty, (by_flags $name:literal)) => {
        0
    };
    ($ty:ty, $name:literal) => {
        <$ty as $crate::layout::Layout>::MIN
    };
}

/// Reads a field with `?`, naming it on the way out. A `match`, because `map_err` would move the value.
macro_rules! field_view {
    ($r:ident, $ty:ty, (by_flags $name:literal)) => {
        $crate::layout::field_view!($r, $ty, $name)
    };
    ($r:ident, $ty:ty, $name:literal) => {
        match <$ty as $crate::view::Viewed>::view($r) {
            Ok(value) => value,
            Err(error) => return Err(error.within($name)),
        }
    };
}

macro_rules! field_read {
    ($r:ident, $ty:ty, (flag $flag:literal $name:literal)) => {
        $crate::layout::read_flagged($r, $flag, $name)?
    };
    ($r:ident, $ty:ty, (flat)) => {
        <$ty as $crate::layout::FlatLayout>::read_flat($r)?
    };
    ($r:ident, $ty:ty, (by_flags $name:literal)) => {
        $crate::layout::field_read!($r, $ty, $name)
    };
    ($r:ident, $ty:ty, $name:literal) => {
        match <$ty as $crate::layout::Layout>::read($r) {
            Ok(value) => value,
            Err(error) => return Err(error.within($name)),
        }
    };
}

macro_rules! field_write {
    ($w:ident, $value:expr, (flag $flag:literal $name:literal)) => {
        $crate::layout::write_flagged($w, $value.as_ref(), $name)?
    };
    ($w:ident, $value:expr, (flat)) => {
        $crate::layout::FlatLayout::write_flat($value, $w)?
    };
    ($w:ident, $value:expr, (by_flags $name:literal)) => {
        $crate::layout::field_write!($w, $value, $name)
    };
    ($w:ident, $value:expr, $name:literal) => {
        $crate::layout::Layout::write($value, $w).map_err(|e| e.within($name))?
    };
}

#[cfg(feature = "serde")]
macro_rules! field_to_json {
    ($members:ident, $value:expr, (flag $flag:literal $name:literal)) => {
        $members.flagged($flag, $name, $value.as_ref())
    };
    ($members:ident, $value:expr, (flat)) => {
        $crate::layout::FlatLayout::to_members($value, $members)
    };
    ($members:ident, $value:expr, (by_flags $name:literal)) => {
        if let Some(value) = $value {
            $members.push($name, $crate::layout::Layout::to_json(value));
        }
    };
    ($members:ident, $value:expr, $name:literal) => {
        $members.push($name, $crate::layout::Layout::to_json($value))
    };
}

#[cfg(feature = "serde")]
macro_rules! field_from_json {
    ($object:ident, $ty:ty, (flag $flag:literal $name:literal)) => {
        $object.flagged($flag, $name)?
    };
    ($object:ident, $ty:ty, (flat)) => {
        <$ty as $crate::layout::FlatLayout>::from_members($object)?
    };
    ($object:ident, $ty:ty, (by_flags $name:literal)) => {
        $object.optional($name)?
    };
    ($object:ident, $ty:ty, $name:literal) => {
        $object.take::<$ty>($name)?
    };
}

pub(crate) use structs::*;
pub(crate) use unions::*;
pub(crate) use vectors::*;
#[cfg(feature = "serde")]
pub(crate) use {field_from_json, field_to_json};
pub(crate) use {field_min, field_read, field_view, field_write};
