//! `cargo xtask wire`: the codec as a filter, for teams of other languages.
//!
//! One JSON request per line on standard input, one answer per line on standard output, flushed per
//! line. `docs/decoding.md` has the protocol and says how values look; a line that is no request is
//! answered with its number, and the next line is read.

mod answer;
mod request;
#[cfg(test)]
mod tests;

use std::io::{BufRead, BufWriter, ErrorKind, Write};

use anyhow::{Context, Result};
use spotlane_wire::by_name;

use crate::codec;
use crate::run;
use crate::wire::answer::Answer;
use crate::wire::request::{Request, spoken};

/// Runs until standard input ends.
pub(crate) fn command(args: &[String]) -> Result<()> {
    run::only_flags(args, &[])?;
    let out = BufWriter::new(std::io::stdout().lock());
    filter(std::io::stdin().lock(), out)
}

/// Answers every line of `requests`; a reader of the answers that has left ends it without an error.
fn filter(mut requests: impl BufRead, mut answers: impl Write) -> Result<()> {
    let mut line = Vec::new();
    let mut number: u64 = 0;
    loop {
        line.clear();
        let length = requests
            .read_until(b'\n', &mut line)
            .context("cannot read standard input")?;
        if length == 0 {
            return Ok(());
        }
        number = number.saturating_add(1);
        match send(&answer(content(&line), number), &mut answers) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            sent => sent.context("cannot write to standard output")?,
        }
    }
}

fn send(answer: &Answer, answers: &mut impl Write) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    answers.write_all(&line)?;
    answers.flush()
}

/// The line without its end, which is no part of the request.
fn content(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn answer(line: &[u8], number: u64) -> Answer {
    if line.trim_ascii().is_empty() {
        let message = "the line is empty; a request is a JSON object".to_owned();
        return Answer::Bad(message, number);
    }
    let request = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => return Answer::Bad(spoken(&error), number),
    };
    perform(request).unwrap_or_else(|message| Answer::Bad(message, number))
}

fn perform(request: Request) -> Result<Answer, String> {
    Ok(match request {
        Request::Decode { frames, pending } => {
            let pending = codec::pending_of(pending.as_deref())?;
            match codec::decode(&frames, pending) {
                Ok(record) => Answer::Record(record),
                Err(error) => Answer::Refused(error),
            }
        }
        Request::Encode { record, pending } => {
            let pending = codec::pending_of(pending.as_deref())?;
            match record.and_then(|record| codec::encode(record, pending)) {
                Ok(frames) => Answer::Frames(frames),
                Err(refusal) => Answer::Unfit(refusal),
            }
        }
        Request::DecodeType { name, bytes } => match named(&name)?.decode(&bytes) {
            Ok(value) => Answer::Value(value),
            Err(error) => Answer::Refused(error),
        },
        Request::EncodeType { name, value } => {
            let named = named(&name)?;
            match value.and_then(|value| Ok(named.encode(value)?)) {
                Ok(bytes) => Answer::Bytes(bytes),
                Err(refusal) => Answer::Unfit(refusal),
            }
        }
    })
}

fn named(name: &str) -> Result<by_name::NamedType, String> {
    by_name::named_type(name).ok_or_else(|| {
        let plain = name.strip_prefix("durable:").unwrap_or(name);
        let hint = match by_name::named_type(plain) {
            Some(_) => format!("; `{plain}` is one, but has no durable format"),
            None => "; the contract file lists the names".to_owned(),
        };
        format!("there is no type `{name}` that can stand alone{hint}")
    })
}
