//! What the command prints in the end: a row per file, the failures, the total.

use anyhow::{Result, bail};

use super::sheet::{Sheet, cut};
use crate::report::{Table, say};

/// Lines of prose are broken here, so that they fit a screen.
const WIDTH: usize = 120;
/// So many failures of one file are shown: the first ones usually explain the others.
const SHOWN: usize = 30;
/// A sentence about a failure is not longer than a few lines.
const LETTERS: usize = 600;

/// Prints the table, the failures and the total; an error when anything failed.
pub(super) fn report(results: &[(String, Sheet)]) -> Result<()> {
    let mut table = Table::new(["file", "vectors", "passed", "failed", "later part"]);
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
        table.row([path, all, good, bad, rest]);
        vectors += sheet.vectors();
        passed += sheet.passed;
        failed += sheet.failures.len();
        later += sheet.later;
    }
    say(&table.to_string());
    for block in [notes(results), failures(results)] {
        if !block.is_empty() {
            say(&format!("\n{}", block.join("\n")));
        }
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

fn notes(results: &[(String, Sheet)]) -> Vec<String> {
    let notes = results
        .iter()
        .flat_map(|(path, sheet)| sheet.notes.iter().map(move |note| (path, note)));
    notes
        .flat_map(|(path, note)| wrapped(&format!("{path}: {note}"), "", "    "))
        .collect()
}

/// A line with the path for every file that has failures, and the failures below it.
fn failures(results: &[(String, Sheet)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, sheet) in results
        .iter()
        .filter(|(_, sheet)| !sheet.failures.is_empty())
    {
        lines.push(format!("failed in {path}"));
        for failure in sheet.failures.iter().take(SHOWN) {
            let text = cut(&format!("{}: {}", failure.name, failure.what), LETTERS);
            lines.extend(wrapped(&text, "  ", "      "));
        }
        match sheet.failures.len().saturating_sub(SHOWN) {
            0 => {}
            more => lines.push(format!("  and {more} more")),
        }
    }
    lines
}

/// The text in lines of at most [`WIDTH`] letters, broken at spaces where there are any. What a file
/// says may hold anything, so control characters are not printed.
pub(super) fn wrapped(text: &str, first: &str, rest: &str) -> Vec<String> {
    let visible = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    let text: String = text.chars().map(visible).collect();
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for mut word in text.split(' ') {
        loop {
            let used = line.chars().count().saturating_add(usize::from(!empty));
            let room = WIDTH.saturating_sub(used);
            if word.chars().count() <= room {
                line.push_str(if empty { "" } else { " " });
                line.push_str(word);
                empty = false;
                break;
            }
            if empty && let Some((end, _)) = word.char_indices().nth(room) {
                let (head, tail) = word.split_at(end);
                line.push_str(head);
                word = tail;
            }
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            empty = true;
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_fit_a_screen_and_say_where_they_are() {
        let mut sheet = Sheet::default();
        for number in 0..45 {
            sheet.fail(
                &format!("vector {number}"),
                format!("{} {}", "word ".repeat(60), "ab".repeat(200)),
            );
        }
        let mut other = Sheet::default();
        other.fail("escape", "\u{1b}[2J\nx");
        let good = Sheet::default();
        let path = |name: &str| format!("fixtures/golden/{name}.json");
        let lines = failures(&[(path("a"), sheet), (path("b"), good), (path("c"), other)]);
        assert!(
            lines.iter().all(|line| line.chars().count() <= WIDTH),
            "{lines:?}"
        );
        assert_eq!(lines[0], "failed in fixtures/golden/a.json");
        let starts = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!(starts("  vector "), SHOWN);
        let end: Vec<_> = lines.iter().rev().take(3).rev().collect();
        assert_eq!(
            end,
            [
                "  and 15 more",
                "failed in fixtures/golden/c.json",
                "  escape: \u{fffd}[2J\u{fffd}x",
            ]
        );
    }

    #[test]
    fn lines_are_broken_at_spaces_and_words_only_when_they_are_longer_than_a_line() {
        assert_eq!(wrapped("a b", "- ", "  "), ["- a b"]);
        let long = "x".repeat(WIDTH);
        assert_eq!(wrapped(&format!("a {long} b"), "", ""), ["a", &long, "b"]);
        let longer = "é".repeat(WIDTH + 1);
        assert_eq!(wrapped(&longer, "", "  "), [&"é".repeat(WIDTH), "  é"]);
    }
}
