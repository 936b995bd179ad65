//! The tag of a message: what the log of an actor tells about it.

use super::oracle::{Number, Stream};

/// Whether a message raises the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The request `add`.
    Add,
    /// The one-way `note`.
    Note,
}

/// `a12.345` is the 345th message of sender 12 to this actor, and an `add`.
pub(crate) fn write(kind: Kind, sender: u32, number: Number) -> String {
    let letter = match kind {
        Kind::Add => 'a',
        Kind::Note => 'n',
    };
    format!("{letter}{sender}.{number}")
}

/// Reads a tag from the log of an actor; nothing when it is none of ours.
pub(crate) fn read(tag: &str, actor: u32) -> Option<(Kind, Stream, Number)> {
    let (letter, rest) = tag.split_at_checked(1)?;
    let kind = match letter {
        "a" => Kind::Add,
        "n" => Kind::Note,
        _ => return None,
    };
    let (sender, number) = rest.split_once('.')?;
    let stream = Stream {
        sender: sender.parse().ok()?,
        actor,
    };
    let number = number.parse().ok()?;
    (write(kind, stream.sender, number) == tag).then_some((kind, stream, number))
}

/// What the `add` with this number adds, so that a total depends on which were handled.
pub(crate) fn amount(number: Number) -> i64 {
    i64::try_from(number % 97).unwrap_or(0) + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(sender: u32, number: u64, add: bool, actor: u32) {
            let kind = if add { Kind::Add } else { Kind::Note };
            let read = read(&write(kind, sender, number), actor);
            prop_assert_eq!(read, Some((kind, Stream { sender, actor }, number)));
        }

        #[test]
        fn nothing_else_is_taken_for_one(tag in "[an+]?[0-9.+ ]{0,6}") {
            if let Some((kind, stream, number)) = read(&tag, 0) {
                prop_assert_eq!(write(kind, stream.sender, number), tag);
            }
        }
    }
}
