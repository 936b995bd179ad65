//! The tag of a message: what the log of an actor tells about it.

use spotlane_counter::FOLLOWED_MARK;

use super::oracle::{Number, Stream, Way};

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

/// What the log of an actor says of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) kind: Kind,
    pub(crate) stream: Stream,
    pub(crate) number: Number,
    pub(crate) way: Way,
}

/// Reads a tag from the log of an actor; nothing when it is none of ours.
pub(crate) fn read(tag: &str, actor: u32) -> Option<Tag> {
    let (tag, way) = match tag.strip_suffix(FOLLOWED_MARK) {
        Some(tag) => (tag, Way::Followed),
        None => (tag, Way::Direct),
    };
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
    (write(kind, stream.sender, number) == tag).then_some(Tag {
        kind,
        stream,
        number,
        way,
    })
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
            let stream = Stream { sender, actor };
            let written = write(kind, sender, number);
            for (way, logged) in [(Way::Direct, written.clone()), (Way::Followed, written + ">")] {
                prop_assert_eq!(read(&logged, actor), Some(Tag { kind, stream, number, way }));
            }
        }

        #[test]
        fn nothing_else_is_taken_for_one(tag in "[an+]?[0-9.+ >]{0,6}") {
            if let Some(Tag { kind, stream, number, way }) = read(&tag, 0) {
                let mark = if way == Way::Followed { ">" } else { "" };
                prop_assert_eq!(write(kind, stream.sender, number) + mark, tag);
            }
        }
    }
}
