//! `cargo xtask fixtures`: fixtures are well-formed, unchanged and complete.
//!
//! A fixture is the contract, so a changed byte must be on purpose: `fixtures/CHECKSUMS` lists every
//! file with its SHA-256 in the form of `sha256sum`, and only `--write` renews it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::report::say;
use crate::run;
use crate::tree::{self, Files, Problem, judge, texts};

const FOLDER: &str = "fixtures/";
const CHECKSUMS: &str = "fixtures/CHECKSUMS";
const CONTRACT: &str = "fixtures/contract/service-wire.contract";
const GOLDEN: &str = "fixtures/golden/";

/// The error kinds of `docs/decoding.md` (WR-5).
const ERRORS: [&str; 6] = [
    "truncated-field",
    "trailing-byte",
    "invalid-field",
    "unknown-command",
    "invalid-flags",
    "frame-count",
];

/// Checks the fixtures, or renews the checksums.
pub(crate) fn command(args: &[String]) -> Result<()> {
    run::only_flags(args, &["--write"])?;
    let files = tree::files()?;
    if run::flag(args, "--write") {
        let list = list_of(&files);
        std::fs::write(tree::root().join(CHECKSUMS), &list).context("cannot write CHECKSUMS")?;
        say(&format!(
            "fixtures: {} checksums written to {CHECKSUMS}",
            list.lines().count()
        ));
        return Ok(());
    }
    let mut problems = well_formed(&files);
    problems.extend(unchanged(&files));
    let vectors = vectors(&files);
    problems.extend(coverage(&files, &vectors));
    let fine = match vectors.len() {
        0 => "no golden vectors yet, so coverage is not checked; all else is fine".to_owned(),
        count => format!(
            "{} files, {count} golden vectors, all covered",
            listed(&files).count()
        ),
    };
    judge("fixtures", &problems, &fine)
}

/// What the checksums cover: everything but themselves and the texts about the fixtures.
fn listed(files: &Files) -> impl Iterator<Item = (&str, &[u8])> {
    let inside = files
        .iter()
        .filter_map(|(path, bytes)| Some((path.strip_prefix(FOLDER)?, bytes)));
    let listed = inside.filter(|(path, _)| *path != "CHECKSUMS" && !path.ends_with("README.md"));
    listed.map(|(path, bytes)| (path, bytes.as_slice()))
}

fn list_of(files: &Files) -> String {
    let lines = listed(files).map(|(path, bytes)| format!("{}  {path}\n", checksum(bytes)));
    lines.collect()
}

fn checksum(bytes: &[u8]) -> String {
    let mut hex = String::new();
    for byte in Sha256::digest(bytes) {
        // Writing to a string does not fail.
        write!(hex, "{byte:02x}").ok();
    }
    hex
}

fn well_formed(files: &Files) -> Vec<Problem> {
    let ours = texts(files, ".json").filter(|(path, _)| path.starts_with(FOLDER));
    let bad = ours.filter_map(|(path, text)| {
        let error = serde_json::from_str::<Value>(text).err()?;
        Some(Problem::of(path, format!("not well-formed JSON: {error}")))
    });
    bad.collect()
}

fn unchanged(files: &Files) -> Vec<Problem> {
    let list = files
        .get(CHECKSUMS)
        .and_then(|bytes| tree::text(bytes))
        .unwrap_or_default();
    let mut expected = BTreeMap::new();
    let mut problems = Vec::new();
    for (at, line) in list.lines().enumerate() {
        match line.split_once("  ") {
            Some((sum, path)) => drop(expected.insert(path, sum)),
            None => problems.push(Problem::at(CHECKSUMS, at, "not `<sha256>  <path>`")),
        }
    }
    let hint = "if this is on purpose: `cargo xtask fixtures --write`";
    for (path, bytes) in listed(files) {
        match expected.remove(path) {
            None => problems.push(Problem::of(path, format!("orphan: no checksum; {hint}"))),
            Some(sum) if sum != checksum(bytes) => {
                problems.push(Problem::of(path, format!("changed; {hint}")));
            }
            Some(_) => {}
        }
    }
    for path in expected.keys() {
        problems.push(Problem::of(
            path,
            format!("has a checksum but does not exist; {hint}"),
        ));
    }
    problems
}

/// One golden vector, as far as coverage needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Vector {
    /// A command name, or the name of a type that stands alone (`durable:NAME` for a stored format).
    subject: String,
    /// The error kind of a malformed vector.
    error: Option<String>,
}

/// The entries of the `vectors` arrays of `fixtures/golden/*.json`.
fn vectors(files: &Files) -> Vec<Vector> {
    let names = commands(files);
    let golden = texts(files, ".json").filter(|(path, _)| path.starts_with(GOLDEN));
    let files = golden.filter_map(|(_, text)| serde_json::from_str::<Value>(text).ok());
    let entries = files.filter_map(|file| file["vectors"].as_array().cloned());
    let vectors = entries.flatten().map(|vector| {
        let subject = match (&vector["command"], &vector["type"]) {
            (Value::Number(number), _) => name_of(&names, number.as_u64()),
            (Value::String(name), _) | (_, Value::String(name)) => name.clone(),
            _ => String::new(),
        };
        let error = vector["error"]
            .as_str()
            .or_else(|| vector["error"]["kind"].as_str());
        Vector {
            subject,
            error: error.map(str::to_owned),
        }
    });
    vectors.collect()
}

