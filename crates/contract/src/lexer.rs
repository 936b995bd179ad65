//! Splits a contract file into words and marks, with line numbers.

use crate::parser::ParseError;

/// One token: a word (name, number or a lone `-`) or a punctuation mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Word(String),
    Mark(&'static str),
}

/// A token and the line it stands on, counted from 1.
#[derive(Clone, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) line: usize,
}

/// Longer marks first, so that `..` and `==` are found before their halves.
const MARKS: [&str; 15] = [
    "..", "==", "{", "}", ":", ";", ",", "(", ")", "[", "]", "=", "@", "*", "+",
];

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Splits `text`; a `#` starts a comment that runs to the end of its line.
pub(crate) fn lex(text: &str) -> Result<Vec<Lexeme>, ParseError> {
    let mut lexemes = Vec::new();
    for (index, whole) in text.lines().enumerate() {
        let line = index + 1;
        let mut rest = whole.split('#').next().unwrap_or_default().trim_start();
        while let Some(first) = rest.chars().next() {
            let token;
            if is_word(first) {
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                token = Token::Word(word.to_owned());
                rest = after;
            } else if let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
                token = Token::Mark(mark);
                rest = rest.strip_prefix(mark).unwrap_or_default();
            } else {
                return Err(ParseError::new(
                    line,
                    format!("unexpected character {first:?}"),
                ));
            }
            lexemes.push(Lexeme { token, line });
            rest = rest.trim_start();
        }
    }
    Ok(lexemes)
}
