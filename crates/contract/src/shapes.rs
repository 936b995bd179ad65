//! Resolves the declarations of types: scalars, structs, unions and envelopes.

use crate::fields::FieldsResolver;
use crate::model::{
    BlobShape, Case, Discriminator, EnumShape, EnvelopeShape, IntShape, Shape, UnionShape,
};
use crate::resolve::{Resolved, Scope};
use crate::rules::Rule;
use crate::syntax::{Amount, Decl, Form, Origin, RawCase, RawDiscriminator};

/// Whole declarations.
impl Scope<'_> {
    /// The shape of a type; `None` for declarations that are no types.
    pub(crate) fn shape(&self, decl: &Decl) -> Resolved<Option<Shape>> {
        Ok(Some(match &decl.form {
            Form::Bound(_) | Form::Command(_) | Form::Durable { .. } => return Ok(None),
            Form::Int { encoding, min, max } => {
                let encoding = self.encoding(encoding)?;
                let (min, max) = self.range(min, max, encoding.max())?;
                Shape::Int(IntShape { encoding, min, max })
            }
            Form::Blob {
                is_text,
                prefix,
                min,
                max,
            } => {
                let prefix = self.encoding(prefix)?;
                let (min, max) = self.range(min, max, prefix.max())?;
                Shape::Blob(BlobShape {
                    is_text: *is_text,
                    prefix,
                    min,
                    max,
                })
            }
            Form::Fixed(size) => match usize::try_from(self.amount(size)?) {
                Ok(size) => Shape::Fixed(size),
                Err(_) => return self.fail("the size is too large"),
            },
            Form::Enum { encoding, members } => self.enumeration(encoding, members)?,
            Form::Struct(raw) => {
                let mut fields = FieldsResolver::new(*self).fields(&raw.fields)?;
                fields.rules = self.rules(&decl.name, &raw.rules)?;
                if Rule::waives_operation_id(&decl.name) {
                    for field in fields.fields.iter_mut().filter(|f| f.name == "operationId") {
                        field.waives_rules = true;
                    }
                }
                Shape::Struct(fields)
            }
            Form::Union {
                discriminators,
                prefix,
                cases,
            } => self.union(&decl.name, discriminators, prefix.as_deref(), cases)?,
            Form::Envelope {
                prefix,
                max,
                fields: raw,
            } => {
                let prefix = self.encoding(prefix)?;
                let mut fields = FieldsResolver::new(*self).fields(&raw.fields)?;
                fields.rules = self.rules(&decl.name, &raw.rules)?;
                let max = self.maximum(max.as_ref(), prefix)?;
                Shape::Envelope(EnvelopeShape {
                    prefix,
                    max,
                    fields,
                })
            }
            Form::EnvelopeList { count, max, list } => {
                self.list(true, count, max.as_ref(), list)?
            }
            Form::Vector { count, max, list } => self.list(false, count, max.as_ref(), list)?,
            Form::Tlv {
                total,
                id,
                length,
                entries,
            } => self.tlv(total, id, length, entries)?,
        }))
    }

    fn rules(&self, name: &str, written: &[String]) -> Resolved<Vec<Rule>> {
        let mut rules = Rule::of_type(name);
        for rule in written {
            match Rule::named(rule) {
                Some(rule) if !rules.contains(&rule) => rules.push(rule),
                Some(_) => {}
                None => return self.fail(format!("there is no rule `{rule}`")),
            }
        }
        Ok(rules)
    }

    fn enumeration(&self, encoding: &str, raw: &[(String, Amount)]) -> Resolved<Shape> {
        let encoding = self.encoding(encoding)?;
        let mut members: Vec<(String, u64)> = Vec::new();
        for (name, value) in raw {
            let value = self.amount(value)?;
            if value > encoding.max() {
                return self.fail(format!("`{name}` does not fit the encoding"));
            }
            if members.iter().any(|(n, v)| n == name || *v == value) {
                return self.fail(format!("`{name}` or its value exists already"));
            }
            members.push((name.clone(), value));
        }
        let is_bool = members
            .iter()
            .map(|(n, v)| (n.as_str(), *v))
            .eq([("false", 0), ("true", 1)]);
        Ok(Shape::Enum(EnumShape {
            encoding,
            members,
            is_bool,
        }))
    }

    fn union(
        &self,
        name: &str,
        raw: &[RawDiscriminator],
        prefix: Option<&str>,
        raw_cases: &[RawCase],
    ) -> Resolved<Shape> {
        let mut discriminators = Vec::new();
        for RawDiscriminator {
            name,
            type_name,
            origin,
        } in raw
        {
            let type_id = self.type_id(type_name)?;
            if !matches!(self.form(type_id), Form::Enum { .. }) {
                return self.fail(format!("the discriminator `{name}` is no enum"));
            }
            let is_on_wire = *origin == Origin::Wire;
            discriminators.push(Discriminator {
                name: name.clone(),
                type_id,
                is_on_wire,
            });
        }
        let mut cases: Vec<Case> = Vec::new();
        for raw_case in raw_cases {
            let case = self
                .on_line(raw_case.line)
                .case(name, &discriminators, raw_case)?;
            if cases.iter().any(|other| other.labels == case.labels) {
                return self.on_line(raw_case.line).fail("the case exists already");
            }
            cases.push(case);
        }
        self.check_cover(&discriminators, &cases)?;
        let prefix = prefix.map(|prefix| self.encoding(prefix)).transpose()?;
        Ok(Shape::Union(UnionShape {
            discriminators,
            prefix,
            cases,
        }))
    }

    fn case(&self, union: &str, on: &[Discriminator], raw: &RawCase) -> Resolved<Case> {
        let mut fields = FieldsResolver::new(*self).fields(&raw.fields)?;
        if let Some(both) = fields
            .fields
            .iter()
            .find(|f| on.iter().any(|d| d.name == f.name))
        {
            return self.fail(format!("`{}` is also a discriminator", both.name));
        }
        fields.rules = Rule::of_case(union, &raw.labels.join("+"));
        if raw.labels.is_empty() {
            return Ok(Case {
                labels: None,
                fields,
            });
        }
        if raw.labels.len() != on.len() {
            return self.fail("a case needs one label per discriminator");
        }
        let labels = raw
            .labels
            .iter()
            .zip(on)
            .map(|(label, on)| self.member(on.type_id, label));
        Ok(Case {
            labels: Some(labels.collect::<Resolved<_>>()?),
            fields,
        })
    }

    /// Every combination of discriminators must have its case.
    fn check_cover(&self, on: &[Discriminator], cases: &[Case]) -> Resolved<()> {
        let combinations = on
            .iter()
            .map(|discriminator| match self.form(discriminator.type_id) {
                Form::Enum { members, .. } => members.len(),
                _ => 0,
            });
        let has_default = cases.iter().any(|case| case.labels.is_none());
        if has_default || cases.len() == combinations.product::<usize>() {
            return Ok(());
        }
        self.fail("a member of the discriminator has no case")
    }
}
