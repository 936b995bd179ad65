//! Reads the notation of the contract file into [`crate::syntax`].

use crate::lexer::Token;
use crate::syntax::{
    Decl, Form, Origin, RawCase, RawCommand, RawCondition, RawDiscriminator, RawEntry, RawField,
    RawFields, RawKeys, RawList,
};
use crate::tokens::{Parsed, Parser};

/// A contract file that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
#[non_exhaustive]
pub struct ParseError {
    /// Line of the file, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

impl ParseError {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
        }
    }
}

/// Reads every declaration of `text`.
pub(crate) fn parse(text: &str) -> Parsed<Vec<Decl>> {
    let mut parser = Parser::new(text)?;
    let mut decls = Vec::new();
    while parser.peek().is_some() {
        decls.push(parser.decl()?);
    }
    Ok(decls)
}

/// Declarations.
impl Parser {
    fn decl(&mut self) -> Parsed<Decl> {
        let line = self.line();
        let keyword = self.word("a declaration")?;
        if keyword == "command" {
            return self.command(line);
        }
        let name = self.word("a name")?;
        let form = match keyword.as_str() {
            "bound" => {
                self.mark("=")?;
                Form::Bound(self.amount()?)
            }
            "int" | "bytes" | "text" | "fixed" => self.scalar(&keyword)?,
            "enum" => self.enumeration()?,
            "struct" => {
                let fields = self.block()?;
                Form::Struct(RawFields {
                    fields,
                    rules: self.rules()?,
                })
            }
            "union" => self.union()?,
            "envelope" => {
                self.version()?;
                let (prefix, max) = (self.labelled("len")?, self.maximum()?);
                let fields = self.block()?;
                let fields = RawFields {
                    fields,
                    rules: self.rules()?,
                };
                Form::Envelope {
                    prefix,
                    max,
                    fields,
                }
            }
            "envelope-list" => {
                self.version()?;
                let (count, max) = (self.labelled("count")?, self.maximum()?);
                Form::EnvelopeList {
                    count,
                    max,
                    list: self.list()?,
                }
            }
            "vector" => {
                let (count, max) = (self.labelled("count")?, self.maximum()?);
                Form::Vector {
                    count,
                    max,
                    list: self.list()?,
                }
            }
            "tlv" => self.tlv()?,
            "durable" => {
                let (magic, body) = (self.labelled("magic")?, self.labelled("body")?);
                Form::Durable { magic, body }
            }
            other => {
                return Err(ParseError::new(
                    line,
                    format!("unknown declaration `{other}`"),
                ));
            }
        };
        Ok(Decl { line, name, form })
    }

    /// `int`, `bytes`, `text` and, because nothing else is left, `fixed`.
    fn scalar(&mut self, keyword: &str) -> Parsed<Form> {
        match keyword {
            "int" => {
                let encoding = self.word("an encoding")?;
                let (min, max) = self.range()?;
                Ok(Form::Int { encoding, min, max })
            }
            "bytes" | "text" => {
                let prefix = self.labelled("len")?;
                let (min, max) = self.range()?;
                Ok(Form::Blob {
                    is_text: keyword == "text",
                    prefix,
                    min,
                    max,
                })
            }
            _ => Ok(Form::Fixed(self.amount()?)),
        }
    }

    fn enumeration(&mut self) -> Parsed<Form> {
        let encoding = self.word("an encoding")?;
        let mut members = Vec::new();
        while matches!(self.peek_second(), Some(Token::Mark("="))) {
            let name = self.word("a member")?;
            self.mark("=")?;
            members.push((name, self.amount()?));
        }
        if members.is_empty() {
            self.fail("a member")
        } else {
            Ok(Form::Enum { encoding, members })
        }
    }

    fn union(&mut self) -> Parsed<Form> {
        self.keyword("on")?;
        let mut discriminators = vec![self.discriminator()?];
        while self.accept(",") {
            discriminators.push(self.discriminator()?);
        }
        let prefix = if self.accept_word("nolen") {
            None
        } else {
            Some(self.labelled("len")?)
        };
        self.mark("{")?;
        let mut cases = Vec::new();
        while !self.accept("}") {
            let line = self.line();
            let mut labels = Vec::new();
            if !self.accept("*") {
                labels.push(self.word("a case")?);
                while self.accept("+") {
                    labels.push(self.word("a case")?);
                }
            }
            cases.push(RawCase {
                line,
                labels,
                fields: self.block()?,
            });
        }
        Ok(Form::Union {
            discriminators,
            prefix,
            cases,
        })
    }

