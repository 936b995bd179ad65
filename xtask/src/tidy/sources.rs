//! Rust files: length, module docs, and what must not be written in them.

use crate::testcode::test_lines;
use crate::tree::{Files, Problem, texts};

/// Longer files are split; 150 to 400 lines are the aim.
const LINES_MAX: usize = 800;

/// Checks every Rust file of the project.
pub(super) fn check(files: &Files) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in texts(files, ".rs") {
        check_head(path, text, &mut problems);
        check_lines(path, text, &mut problems);
    }
    problems
}

fn check_head(path: &str, text: &str, problems: &mut Vec<Problem>) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        problems.push(Problem::of(
            path,
            format!("{lines} lines, at most {LINES_MAX}: split it"),
        ));
    }
    let first = text.lines().find(|line| !line.trim().is_empty());
    if !first.is_some_and(|line| line.starts_with("//!")) {
        problems.push(Problem::of(
            path,
            "no module docs (`//!`) at the head of the file",
        ));
    }
}

fn check_lines(path: &str, text: &str, problems: &mut Vec<Problem>) {
    let in_test = test_lines(text);
    let test_file = path
        .split('/')
        .any(|part| part == "tests" || part == "tests.rs");
    let mut before = "";
    for (at, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let excused = std::mem::replace(&mut before, code).starts_with("// Sleep: ");
        let mut say = |what: &str| problems.push(Problem::at(path, at, what));
        if has_open_todo(line) {
            say("a to-do without an issue number: write it as `(#12)` after the word");
        }
        if code.starts_with("#[ignore") {
            say("an ignored test: fix it or delete it");
        }
        if code.starts_with("#[should_panic") {
            say("`should_panic` also passes on the wrong panic: assert on the error");
        }
        if is_ignored_example(code) {
            say("an `ignore`d example is never compiled: use `no_run` or make it run");
        }
        if (test_file || in_test.get(at) == Some(&true)) && sleeps(code) && !excused {
            say(
                "a sleep in a test: wait for the event, not for time; where time itself is what is \
                 tested, say so in a comment `// Sleep: …` above",
            );
        }
    }
}

/// The words are put together so that this file does not find itself.
const OPEN: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

fn has_open_todo(line: &str) -> bool {
    OPEN.iter().any(|word| {
        line.match_indices(word).any(|(at, _)| {
            let before = line.get(..at).and_then(|text| text.chars().next_back());
            let after = line
                .get(at.saturating_add(word.len())..)
                .unwrap_or_default();
            let whole = !before.is_some_and(is_word) && !after.starts_with(is_word);
            whole && !has_issue_number(after)
        })
    })
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn has_issue_number(after: &str) -> bool {
    let number = after
        .strip_prefix("(#")
        .and_then(|rest| rest.split_once(')'));
    number
        .is_some_and(|(digits, _)| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

fn is_ignored_example(code: &str) -> bool {
    let doc = code
        .strip_prefix("///")
        .or_else(|| code.strip_prefix("//!"));
    let fence = doc.and_then(|text| text.trim_start().strip_prefix("```"));
    fence.is_some_and(|attributes| attributes.split(',').any(|one| one.trim() == "ignore"))
}

/// Catches `thread::sleep`, `tokio::time::sleep` and their imports, `sleep_until` too.
fn sleeps(code: &str) -> bool {
    let code = code.split("//").next().unwrap_or_default();
    ["thread::sleep", "time::sleep"]
        .iter()
        .any(|call| code.contains(call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::plant;

    fn places(path: &str, text: &str) -> Vec<String> {
        check(&plant([(path, text)]))
            .into_iter()
            .map(|found| found.place)
            .collect()
    }

    #[test]
    fn a_fine_file_has_no_problem() {
        assert_eq!(places("a.rs", "//! Docs.\n\nfn a() {}\n"), [""; 0]);
    }

    #[test]
    fn a_file_of_801_lines_is_too_long() {
        let docs = "//! Docs.\n";
        assert_eq!(places("a.rs", &docs.repeat(800)), [""; 0]);
        assert_eq!(places("a.rs", &docs.repeat(801)), ["a.rs"]);
    }

    #[test]
    fn a_file_without_module_docs_is_found() {
        assert_eq!(places("a.rs", "\nuse x;\n//! Too late.\n"), ["a.rs"]);
        assert_eq!(places("a.rs", ""), ["a.rs"]);
    }

    #[test]
    fn an_open_todo_needs_an_issue_number() {
        let line = |word: &str| format!("//! Docs.\n// {}{word}\n", OPEN[0]);
        assert_eq!(places("a.rs", &line(": later")), ["a.rs:2"]);
        assert_eq!(places("a.rs", &line("(#): later")), ["a.rs:2"]);
        assert_eq!(places("a.rs", &line("(#12): later")), [""; 0]);
        assert_eq!(places("a.rs", &line("S is another word")), [""; 0]);
    }

    #[test]
    fn ignored_and_panicking_tests_are_found() {
        let text = "//! Docs.\n#[test]\n#[ignore]\nfn a() {}\n    #[should_panic(expected = 1)]\n";
        assert_eq!(places("a.rs", text), ["a.rs:3", "a.rs:5"]);
    }

    #[test]
    fn an_example_that_is_never_compiled_is_found() {
        assert_eq!(
            places("a.rs", "//! Docs.\n/// ```rust,ignore\n"),
            ["a.rs:2"]
        );
        assert_eq!(places("a.rs", "//! Docs.\n/// ```no_run\n"), [""; 0]);
    }

    #[test]
    fn sleeping_is_found_in_tests_only() {
        let call = concat!("std::thread::", "sleep(d);");
        let code = format!("//! Docs.\nfn a() {{\n    {call}\n}}\n");
        assert_eq!(
            places("crates/x/tests/a.rs", &code),
            ["crates/x/tests/a.rs:3"]
        );
        assert_eq!(places("crates/x/src/a.rs", &code), [""; 0]);
        let inner = format!("//! Docs.\n#[cfg(test)]\nmod tests {{\n    {call}\n}}\n");
        assert_eq!(places("crates/x/src/a.rs", &inner), ["crates/x/src/a.rs:4"]);
        let excused = format!("//! Docs.\nfn a() {{\n    // Sleep: a fault.\n    {call}\n}}\n");
        assert_eq!(places("crates/x/tests/a.rs", &excused), [""; 0]);
        let comment = format!("//! Docs.\n// {call}\n");
        assert_eq!(places("crates/x/tests/a.rs", &comment), [""; 0]);
    }
}
