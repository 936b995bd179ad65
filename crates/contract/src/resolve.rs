//! Turns declarations into the model: bounds become numbers and names become indices.

use std::collections::BTreeMap;

use crate::fields::FieldsResolver;
use crate::least::Least;
use crate::model::{
    Command, Contract, Durable, Encoding, FLAG_METADATA, FLAGS, Fields, PayloadRule, TypeDef,
    TypeId,
};
use crate::parser::{ParseError, parse};
use crate::rules::Rule;
use crate::syntax::{Amount, Decl, Form, RawCommand};

const METADATA_TYPE: &str = "metadata-frame";
const PAYLOAD_TYPE: &str = "application-payload-envelope-v1";

pub(crate) type Resolved<T> = Result<T, ParseError>;

impl Contract {
    /// Reads a contract file.
    ///
    /// # Errors
    ///
    /// [`ParseError`] names the line that is not in the notation of the file's head comment, or
    /// that refers to a name, number or order that does not exist.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let decls = parse(text)?;
        let names = Names::collect(&decls)?;
        let mut contract = Self {
            types: Vec::new(),
            names: names.types.clone(),
            commands: BTreeMap::new(),
            durables: Vec::new(),
            metadata: names.types.get(METADATA_TYPE).copied(),
            payload: names.types.get(PAYLOAD_TYPE).copied(),
            pending: None,
        };
        for decl in &decls {
            let scope = Scope {
                names: &names,
                decls: &decls,
                line: decl.line,
            };
            if let Some(shape) = scope.shape(decl)? {
                contract.types.push(TypeDef {
                    name: decl.name.clone(),
                    shape,
                    least: 0,
                });
            }
        }
        Least::fill(&mut contract.types, &names.type_lines)?;
        for decl in &decls {
            let scope = Scope {
                names: &names,
                decls: &decls,
                line: decl.line,
            };
            match &decl.form {
                Form::Command(raw) => scope.add_command(&mut contract, &decl.name, raw)?,
                Form::Durable { magic, body } => {
                    let durable = scope.durable(&decl.name, magic, body)?;
                    contract.durables.push(durable);
                }
                _ => {}
            }
        }
        Ok(contract)
    }
}

/// What is declared, before the declarations are looked into.
pub(crate) struct Names {
    bounds: BTreeMap<String, u64>,
    types: BTreeMap<String, TypeId>,
    /// Declaration of each type.
    type_decls: Vec<usize>,
    type_lines: Vec<usize>,
}

impl Names {
    fn collect(decls: &[Decl]) -> Resolved<Self> {
        let mut names = Self {
            bounds: BTreeMap::new(),
            types: BTreeMap::new(),
            type_decls: Vec::new(),
            type_lines: Vec::new(),
        };
        for (index, decl) in decls.iter().enumerate() {
            let is_new = match &decl.form {
                Form::Bound(Amount(text)) => {
                    let value = text.parse().map_err(|_| {
                        ParseError::new(decl.line, format!("`{text}` is not a number"))
                    })?;
                    names.bounds.insert(decl.name.clone(), value).is_none()
                }
                Form::Command(_) | Form::Durable { .. } => true,
                _ => {
                    names.type_decls.push(index);
                    names.type_lines.push(decl.line);
                    let id = names.type_decls.len() - 1;
                    names.types.insert(decl.name.clone(), id).is_none()
                }
            };
            if !is_new {
                return Err(ParseError::new(
                    decl.line,
                    format!("`{}` exists already", decl.name),
                ));
            }
        }
        Ok(names)
    }
}

/// Resolves names for the declaration on `line`.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    names: &'a Names,
    decls: &'a [Decl],
    pub(crate) line: usize,
}

/// Single names.
impl<'a> Scope<'a> {
    pub(crate) fn fail<T>(&self, message: impl Into<String>) -> Resolved<T> {
        Err(ParseError::new(self.line, message))
    }

    pub(crate) fn on_line(self, line: usize) -> Self {
        Self { line, ..self }
    }

    pub(crate) fn amount(&self, amount: &Amount) -> Resolved<u64> {
        let Amount(text) = amount;
        match text
            .parse()
            .ok()
            .or_else(|| self.names.bounds.get(text).copied())
        {
            Some(value) => Ok(value),
            None => self.fail(format!("`{text}` is neither a number nor a bound")),
        }
    }

