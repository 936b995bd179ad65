//! `cargo xtask conformance`: every vector file against the codec.
//!
//! A file is recognised by what it says it is. Whatever is not understood, a whole file or one
//! member, is a failure: a vector that nobody runs proves nothing.

mod checks;
mod listed;
mod members;
mod msgpack;
mod notation;
mod ours;
mod records;
mod session;
mod sheet;
mod store;
mod stored;
mod stream;
#[cfg(test)]
mod tests;
mod zmp;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::report::{Table, say};
use crate::tree;
use members::Members;
use sheet::{Check, Sheet};

const FIXTURES: &str = "fixtures";
const GOLDEN: &str = "../shared/golden";

/// Runs the vectors of one kind of file.
type Adapter = fn(&mut Members<'_>, &mut Sheet) -> Check;

/// What a file says it is, and who runs it. The longer names go on after these words.
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
    ("service-wire-v1 actor join reply", records::join_reply),
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

/// Behavior files, which describe what a later part does, and the members that list their cases.
const LATER: [(&str, &[&str]); 3] = [
    (
        "zlink.framework.relocation-behavior",
        &[
            "commonLifecycle",
            "optionalBranches",
            "profiles",
            "trafficScenarios",
            "journeyScenarios",
            "routeCacheCompareAndRemoveScenarios",
            "idempotencyScenarios",
            "terminalScenarios",
            "statePolicies",
        ],
    ),
    (
        "zlink.framework.serial-execution",
        &[
            "accountingScenarios",
            "arbitrationScenarios",
            "sameOwnerCalls",
        ],
    ),
    (
        "zlink.framework.message-follow-suppression",
        &["scenarios", "independentKeyMutations"],
    ),
];

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
    for folder in &folders {
        for path in files_in(folder)? {
            let text =
                std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            results.push((shown(&path, &root), run(&text)));
        }
    }
    report(&results)
}

/// The path as it is shown: inside the project without the way to it.
fn shown(path: &Path, root: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}

/// All JSON files of a folder and of the folders in it, sorted.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read the folder {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
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
    let file: Value = serde_json::from_slice(text).map_err(|e| format!("not JSON: {e}"))?;
    let mut members = Members::of(&file)?;
    let mut said = None;
    for member in ["format", "schema", "fixture"] {
        said = said.or(members.optional_text(member)?);
    }
    let said = said.ok_or("the file does not say its `format`")?;
    if let Some((_, cases)) = LATER.iter().find(|(name, _)| *name == said) {
        let count = cases.iter().map(|name| match &file[*name] {
            Value::Array(cases) => cases.len(),
            Value::Object(_) => 1,
            _ => 0,
        });
        sheet.later(count.sum());
        sheet.note("behavior of a later part: not run");
        return Ok(());
    }
    let known = ADAPTERS.iter().find(|(name, _)| {
        let rest = said.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    });
    let (_, adapter) = known.ok_or_else(|| format!("format `{said}` is not understood"))?;
    adapter(&mut members, sheet)?;
    members.done()
}

/// Prints the table, the failures and the total; an error when anything failed.
fn report(results: &[(String, Sheet)]) -> Result<()> {
    let mut table = Table::new(["file", "vectors", "passed", "failed", "later part", "note"]);
    let (mut vectors, mut passed, mut failed, mut later) = (0, 0, 0, 0);
    for (path, sheet) in results {
        let numbers = [
            sheet.vectors(),
            sheet.passed,
            sheet.failures.len(),
            sheet.later,
        ];
        let cells = numbers.map(|number| {
            if number == 0 {
                "-".to_owned()
            } else {
                number.to_string()
            }
        });
        let [all, good, bad, rest] = &cells;
        table.row([path, all, good, bad, rest, &sheet.notes.join("; ")]);
        vectors += sheet.vectors();
        passed += sheet.passed;
        failed += sheet.failures.len();
        later += sheet.later;
    }
    say(&table.to_string());
    let mut details = Table::new(["failed", "vector", "why"]);
    for (path, sheet) in results {
        for failure in &sheet.failures {
            let file = path.rsplit('/').next().unwrap_or(path);
            details.row([file, &failure.name, &failure.what]);
        }
    }
    if !details.is_empty() {
        say(&format!("\n{details}"));
    }
    let files = results.len();
    say(&format!(
        "\ntotal: {files} files, {vectors} vectors, {passed} passed, {failed} failed, {later} for later parts"
    ));
    if failed > 0 {
        bail!("conformance: {failed} of {vectors} vectors failed");
    }
    if vectors == 0 {
        bail!("conformance: there is not a single vector");
    }
    Ok(())
}
