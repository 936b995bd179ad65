//! The files of the project, read once; checks work on this and not on the disk.
//!
//! So a test of a check plants its defect in a few strings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Path relative to the top of the project, with `/` on every system, to contents.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// The top folder of the project.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// Every file that git tracks or would track: what is ignored does not count.
pub(crate) fn files() -> Result<Files> {
    let root = root();
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(&root)
        .output()
        .context("cannot start git, which lists the project's files; install it")?;
    if !output.status.success() {
        bail!(
            "`git ls-files` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let mut files = Files::new();
    for name in output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let name = String::from_utf8(name.to_vec()).context("a file name is not UTF-8")?;
        let path = root.join(&name);
        // A file that was deleted but not yet committed is still listed.
        if path.is_file() {
            let bytes = std::fs::read(&path).with_context(|| format!("cannot read {name}"))?;
            files.insert(name, bytes);
        }
    }
    Ok(files)
}

/// The text of a file; `None` when it is not UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Files whose path ends in `suffix`, as text; files that are not UTF-8 are passed over.
pub(crate) fn texts<'a>(
    files: &'a Files,
    suffix: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let named = files.iter().filter(move |(path, _)| path.ends_with(suffix));
    named.filter_map(|(path, bytes)| Some((path.as_str(), text(bytes)?)))
}

/// Something wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The file, and the line where one is known.
    pub(crate) place: String,
    /// What is wrong and, where it is not obvious, what to do.
    pub(crate) what: String,
}

impl Problem {
    /// A problem of a whole file (or of something that is not a file).
    pub(crate) fn of(place: &str, what: impl Into<String>) -> Self {
        Self {
            place: place.to_owned(),
            what: what.into(),
        }
    }

    /// A problem in a line, counted from 0 as `enumerate` does.
    pub(crate) fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            place: format!("{path}:{}", line.saturating_add(1)),
            what: what.into(),
        }
    }
}

/// Prints the problems as a table and fails if there is one.
pub(crate) fn judge(command: &str, problems: &[Problem], fine: &str) -> Result<()> {
    if problems.is_empty() {
        crate::report::say(&format!("{command}: {fine}"));
        return Ok(());
    }
    let mut table = crate::report::Table::new(["place", "problem"]);
    for problem in problems {
        table.row([&problem.place, &problem.what]);
    }
    crate::report::say(&table.to_string());
    let count = problems.len();
    bail!(
        "{command} found {count} problem{}",
        if count == 1 { "" } else { "s" }
    )
}

#[cfg(test)]
pub(crate) fn plant<const N: usize>(files: [(&str, &str); N]) -> Files {
    files
        .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_problem_is_enough_to_fail() {
        assert!(judge("tidy", &[], "fine").is_ok());
        assert!(judge("tidy", &[Problem::at("a.rs", 0, "bad")], "fine").is_err());
    }
}
