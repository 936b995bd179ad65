//! The frames of a message, a few of them in place.

use core::fmt;
use core::ops::Deref;

use bytes::Bytes;

/// A service record has three frames at most.
const INLINE: usize = 3;

/// Some frames. Up to three of them need no memory of their own.
///
/// ```
/// use spotlane_mesh_proto::zmp::Frames;
///
/// let frames = Frames::from(vec!["head".into(), "payload".into()]);
/// assert_eq!(frames.len(), 2);
/// assert_eq!(&frames[1][..], b"payload");
/// ```
#[derive(Clone, Default)]
pub struct Frames {
    inline: [Bytes; INLINE],
    count: usize,
    /// All of them, when they are too many.
    many: Vec<Bytes>,
}

impl Frames {
    /// No frame yet.
    pub const fn new() -> Self {
        Self {
            inline: [Bytes::new(), Bytes::new(), Bytes::new()],
            count: 0,
            many: Vec::new(),
        }
    }

    /// Adds one.
    pub fn push(&mut self, frame: Bytes) {
        if let Some(place) = self.inline.get_mut(self.count) {
            *place = frame;
        } else {
            if self.many.is_empty() {
                self.many
                    .extend(self.inline.iter_mut().map(core::mem::take));
            }
            self.many.push(frame);
        }
        self.count = self.count.saturating_add(1);
    }

    /// The frames from `at` on.
    #[must_use]
    pub(super) fn split_off(self, at: usize) -> Self {
        let mut rest = Self::new();
        for frame in self.iter().skip(at) {
            rest.push(frame.clone());
        }
        rest
    }
}

impl Deref for Frames {
    type Target = [Bytes];

    fn deref(&self) -> &[Bytes] {
        if self.many.is_empty() {
            self.inline.get(..self.count).unwrap_or_default()
        } else {
            &self.many
        }
    }
}

impl From<Vec<Bytes>> for Frames {
    fn from(frames: Vec<Bytes>) -> Self {
        if frames.len() > INLINE {
            return Self {
                count: frames.len(),
                many: frames,
                ..Self::new()
            };
        }
        let mut all = Self::new();
        for frame in frames {
            all.push(frame);
        }
        all
    }
}

impl PartialEq for Frames {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Frames {}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-38
    #[test]
    fn any_number_of_frames_is_kept_in_order() {
        for count in 0..10_u8 {
            let list: Vec<_> = (0..count).map(|at| Bytes::from(vec![at])).collect();
            let mut pushed = Frames::new();
            for frame in &list {
                pushed.push(frame.clone());
            }
            assert_eq!(pushed[..], list[..]);
            assert_eq!(Frames::from(list.clone()), pushed);
            let at = list.len() / 2;
            assert_eq!(pushed.split_off(at)[..], list[at..]);
        }
    }
}