fn name_of(names: &BTreeMap<u64, String>, number: Option<u64>) -> String {
    number
        .and_then(|number| names.get(&number))
        .cloned()
        .unwrap_or_default()
}

/// The contract's lines `command ID NAME …`.
fn commands(files: &Files) -> BTreeMap<u64, String> {
    let lines = texts(files, CONTRACT).flat_map(|(_, text)| text.lines());
    let commands = lines.filter_map(|line| {
        let mut words = line.strip_prefix("command ")?.split(' ');
        Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
    });
    commands.collect()
}

/// The contract's lines `durable NAME …`.
fn durables(files: &Files) -> Vec<String> {
    let lines = texts(files, CONTRACT).flat_map(|(_, text)| text.lines());
    let names = lines.filter_map(|line| line.strip_prefix("durable ")?.split(' ').next());
    names.map(|name| format!("durable:{name}")).collect()
}

/// Every command and durable format has a valid vector, every error kind a malformed one, and no
/// vector has an error kind of its own invention.
fn coverage(files: &Files, vectors: &[Vector]) -> Vec<Problem> {
    if vectors.is_empty() {
        return Vec::new();
    }
    let valid = vectors.iter().filter(|vector| vector.error.is_none());
    let valid: BTreeSet<&str> = valid.map(|vector| vector.subject.as_str()).collect();
    let errors: BTreeSet<&str> = vectors
        .iter()
        .filter_map(|vector| vector.error.as_deref())
        .collect();
    let subjects = commands(files).into_values().chain(durables(files));
    let uncovered = subjects.filter(|subject| !valid.contains(subject.as_str()));
    let mut problems: Vec<Problem> = uncovered
        .map(|subject| Problem::of(&subject, "no valid golden vector"))
        .collect();
    for error in ERRORS.iter().filter(|error| !errors.contains(*error)) {
        problems.push(Problem::of(
            error,
            "no malformed golden vector with this error kind",
        ));
    }
    for error in errors.iter().filter(|error| !ERRORS.contains(error)) {
        problems.push(Problem::of(
            error,
            "a golden vector has this error kind, which is none",
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::plant;

    const WIRE: &str = "command 5 livenessProbe x { }\ncommand 16 nodeSend x {\ndurable a-v1 m\n";

    fn with_list(mut files: Files) -> Files {
        let list = list_of(&files);
        files.insert(CHECKSUMS.to_owned(), list.into_bytes());
        files
    }

    fn golden(vectors: &str) -> Vec<Problem> {
        let text = format!("{{\"vectors\": [{vectors}]}}");
        let files = plant([(CONTRACT, WIRE), ("fixtures/golden/a.json", &text)]);
        coverage(&files, &super::vectors(&files))
    }

    #[test]
    fn the_checksum_is_that_of_sha256sum() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(
            list_of(&plant([("fixtures/a", ""), ("docs/b", "")])),
            format!("{empty}  a\n")
        );
    }

    #[test]
    fn a_changed_a_missing_and_a_new_file_are_found() {
        let mut files = with_list(plant([
            ("fixtures/a", "1"),
            ("fixtures/b", "2"),
            ("fixtures/README.md", ""),
        ]));
        assert_eq!(unchanged(&files), []);
        files.insert("fixtures/a".to_owned(), b"changed".to_vec());
        files.remove("fixtures/b");
        files.insert("fixtures/c".to_owned(), Vec::new());
        let places: Vec<_> = unchanged(&files)
            .into_iter()
            .map(|found| found.place)
            .collect();
        assert_eq!(places, ["a", "c", "b"]);
    }

    #[test]
    fn malformed_json_is_found() {
        let files = plant([
            ("fixtures/a.json", "{\"a\": 1,}"),
            ("fixtures/b.json", "[]"),
        ]);
        let places: Vec<_> = well_formed(&files)
            .into_iter()
            .map(|found| found.place)
            .collect();
        assert_eq!(places, ["fixtures/a.json"]);
    }

    #[test]
    fn what_no_vector_covers_is_named() {
        assert_eq!(golden(""), [], "no vectors yet");
        let valid = r#"{"command": 5}, {"command": "nodeSend"}, {"type": "durable:a-v1"}"#;
        assert_eq!(
            golden(valid).len(),
            ERRORS.len(),
            "only the error kinds are missing"
        );
        let malformed = ERRORS.map(|kind| format!(r#"{{"command": 5, "error": "{kind}"}}"#));
        let malformed = malformed.join(",");
        let places: Vec<_> = golden(&malformed)
            .into_iter()
            .map(|found| found.place)
            .collect();
        assert_eq!(places, ["livenessProbe", "nodeSend", "durable:a-v1"]);
        assert_eq!(golden(&format!("{valid}, {malformed}")), []);
        let foreign = r#"{"type": "x", "error": {"kind": "weird"}}"#;
        assert_eq!(golden(&format!("{valid}, {malformed}, {foreign}")).len(), 1);
    }
}
