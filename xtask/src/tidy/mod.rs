//! `cargo xtask tidy`: what no compiler checks.

mod docs;
mod manifests;
mod pages;
mod sources;

use anyhow::Result;

use crate::run;
use crate::tree::{self, Files, Problem, judge};

/// What may stand at the top. A new entry is a decision, so it is made here.
const TOP: [&str; 18] = [
    ".cargo",
    ".ci",
    ".clippy.toml",
    ".config",
    ".deny.toml",
    ".gitattributes",
    ".gitignore",
    ".rustfmt.toml",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "crates",
    "docs",
    "fixtures",
    "rust-toolchain.toml",
    "xtask",
];

/// Runs every check and prints what is wrong.
pub(crate) fn command(args: &[String]) -> Result<()> {
    run::only_flags(args, &[])?;
    let files = tree::files()?;
    judge("tidy", &check(&files), &format!("{} files", files.len()))
}

fn check(files: &Files) -> Vec<Problem> {
    let mut problems = stray_entries(files);
    problems.extend(manifests::check(files));
    problems.extend(sources::check(files));
    problems.extend(docs::check(files));
    problems.extend(pages::check(files));
    problems.extend(trailing_space(files));
    problems
}

fn stray_entries(files: &Files) -> Vec<Problem> {
    let mut tops: Vec<&str> = files
        .keys()
        .filter_map(|path| path.split('/').next())
        .collect();
    tops.dedup();
    tops.retain(|top| !TOP.contains(top));
    tops.iter()
        .map(|top| Problem::of(top, "stray entry at the top of the project"))
        .collect()
}

/// Texts that people write; fixtures are bytes and stay as they are.
fn trailing_space(files: &Files) -> Vec<Problem> {
    let mut problems = Vec::new();
    for suffix in [".rs", ".md", ".toml", ".lua", ".contract", ".ci/run"] {
        for (path, text) in tree::texts(files, suffix) {
            let bad = |line: &str| line.ends_with([' ', '\t', '\r']);
            let lines = text.split('\n').enumerate().filter(|(_, line)| bad(line));
            problems.extend(lines.map(|(at, _)| Problem::at(path, at, "trailing white space")));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::plant;

    #[test]
    fn a_stray_entry_at_the_top_is_found_once() {
        let files = plant([
            ("notes/a.txt", ""),
            ("notes/b.txt", ""),
            ("xtask/x", ""),
            ("docs/x", ""),
        ]);
        let places: Vec<_> = stray_entries(&files)
            .into_iter()
            .map(|found| found.place)
            .collect();
        assert_eq!(places, ["notes"]);
    }

    #[test]
    fn trailing_space_is_found_with_its_line() {
        let files = plant([
            ("a.rs", "fn a() {}\n \n"),
            ("b.json", "{} \n"),
            ("c.md", "fine\n"),
        ]);
        let places: Vec<_> = trailing_space(&files)
            .into_iter()
            .map(|found| found.place)
            .collect();
        assert_eq!(places, ["a.rs:2"]);
    }
}
