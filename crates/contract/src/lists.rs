//! Resolves the declarations of vectors, envelope lists and TLVs.

use crate::fields::FieldsResolver;
use crate::model::{Key, ListShape, Shape, TlvEntry, TlvShape, TypeId};
use crate::resolve::{Resolved, Scope};
use crate::syntax::{Amount, Form, Origin, RawEntry, RawKeys, RawList};

/// The bound of the total length of a TLV; the notation has no place for it (docs/decoding.md).
const TLV_BOUND: &str = "descriptorEnvelopeBytes";
/// The order of WR-60.
const AUTHORITY_ORDER: &str = "canonical-authority-key-bytes";

/// The element of a list and its order.
impl Scope<'_> {
    pub(crate) fn list(
        &self,
        is_envelope: bool,
        count: &str,
        max: Option<&Amount>,
        raw: &RawList,
    ) -> Resolved<Shape> {
        let count = self.encoding(count)?;
        let max = match max {
            // Bytes, not elements, so the encoding of the count is no limit.
            None if is_envelope => u64::MAX,
            max => self.maximum(max, count)?,
        };
        let element = self.type_id(&raw.element)?;
        self.check_free(element)?;
        let ordered = raw.sorted.as_ref().or(raw.unique.as_ref());
        let keys = match ordered {
            Some(keys) => self.keys(element, keys)?,
            None => Vec::new(),
        };
        if let (Some(sorted), Some(unique)) = (&raw.sorted, &raw.unique)
            && sorted.fields != unique.fields
        {
            return self.fail("`sorted` and `unique` name different fields");
        }
        let (is_sorted, is_unique) = (raw.sorted.is_some(), raw.unique.is_some());
        Ok(Shape::List(ListShape {
            is_envelope,
            count,
            max,
            element,
            keys,
            is_sorted,
            is_unique,
        }))
    }

    fn keys(&self, element: TypeId, raw: &RawKeys) -> Resolved<Vec<Key>> {
        let known = [
            "unsigned-wire-value",
            "utf-8-bytes",
            "wire-value-then-utf-8-bytes",
            AUTHORITY_ORDER,
        ];
        if let Some(mode) = raw.mode.as_deref().filter(|mode| !known.contains(mode)) {
            return self.fail(format!("there is no order `{mode}`"));
        }
        let by_authority = raw.mode.as_deref() == Some(AUTHORITY_ORDER);
        let mut keys = Vec::new();
        for name in &raw.fields {
            let (field, type_id) = if name == "self" {
                (None, element)
            } else {
                (Some(name.clone()), self.member_type(element, name)?)
            };
            let is_scalar = matches!(
                self.form(type_id),
                Form::Int { .. } | Form::Enum { .. } | Form::Blob { .. } | Form::Fixed(_)
            );
            if is_scalar == by_authority {
                return self.fail(format!("`{name}` cannot be compared that way"));
            }
            keys.push(Key {
                field,
                type_id,
                by_authority,
            });
        }
        Ok(keys)
    }

    fn member_type(&self, element: TypeId, name: &str) -> Resolved<TypeId> {
        let Form::Struct(raw) = self.form(element) else {
            return self.fail("the element is no struct");
        };
        match raw
            .fields
            .iter()
            .find(|field| field.name == name && field.condition.is_none())
        {
            Some(field) => self.type_id(&field.type_name),
            None => self.fail(format!("every element needs a field `{name}`")),
        }
    }

    /// A union whose discriminator stands elsewhere has no place in a list or a TLV.
    fn check_free(&self, id: TypeId) -> Resolved<()> {
        match self.form(id) {
            Form::Union { discriminators, .. }
                if discriminators.iter().any(|d| d.origin != Origin::Wire) =>
            {
                self.fail("the discriminator of the union is out of reach here")
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn tlv(
        &self,
        total: &str,
        id: &str,
        length: &str,
        raw: &[RawEntry],
    ) -> Resolved<Shape> {
        let (total, id) = (self.encoding(total)?, self.encoding(id)?);
        let mut entries: Vec<TlvEntry> = Vec::new();
        for entry in raw {
            let scope = self.on_line(entry.field.line);
            let number = scope.amount(&entry.id)?;
            if number > id.max() || entries.last().is_some_and(|last| last.id >= number) {
                return scope.fail(format!("the id {number} is out of order or range"));
            }
            scope.check_free(scope.type_id(&entry.field.type_name)?)?;
            let mut resolver = FieldsResolver::new(scope);
            let field = resolver.field(&entry.field)?;
            if field.condition.is_some() {
                return scope.fail("an entry is `required` or `optional`, not conditional");
            }
            entries.push(TlvEntry {
                id: number,
                field,
                is_required: entry.is_required,
            });
        }
        let max = self.bound(TLV_BOUND).unwrap_or_else(|| total.max());
        Ok(Shape::Tlv(TlvShape {
            total,
            max,
            id,
            length: self.encoding(length)?,
            entries,
        }))
    }
}
