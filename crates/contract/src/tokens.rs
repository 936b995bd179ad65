//! Moves over the tokens of a contract file and reads its small phrases.

use crate::lexer::{Lexeme, Token, lex};
use crate::parser::ParseError;
use crate::syntax::Amount;

pub(crate) type Parsed<T> = Result<T, ParseError>;

/// A position in the tokens of a contract file.
#[derive(Debug)]
pub(crate) struct Parser {
    lexemes: Vec<Lexeme>,
    at: usize,
}

impl Parser {
    pub(crate) fn new(text: &str) -> Parsed<Self> {
        Ok(Self {
            lexemes: lex(text)?,
            at: 0,
        })
    }

    /// Line of the token before the next one.
    pub(crate) fn last_line(&self) -> usize {
        self.at
            .checked_sub(1)
            .and_then(|at| self.lexemes.get(at))
            .map_or(0, |lexeme| lexeme.line)
    }

    pub(crate) fn peek(&self) -> Option<&Token> {
        self.lexemes.get(self.at).map(|lexeme| &lexeme.token)
    }

    pub(crate) fn peek_second(&self) -> Option<&Token> {
        self.lexemes.get(self.at + 1).map(|lexeme| &lexeme.token)
    }

    /// Line of the next token, or of the last one at the end of the file.
    pub(crate) fn line(&self) -> usize {
        self.lexemes
            .get(self.at)
            .or_else(|| self.lexemes.last())
            .map_or(1, |lexeme| lexeme.line)
    }

    pub(crate) fn fail<T>(&self, wanted: &str) -> Parsed<T> {
        let found = match self.peek() {
            None => "the end of the file".to_owned(),
            Some(Token::Word(word)) => format!("`{word}`"),
            Some(Token::Mark(mark)) => format!("`{mark}`"),
        };
        Err(ParseError::new(
            self.line(),
            format!("expected {wanted}, found {found}"),
        ))
    }

    pub(crate) fn is_mark(&self, mark: &str) -> bool {
        matches!(self.peek(), Some(Token::Mark(found)) if *found == mark)
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found)) if found == word)
    }

    pub(crate) fn accept(&mut self, mark: &str) -> bool {
        let found = self.is_mark(mark);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn accept_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn mark(&mut self, mark: &str) -> Parsed<()> {
        if self.accept(mark) {
            Ok(())
        } else {
            self.fail(&format!("`{mark}`"))
        }
    }

    pub(crate) fn word(&mut self, what: &str) -> Parsed<String> {
        let Some(Token::Word(word)) = self.peek() else {
            return self.fail(what);
        };
        let word = word.clone();
        self.at += 1;
        Ok(word)
    }

    pub(crate) fn keyword(&mut self, word: &str) -> Parsed<()> {
        if self.accept_word(word) {
            Ok(())
        } else {
            self.fail(&format!("`{word}`"))
        }
    }

    pub(crate) fn amount(&mut self) -> Parsed<Amount> {
        self.word("a number or a bound").map(Amount)
    }

    /// `label:WORD`
    pub(crate) fn labelled(&mut self, label: &str) -> Parsed<String> {
        self.keyword(label)?;
        self.mark(":")?;
        self.word(&format!("the value of `{label}`"))
    }

    /// `MIN..MAX`
    pub(crate) fn range(&mut self) -> Parsed<(Amount, Amount)> {
        let min = self.amount()?;
        self.mark("..")?;
        Ok((min, self.amount()?))
    }

    /// `max:BOUND`, where `-` means that only the prefix bounds it.
    pub(crate) fn maximum(&mut self) -> Parsed<Option<Amount>> {
        let max = self.labelled("max")?;
        Ok((max != "-").then_some(Amount(max)))
    }

    /// `v:u8=1`, the only version there is.
    pub(crate) fn version(&mut self) -> Parsed<()> {
        let encoding = self.labelled("v")?;
        self.mark("=")?;
        if encoding != "u8" || !self.accept_word("1") {
            return self.fail("`v:u8=1`");
        }
        Ok(())
    }

    /// Words between commas, up to a closing parenthesis.
    pub(crate) fn words(&mut self, what: &str) -> Parsed<Vec<String>> {
        let mut words = vec![self.word(what)?];
        while self.accept(",") {
            words.push(self.word(what)?);
        }
        Ok(words)
    }
}
