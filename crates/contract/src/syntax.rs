//! The contract file as it is written: names are not resolved yet.

/// A number or the name of a bound.
#[derive(Clone, Debug)]
pub(crate) struct Amount(pub(crate) String);

/// Any declaration, with the line it starts on.
#[derive(Debug)]
pub(crate) struct Decl {
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) form: Form,
}

/// What a declaration declares.
#[derive(Debug)]
pub(crate) enum Form {
    Bound(Amount),
    Int {
        encoding: String,
        min: Amount,
        max: Amount,
    },
    Blob {
        is_text: bool,
        prefix: String,
        min: Amount,
        max: Amount,
    },
    Fixed(Amount),
    Enum {
        encoding: String,
        members: Vec<(String, Amount)>,
    },
    Struct(RawFields),
    Union {
        discriminators: Vec<RawDiscriminator>,
        prefix: Option<String>,
        cases: Vec<RawCase>,
    },
    Envelope {
        prefix: String,
        max: Option<Amount>,
        fields: RawFields,
    },
    EnvelopeList {
        count: String,
        max: Option<Amount>,
        list: RawList,
    },
    Vector {
        count: String,
        max: Option<Amount>,
        list: RawList,
    },
    Tlv {
        total: String,
        id: String,
        length: String,
        entries: Vec<RawEntry>,
    },
    Command(RawCommand),
    Durable {
        magic: String,
        body: String,
    },
}

#[derive(Debug)]
pub(crate) struct RawFields {
    pub(crate) fields: Vec<RawField>,
    pub(crate) rules: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct RawField {
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) type_name: String,
    pub(crate) range: Option<(Amount, Amount)>,
    pub(crate) constant: Option<String>,
    pub(crate) condition: Option<RawCondition>,
}

#[derive(Debug)]
pub(crate) enum RawCondition {
    Equals(String, String),
    Present(String),
    Flags(Vec<String>),
}

/// Where the value of a discriminator comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Wire,
    Field,
    Context,
}

#[derive(Debug)]
pub(crate) struct RawDiscriminator {
    pub(crate) name: String,
    pub(crate) type_name: String,
    pub(crate) origin: Origin,
}

#[derive(Debug)]
pub(crate) struct RawCase {
    pub(crate) line: usize,
    /// Empty for `*`.
    pub(crate) labels: Vec<String>,
    pub(crate) fields: Vec<RawField>,
}

/// The element of a vector or envelope list and its order.
#[derive(Debug)]
pub(crate) struct RawList {
    pub(crate) element: String,
    pub(crate) sorted: Option<RawKeys>,
    pub(crate) unique: Option<RawKeys>,
}

#[derive(Debug)]
pub(crate) struct RawKeys {
    pub(crate) fields: Vec<String>,
    pub(crate) mode: Option<String>,
}

#[derive(Debug)]
pub(crate) struct RawEntry {
    pub(crate) id: Amount,
    pub(crate) field: RawField,
    pub(crate) is_required: bool,
}

#[derive(Debug)]
pub(crate) struct RawCommand {
    pub(crate) id: Amount,
    pub(crate) domain: String,
    pub(crate) flags: Vec<String>,
    pub(crate) payload: String,
    pub(crate) fields: Vec<RawField>,
}