    fn discriminator(&mut self) -> Parsed<RawDiscriminator> {
        let name = self.word("a discriminator")?;
        self.mark(":")?;
        let type_name = self.word("a type")?;
        let origin = if !self.accept("@") {
            Origin::Wire
        } else if self.accept_word("field") {
            Origin::Field
        } else if self.accept_word("context") {
            Origin::Context
        } else {
            return self.fail("`field` or `context`");
        };
        Ok(RawDiscriminator {
            name,
            type_name,
            origin,
        })
    }

    /// `of TYPE sorted(...) unique(...)`
    fn list(&mut self) -> Parsed<RawList> {
        self.keyword("of")?;
        let element = self.word("a type")?;
        Ok(RawList {
            element,
            sorted: self.keys("sorted")?,
            unique: self.keys("unique")?,
        })
    }

    fn keys(&mut self, label: &str) -> Parsed<Option<RawKeys>> {
        if !self.accept_word(label) {
            return Ok(None);
        }
        self.mark("(")?;
        let fields = self.words("a field")?;
        let mode = if self.accept(":") {
            Some(self.word("an order")?)
        } else {
            None
        };
        self.mark(")")?;
        Ok(Some(RawKeys { fields, mode }))
    }

    fn tlv(&mut self) -> Parsed<Form> {
        let total = self.labelled("total")?;
        let (id, length) = (self.labelled("id")?, self.labelled("len")?);
        let mut entries = Vec::new();
        while matches!(self.peek(), Some(Token::Word(word)) if word.parse::<u64>().is_ok()) {
            let id = self.amount()?;
            let field = self.field()?;
            let is_required = self.accept_word("required");
            if !is_required {
                self.keyword("optional")?;
            }
            entries.push(RawEntry {
                id,
                field,
                is_required,
            });
        }
        Ok(Form::Tlv {
            total,
            id,
            length,
            entries,
        })
    }

    fn command(&mut self, line: usize) -> Parsed<Decl> {
        let id = self.amount()?;
        let name = self.word("a name")?;
        let domain = self.word("a domain")?;
        self.keyword("flags")?;
        self.mark(":")?;
        let no_flags =
            self.is_word("payload") && matches!(self.peek_second(), Some(Token::Mark(":")));
        let flags = if no_flags {
            Vec::new()
        } else {
            self.words("a flag")?
        };
        let payload = self.labelled("payload")?;
        let fields = self.block()?;
        let form = Form::Command(RawCommand {
            id,
            domain,
            flags,
            payload,
            fields,
        });
        Ok(Decl { line, name, form })
    }
}

/// Fields.
impl Parser {
    /// `{ field ; field }`; a new line separates fields as well as `;` does.
    fn block(&mut self) -> Parsed<Vec<RawField>> {
        self.mark("{")?;
        let mut fields = Vec::new();
        while !self.accept("}") {
            fields.push(self.field()?);
            if !self.accept(";") && !self.is_mark("}") && self.line() == self.last_line() {
                return self.fail("`;`, `}` or a new line");
            }
        }
        Ok(fields)
    }

    fn field(&mut self) -> Parsed<RawField> {
        let line = self.line();
        let name = self.word("a field")?;
        self.mark(":")?;
        let type_name = self.word("a type")?;
        let range = if self.accept("[") {
            let range = self.range()?;
            self.mark("]")?;
            Some(range)
        } else {
            None
        };
        let constant = if self.accept("=") {
            Some(self.word("a value")?)
        } else {
            None
        };
        let condition = if self.accept_word("if") {
            Some(self.condition()?)
        } else {
            None
        };
        Ok(RawField {
            line,
            name,
            type_name,
            range,
            constant,
            condition,
        })
    }

    fn condition(&mut self) -> Parsed<RawCondition> {
        let word = self.word("a condition")?;
        if self.accept("==") {
            return Ok(RawCondition::Equals(word, self.word("a value")?));
        }
        self.mark("(")?;
        let condition = match word.as_str() {
            "present" => RawCondition::Present(self.word("a field")?),
            "flags" => {
                let mut flags = vec![self.word("a flag")?];
                while self.accept("+") {
                    flags.push(self.word("a flag")?);
                }
                RawCondition::Flags(flags)
            }
            _ => return self.fail("`==`, `present(…)` or `flags(…)`"),
        };
        self.mark(")")?;
        Ok(condition)
    }

    /// `rules(a,b)` behind a struct or an envelope.
    fn rules(&mut self) -> Parsed<Vec<String>> {
        if !self.accept_word("rules") {
            return Ok(Vec::new());
        }
        self.mark("(")?;
        let rules = self.words("a rule")?;
        self.mark(")")?;
        Ok(rules)
    }
}
