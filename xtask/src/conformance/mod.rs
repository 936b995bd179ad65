//! `cargo xtask conformance`: every vector file against the codec.
//!
//! A file is recognised by what it says it is. Whatever is not understood, a whole file or one
//! member, is a failure: a vector that nobody runs proves nothing.

mod checks;
mod files;
mod later;
mod listed;
mod members;
mod msgpack;
mod notation;
mod ours;
mod outcome;
mod records;
mod session;
mod sheet;
mod store;
mod stored;
mod stream;
mod strict;
#[cfg(test)]
mod tests;
mod zmp;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::report::say;
use crate::tree;
use files::Found;
use members::Members;
use sheet::{Check, Sheet, short};

const FIXTURES: &str = "fixtures";
const GOLDEN: &str = "../shared/golden";

/// Runs the vectors of one kind of file.
type Adapter = fn(&mut Members<'_>, &mut Sheet) -> Check;

/// What a file says it is, to the letter, and who runs it.
const ADAPTERS: [(&str, Adapter); 20] = [
    (ours::FORMAT, ours::vectors),
    (
        "service-wire-v1 relocation control",
        records::relocation_control,
    ),
    (
        "service-wire-v1 session relocation barrier",
        session::barrier,
    ),
    ("zlink-service-reply-relay-wire-v1", records::reply_relay),
    (JOIN_REPLY, records::join_reply),
    ("actor-join-request-v1", records::join_request),
    ("user-spot-close-v1", records::spot_close),
    ("zlink-bound-session-replaced-v1", records::session_replaced),
    (
        "zlink-service-wire-decoder-fixtures-v1",
        records::decoder_fixtures,
    ),
    ("authority-key-v1", stored::keys),
    ("authority-payload-v1", stored::authority),
    ("instance-activation-recovery-v1", stored::activation),
    ("relocation-data-chunk-v1", stored::chunk),
    ("relocation-manifest-v1", stored::manifest),
    ("relocation-envelope-v1", stored::envelope),
    ("authority-relocation-state-v1", stored::relocation_state),
    ("framework-multipart-v1", stored::parts),
    ("store-record-v1", store::records),
    ("zmp-router-capture-v1", zmp::capture),
    ("stream-capture-v1", stream::capture),
];

const JOIN_REPLY: &str = "service-wire-v1 actor join reply tail (command 20, originalOperationKind \
                          actorJoin, type actor-join-reply-tail)";

/// Runs the fixtures and the given folders; without folders also the golden vectors, if present.
pub(crate) fn command(args: &[String]) -> Result<()> {
    if let Some(flag) = args.iter().find(|arg| arg.starts_with('-')) {
        bail!("unexpected argument `{flag}`: only folders are known here");
    }
    let root = tree::root();
    let mut folders = vec![root.join(FIXTURES)];
    folders.extend(args.iter().map(PathBuf::from));
    if args.is_empty() {
        match root.join(GOLDEN) {
            golden if golden.is_dir() => folders.push(golden),
            _ => say(&format!(
                "conformance: {GOLDEN} is not there, so only {FIXTURES} is run"
            )),
        }
    }
    let mut results = Vec::new();
    for (index, folder) in folders.iter().enumerate() {
        let found = Found::under(folder);
        results.extend(run_all(&found, &root));
        // What else our own fixtures hold is known: the contract and the corpus of the fuzzers.
        if index > 0 {
            for remark in found.remarks(&shown(folder, &root)) {
                say(&outcome::wrapped(&remark, "", "    ").join("\n"));
            }
        }
    }
    outcome::report(&results)
}

/// What came of each file, under the name that is shown.
fn run_all(found: &Found, root: &Path) -> Vec<(String, Sheet)> {
    let mut results = Vec::new();
    for path in &found.files {
        let sheet = match std::fs::read(path) {
            Ok(text) => run(&text),
            Err(error) => broken(&format!("cannot be read: {error}")),
        };
        results.push((shown(path, root), sheet));
    }
    for (path, why) in &found.broken {
        results.push((shown(path, root), broken(why)));
    }
    results.sort_by(|(left, _), (right, _)| left.cmp(right));
    results
}

/// The path as it is shown: inside the project without the way to it.
fn shown(path: &Path, root: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}

/// The sheet of a file that was not even read.
fn broken(why: &str) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.fail("(file)", why);
    sheet
}

/// Runs one file.
fn run(text: &[u8]) -> Sheet {
    let mut sheet = Sheet::default();
    if let Err(what) = run_into(text, &mut sheet) {
        sheet.fail("(file)", what);
    }
    sheet
}

fn run_into(text: &[u8], sheet: &mut Sheet) -> Check {
    let file = strict::parse(text)?;
    let mut members = Members::of(&file)?;
    let mut said = None;
    for member in ["format", "schema", "fixture"] {
        if let Some(text) = members.optional_text(member)?
            && said.replace(text).is_some()
        {
            return Err("the file says more than once what it is".to_owned());
        }
    }
    let said = said.ok_or("the file does not say its `format`")?;
    if let Some(behavior) = later::BEHAVIORS.iter().find(|known| known.name == said) {
        later::count(behavior, &mut members, sheet)?;
    } else {
        let known = ADAPTERS.iter().find(|(name, _)| *name == said);
        let (_, adapter) =
            known.ok_or_else(|| format!("format `{}` is not understood", short(said)))?;
        adapter(&mut members, sheet)?;
    }
    members.done()?;
    if sheet.vectors() == 0 && sheet.later == 0 {
        return Err("there is not a single vector in the file".to_owned());
    }
    Ok(())
}