    pub(crate) fn bound(&self, name: &str) -> Option<u64> {
        self.names.bounds.get(name).copied()
    }

    pub(crate) fn type_id(&self, name: &str) -> Resolved<TypeId> {
        match self.names.types.get(name) {
            Some(id) => Ok(*id),
            None => self.fail(format!("there is no type `{name}`")),
        }
    }

    /// The declaration of a type.
    pub(crate) fn form(&self, id: TypeId) -> &'a Form {
        &self.decls[self.names.type_decls[id]].form
    }

    pub(crate) fn encoding(&self, name: &str) -> Resolved<Encoding> {
        match Encoding::parse(name) {
            Some(encoding) => Ok(encoding),
            None => self.fail(format!("`{name}` is not an encoding")),
        }
    }

    /// An optional bound; without one the prefix is the only limit.
    pub(crate) fn maximum(&self, max: Option<&Amount>, encoding: Encoding) -> Resolved<u64> {
        max.map_or_else(|| Ok(encoding.max()), |max| self.amount(max))
    }

    pub(crate) fn range(&self, min: &Amount, max: &Amount, most: u64) -> Resolved<(u64, u64)> {
        let (min, max) = (self.amount(min)?, self.amount(max)?);
        if min > max || max > most {
            return self.fail(format!(
                "the range {min}..{max} does not fit into 0..{most}"
            ));
        }
        Ok((min, max))
    }

    /// The number of an enum's member.
    pub(crate) fn member(&self, id: TypeId, name: &str) -> Resolved<u64> {
        let Form::Enum { members, .. } = self.form(id) else {
            return self.fail(format!("`{name}` needs an enum"));
        };
        match members.iter().find(|(member, _)| member == name) {
            Some((_, value)) => self.amount(value),
            None => self.fail(format!("the enum has no member `{name}`")),
        }
    }

    /// The bits of some flags.
    pub(crate) fn flags(&self, names: &[String]) -> Resolved<u8> {
        let mut bits = 0;
        for name in names {
            match FLAGS.iter().find(|(flag, _)| flag == name) {
                Some((_, bit)) => bits |= bit,
                None => return self.fail(format!("there is no flag `{name}`")),
            }
        }
        Ok(bits)
    }
}

/// Declarations that are no types.
impl Scope<'_> {
    fn add_command(&self, contract: &mut Contract, name: &str, raw: &RawCommand) -> Resolved<()> {
        let Ok(id) = u8::try_from(self.amount(&raw.id)?) else {
            return self.fail("a command id is one byte");
        };
        if !["infrastructure", "application"].contains(&raw.domain.as_str()) {
            return self.fail(format!("there is no domain `{}`", raw.domain));
        }
        let payload = match raw.payload.as_str() {
            "required" => PayloadRule::Required,
            "optional" => PayloadRule::Optional,
            "forbidden" => PayloadRule::Forbidden,
            other => return self.fail(format!("there is no payload rule `{other}`")),
        };
        let flags = self.flags(&raw.flags)?;
        if flags & FLAG_METADATA != 0 && contract.metadata.is_none() {
            return self.fail(format!("metadata needs the type `{METADATA_TYPE}`"));
        }
        if payload != PayloadRule::Forbidden && contract.payload.is_none() {
            return self.fail(format!("a payload needs the type `{PAYLOAD_TYPE}`"));
        }
        let mut resolver = FieldsResolver::for_command(*self, flags);
        let body: Fields = resolver.fields(&raw.fields)?;
        if let Some(pending) = resolver.pending {
            if contract.pending.is_some_and(|known| known != pending) {
                return self.fail("commands disagree about the kind of pending operations");
            }
            contract.pending = Some(pending);
        }
        let command = Command {
            name: name.to_owned(),
            flags,
            pairs: resolver.pairs,
            payload,
            body,
            rules: Rule::of_command(name),
        };
        let is_known = contract.commands.values().any(|other| other.name == name);
        if is_known || contract.commands.insert(id, command).is_some() {
            return self.fail("the command exists already");
        }
        Ok(())
    }

    fn durable(&self, name: &str, magic: &str, body: &str) -> Resolved<Durable> {
        let Ok(magic) = magic.as_bytes().try_into() else {
            return self.fail("a magic has four bytes");
        };
        Ok(Durable {
            name: name.to_owned(),
            magic,
            body: self.type_id(body)?,
        })
    }
}
