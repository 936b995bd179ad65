//! Documents: files that they name exist.

use std::collections::BTreeSet;

use crate::tree::{Files, Problem, texts};

/// A path in backticks is checked when it starts with one of these.
const ROOTS: [&str; 7] = [
    "crates/",
    "docs/",
    "fixtures/",
    "xtask/",
    ".ci/",
    ".cargo/",
    ".config/",
];

/// Checks the links and the paths of every Markdown file.
pub(super) fn check(files: &Files) -> Vec<Problem> {
    let known = entries(files);
    let mut problems = Vec::new();
    for (path, text) in texts(files, ".md") {
        let mut in_block = false;
        for (at, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_block = !in_block;
            }
            if in_block {
                continue;
            }
            for link in links(line) {
                if !known.contains(&resolve(path, link)) {
                    problems.push(Problem::at(path, at, format!("dead link `{link}`")));
                }
            }
            for name in paths(line) {
                if !known
                    .iter()
                    .any(|entry| matches(name.trim_end_matches('/'), entry))
                {
                    problems.push(Problem::at(path, at, format!("no such file: `{name}`")));
                }
            }
        }
    }
    problems
}

/// Every file and every folder.
fn entries(files: &Files) -> BTreeSet<String> {
    let mut entries = BTreeSet::new();
    for path in files.keys() {
        let folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        entries.extend(folders.map(str::to_owned));
        entries.insert(path.clone());
    }
    entries
}

/// Targets of `[text](target)` inside the project, without the heading that they point to.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let ours = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    ours.filter_map(|target| target.split('#').next())
        .filter(|target| !target.is_empty())
}

/// Words in backticks that look like a path of the project. `NAME`, `<name>` and `…` stand for
/// something else and are passed over.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|word| {
        let ours = ROOTS.iter().any(|root| word.starts_with(root));
        ours && !word.contains([' ', '<', '…', '{']) && !word.contains("NAME")
    })
}

/// The path that a link of a document means, from the top of the project.
fn resolve(document: &str, link: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether an entry is what the pattern names; `*` stands for anything but a slash.
fn matches(pattern: &str, entry: &str) -> bool {
    let (mut left, mut right) = (pattern.split('/'), entry.split('/'));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some(left), Some(right)) if part_matches(left, right) => {}
            _ => return false,
        }
    }
}

fn part_matches(pattern: &str, part: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == part,
        Some((head, tail)) => part
            .strip_prefix(head)
            .is_some_and(|rest| rest.ends_with(tail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::plant;

    fn places(text: &str) -> Vec<String> {
        let files = plant([
            ("docs/a.md", text),
            ("docs/b.md", ""),
            ("crates/x/src/lib.rs", ""),
        ]);
        check(&files).into_iter().map(|found| found.what).collect()
    }

    #[test]
    fn what_exists_is_fine() {
        let text = "[b](b.md) [b](b.md#part) [x](../crates/x) [up](#here) [w](https://a.example/b)
`crates/x/src/lib.rs` `crates/x/` `crates/*/src/*.rs` `crates/NAME` `docs/<name>.md` `other/y`
```sh
cat `docs/none.md`
```
";
        assert_eq!(places(text), [""; 0]);
    }

    #[test]
    fn a_dead_link_and_a_dead_path_are_found() {
        assert_eq!(places("see [c](c.md)"), ["dead link `c.md`"]);
        assert_eq!(places("see [x](crates/x)"), ["dead link `crates/x`"]);
        assert_eq!(
            places("see `crates/y/src/lib.rs`"),
            ["no such file: `crates/y/src/lib.rs`"]
        );
        assert_eq!(
            places("see `crates/*/src/*.lua`"),
            ["no such file: `crates/*/src/*.lua`"]
        );
    }
}
