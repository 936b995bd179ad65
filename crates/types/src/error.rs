//! Why a value was refused.

use core::fmt;

/// A value that the contract does not allow, with the bound it broke.
///
/// Always a mistake of the caller or of a peer: repeating the call with the same value cannot help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueError {
    name: &'static str,
    fault: ValueFault,
}

/// Which bound a value broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueFault {
    /// A number outside its range.
    Range {
        /// The number that was given.
        value: i128,
        /// The least legal number.
        min: i128,
        /// The greatest legal number.
        max: i128,
    },
    /// A text or byte string with too few or too many bytes.
    Length {
        /// The number of bytes that were given.
        bytes: usize,
        /// The least legal number of bytes.
        min: usize,
        /// The greatest legal number of bytes.
        max: usize,
    },
    /// Bytes that are not strict UTF-8.
    NotUtf8 {
        /// How many bytes before the fault are UTF-8.
        valid_up_to: usize,
    },
    /// A text with a NUL byte.
    Nul {
        /// The index of the NUL byte.
        at: usize,
    },
    /// A 128-bit id of which both words are zero.
    Zero,
}

impl ValueError {
    pub(crate) const fn new(name: &'static str, fault: ValueFault) -> Self {
        Self { name, fault }
    }

    /// The name of the type that refused the value.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The bound that was broken.
    pub const fn fault(&self) -> ValueFault {
        self.fault
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.fault)
    }
}

impl fmt::Display for ValueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { value, min, max } => {
                write!(f, "{value} is outside {min} to {max}")
            }
            Self::Length { bytes, min, max } => {
                write!(f, "{bytes} bytes are outside {min} to {max} bytes")
            }
            Self::NotUtf8 { valid_up_to } => {
                write!(f, "not UTF-8 at byte {valid_up_to}")
            }
            Self::Nul { at } => write!(f, "NUL at byte {at}"),
            Self::Zero => f.write_str("both words are zero"),
        }
    }
}

impl core::error::Error for ValueError {}
