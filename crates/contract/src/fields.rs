//! Resolves the fields of one struct, case, envelope, TLV entry or command body.

use crate::model::{Condition, Encoding, Field, Fields, Source, TypeId};
use crate::resolve::{Resolved, Scope};
use crate::syntax::{Form, Origin, RawCondition, RawField};

/// Resolves a list of fields; later fields may refer to earlier ones.
pub(crate) struct FieldsResolver<'a> {
    scope: Scope<'a>,
    done: Vec<Field>,
    /// The flags of the command whose body this is.
    command_flags: Option<u8>,
    /// Flag masks that conditions ask for.
    pub(crate) pairs: Vec<u8>,
    /// The enum of the pending operation, when a field depends on it.
    pub(crate) pending: Option<TypeId>,
}

impl<'a> FieldsResolver<'a> {
    pub(crate) fn new(scope: Scope<'a>) -> Self {
        Self {
            scope,
            done: Vec::new(),
            command_flags: None,
            pairs: Vec::new(),
            pending: None,
        }
    }

    pub(crate) fn for_command(scope: Scope<'a>, flags: u8) -> Self {
        Self {
            command_flags: Some(flags),
            ..Self::new(scope)
        }
    }

    pub(crate) fn fields(&mut self, raw: &[RawField]) -> Resolved<Fields> {
        for raw in raw {
            let field = self.field(raw)?;
            if self.done.iter().any(|other| other.name == field.name) {
                let name = field.name;
                return self
                    .scope
                    .on_line(raw.line)
                    .fail(format!("`{name}` exists already"));
            }
            self.done.push(field);
        }
        Ok(Fields {
            fields: std::mem::take(&mut self.done),
            rules: Vec::new(),
        })
    }

    pub(crate) fn field(&mut self, raw: &RawField) -> Resolved<Field> {
        let scope = self.scope.on_line(raw.line);
        let type_id = scope.type_id(&raw.type_name)?;
        let range = match (&raw.range, scope.form(type_id)) {
            (None, _) => None,
            (Some((min, max)), Form::Int { encoding, .. }) => {
                let most = Encoding::parse(encoding).map_or(0, Encoding::max);
                Some(scope.range(min, max, most)?)
            }
            (Some(_), _) => return scope.fail("only an integer has a range"),
        };
        let constant = match (&raw.constant, scope.form(type_id)) {
            (None, _) => None,
            (Some(name), Form::Int { .. }) => match name.parse() {
                Ok(value) => Some(value),
                Err(_) => return scope.fail(format!("`{name}` is not a number")),
            },
            (Some(name), _) => Some(scope.member(type_id, name)?),
        };
        let condition = match &raw.condition {
            None => None,
            Some(condition) => Some(self.condition(scope, condition)?),
        };
        let sources = self.sources(scope, type_id)?;
        let name = raw.name.clone();
        Ok(Field {
            name,
            type_id,
            range,
            constant,
            condition,
            sources,
            waives_rules: false,
        })
    }

    /// The index of an earlier field that is always present.
    fn earlier(&self, scope: Scope<'_>, name: &str) -> Resolved<usize> {
        let found = self
            .done
            .iter()
            .position(|f| f.name == name && f.condition.is_none());
        match found {
            Some(index) => Ok(index),
            None => scope.fail(format!("no earlier field `{name}` that is always present")),
        }
    }

    fn condition(&mut self, scope: Scope<'_>, raw: &RawCondition) -> Resolved<Condition> {
        match raw {
            RawCondition::Equals(name, value) => {
                let index = self.earlier(scope, name)?;
                let value = scope.member(self.done[index].type_id, value)?;
                Ok(Condition::Equals(index, value))
            }
            RawCondition::Present(name) => {
                let index = self.earlier(scope, name)?;
                match scope.form(self.done[index].type_id) {
                    Form::Blob { .. } => Ok(Condition::Present(index)),
                    _ => scope.fail(format!("`{name}` is neither text nor bytes")),
                }
            }
            RawCondition::Flags(names) => {
                let bits = scope.flags(names)?;
                if self
                    .command_flags
                    .is_none_or(|allowed| bits & !allowed != 0)
                {
                    return scope.fail("these are not flags of the command");
                }
                if !self.pairs.contains(&bits) {
                    self.pairs.push(bits);
                }
                Ok(Condition::Flags(bits))
            }
        }
    }

    /// Where the discriminators of a union come from that are not on the wire.
    ///
    /// `@context` is an earlier field of the same enum when there is one: that is how the reply
    /// route of a frozen record follows the record's own operation kind (WR-31). Otherwise it is
    /// the kind of the pending operation, which only a command has.
    fn sources(&mut self, scope: Scope<'_>, type_id: TypeId) -> Resolved<Vec<Source>> {
        let Form::Union { discriminators, .. } = scope.form(type_id) else {
            return Ok(Vec::new());
        };
        let mut sources = Vec::new();
        for discriminator in discriminators {
            let wanted = scope.type_id(&discriminator.type_name)?;
            match discriminator.origin {
                Origin::Wire => {}
                Origin::Field => {
                    let index = self.earlier(scope, &discriminator.name)?;
                    if self.done[index].type_id != wanted {
                        let name = &discriminator.name;
                        return scope.fail(format!("`{name}` is of another type"));
                    }
                    sources.push(Source::Field(index));
                }
                Origin::Context => {
                    let same = |f: &Field| f.type_id == wanted && f.condition.is_none();
                    if let Some(index) = self.done.iter().position(same) {
                        sources.push(Source::Field(index));
                    } else if self.command_flags.is_some() {
                        self.pending = Some(wanted);
                        sources.push(Source::Pending);
                    } else {
                        return scope.fail("only a command knows the pending operation");
                    }
                }
            }
        }
        Ok(sources)
    }
}
