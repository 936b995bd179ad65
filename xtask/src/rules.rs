//! `cargo xtask rules`: rule ids × code × tests.
//!
//! `docs/rules.md` lists the ids, a section per contract page. An id counts as implemented when a
//! source file of the product cites it outside of tests, and as tested when a test cites it. The
//! last cell of a row may excuse an id: `later: part N`, `later: spots`, or `not code: reason`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Result, bail};

use crate::report::{Table, say};
use crate::testcode::test_lines;
use crate::tree::{self, Files, Problem, judge, texts};
use crate::{layers, run};

const RULES: &str = "docs/rules.md";
const CONTRACT: &str = "../shared/contract";

/// One row of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    id: String,
    statement: String,
    /// `later: …` or `not code: …`.
    excuse: Option<String>,
}

/// The rules of one contract page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Page {
    /// File name of the page, for example `wire.md`.
    name: String,
    /// The ids that the section is about, prefix and numbers; all of the page when there are none.
    part: Vec<(String, RangeInclusive<u64>)>,
    rules: Vec<Rule>,
}

impl Page {
    /// `wire.md`, or `wire.md: WR-1 to WR-9, WR-12`.
    fn of(heading: &str) -> Self {
        let (name, part) = heading.split_once(':').unwrap_or((heading, ""));
        let ranges = part.split(',').filter_map(|range| {
            let (from, to) = range.split_once(" to ").unwrap_or((range, range));
            let (prefix, from) = numbered(from.trim())?;
            let (_, to) = numbered(to.trim())?;
            Some((prefix.to_owned(), from..=to))
        });
        Self {
            name: name.trim().to_owned(),
            part: ranges.collect(),
            rules: Vec::new(),
        }
    }

    /// Whether an id of the page belongs to the section.
    fn covers(&self, id: &str) -> bool {
        let covered = |(prefix, number): (&str, u64)| {
            let mut part = self.part.iter();
            part.any(|(name, numbers)| name == prefix && numbers.contains(&number))
        };
        self.part.is_empty() || numbered(id).is_some_and(covered)
    }
}

/// The two parts of an id.
fn numbered(id: &str) -> Option<(&str, u64)> {
    let (prefix, number) = id.rsplit_once('-')?;
    Some((prefix, number.parse().ok()?))
}

/// Where an id is cited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cited {
    code: BTreeSet<String>,
    tests: BTreeSet<String>,
}

/// Lists what lacks code or test; `--all` lists every id.
pub(crate) fn command(args: &[String]) -> Result<()> {
    run::only_flags(args, &["--all"])?;
    let files = tree::files()?;
    let Some(document) = files.get(RULES).and_then(|bytes| tree::text(bytes)) else {
        bail!("{RULES} does not exist");
    };
    let pages = pages(document);
    let citations = citations(&files);
    let (table, lacking) = table(&pages, &citations, run::flag(args, "--all"));
    if !table.is_empty() {
        say(&table.to_string());
    }
    let mut problems = unknown(&pages, &citations);
    let folder = tree::root().join(CONTRACT);
    if folder.is_dir() {
        problems.extend(compare(&pages, &folder));
    } else {
        say(&format!(
            "rules: {CONTRACT} is absent, so ids are not compared with its pages"
        ));
    }
    let count: usize = pages.iter().map(|page| page.rules.len()).sum();
    if lacking > 0 {
        let what = format!("{lacking} of {count} ids lack code or a test (table above)");
        problems.push(Problem::of(RULES, what));
    }
    judge(
        "rules",
        &problems,
        &format!("{count} ids, each with code and test or with its reason"),
    )
}

/// Sections whose heading is a page name, and the rows `| ID | statement | excuse |` in them.
fn pages(document: &str) -> Vec<Page> {
    let mut pages: Vec<Page> = Vec::new();
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            pages.push(Page::of(heading));
        } else if let (Some(rule), Some(page)) = (row(line), pages.last_mut()) {
            page.rules.push(rule);
        }
    }
    pages.retain(|page| !page.rules.is_empty());
    pages
}

fn row(line: &str) -> Option<Rule> {
    let mut cells = line
        .trim()
        .strip_prefix('|')?
        .strip_suffix('|')?
        .split('|')
        .map(str::trim);
    let id = cells.next().filter(|id| is_id(id))?.to_owned();
    let statement = cells.next()?.to_owned();
    let excuse = cells
        .next()
        .filter(|cell| is_excuse(cell))
        .map(str::to_owned);
    Some(Rule {
        id,
        statement,
        excuse,
    })
}

fn is_excuse(cell: &str) -> bool {
    let filled = |start: &str| {
        cell.strip_prefix(start)
            .is_some_and(|rest| !rest.trim().is_empty())
    };
    cell == "later: spots" || filled("later: part ") || filled("not code: ")
}

/// Upper-case words and one number, joined by hyphens: `WR-6`, `T-REL-33`.
fn is_id(word: &str) -> bool {
    let Some((prefix, number)) = word.rsplit_once('-') else {
        return false;
    };
    let upper = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_uppercase());
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits && prefix.split('-').all(upper)
}

/// Every id in a line of text. A range is not expanded: each rule is cited by its own id.
fn ids(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    words
        .map(|word| word.trim_matches('-'))
        .filter(|word| is_id(word))
}

/// Who cites what. Tools and benches are left out: they talk about rules and neither obey nor prove
/// them.
fn citations(files: &Files) -> BTreeMap<String, Cited> {
    let mut found: BTreeMap<String, Cited> = BTreeMap::new();
    for (path, text) in texts(files, ".rs").filter(|(path, _)| counts(path)) {
        let all_test = is_test_file(path);
        let in_test = test_lines(text);
        for (at, line) in text.lines().enumerate() {
            for id in ids(line) {
                let cited = found.entry(id.to_owned()).or_default();
                let test = all_test || in_test.get(at) == Some(&true);
                let places = if test {
                    &mut cited.tests
                } else {
                    &mut cited.code
                };
                places.insert(path.to_owned());
            }
        }
    }
    found
}

fn counts(path: &str) -> bool {
    let folder = path
        .strip_prefix("crates/")
        .and_then(|path| path.split('/').next());
    folder.is_some_and(|folder| !folder.ends_with("bench"))
}

/// Files of `tests` folders, `tests.rs` modules, and all crates of the test layer.
fn is_test_file(path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    let test_crate = parts.next().is_some_and(layers::is_test_crate);
    test_crate || parts.any(|part| part == "tests" || part == "tests.rs")
}

/// The table to print and the number of ids that lack something and have no excuse.
fn table(pages: &[Page], citations: &BTreeMap<String, Cited>, all: bool) -> (Table, usize) {
    let mut table = Table::new(["id", "code", "tests", "rule"]);
    let mut lacking: usize = 0;
    let nowhere = Cited::default();
    for rule in pages.iter().flat_map(|page| &page.rules) {
        let cited = citations.get(&rule.id).unwrap_or(&nowhere);
        let complete = !cited.code.is_empty() && !cited.tests.is_empty();
        let fails = !complete && rule.excuse.is_none();
        if fails {
            lacking = lacking.saturating_add(1);
        }
        if fails || all {
            let excuse = rule.excuse.as_deref().unwrap_or("none");
            let (code, tests) = (brief(&cited.code, excuse), brief(&cited.tests, excuse));
            let statement: String = rule.statement.chars().take(60).collect();
            table.row([&rule.id, &code, &tests, &statement]);
        }
    }
    (table, lacking)
}

/// The first place and how many more there are.
fn brief(places: &BTreeSet<String>, none: &str) -> String {
    let Some(first) = places.first() else {
        return none.to_owned();
    };
    let first = first.strip_prefix("crates/").unwrap_or(first);
    match places.len().saturating_sub(1) {
        0 => first.to_owned(),
        more => format!("{first} +{more}"),
    }
}

/// Ids that code cites with a prefix of a delivered page, but that no row has: a slip of the pen.
fn unknown(pages: &[Page], citations: &BTreeMap<String, Cited>) -> Vec<Problem> {
    let rules = || {
        pages
            .iter()
            .flat_map(|page| &page.rules)
            .map(|rule| rule.id.as_str())
    };
    let known: BTreeSet<&str> = rules().collect();
    let prefixes: BTreeSet<&str> = rules().map(prefix).collect();
    let mut problems = Vec::new();
    for (id, cited) in citations
        .iter()
        .filter(|(id, _)| !known.contains(id.as_str()))
    {
        // A page in part says nothing of the ids outside of that part.
        let mut parts = pages.iter().filter(|page| !page.part.is_empty());
        let elsewhere = parts.any(|page| {
            let same = page.part.iter().any(|(name, _)| name == prefix(id));
            same && !page.covers(id)
        });
        if prefixes.contains(prefix(id)) && !elsewhere {
            let place = cited.code.first().or_else(|| cited.tests.first());
            let what = format!("cites {id}, which {RULES} does not have");
            problems.push(Problem::of(place.map_or("", String::as_str), what));
        }
    }
    problems
}

fn prefix(id: &str) -> &str {
    id.rsplit_once('-').map_or(id, |(prefix, _)| prefix)
}

/// The contract's page and our section name the same ids.
fn compare(pages: &[Page], folder: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    for page in pages {
        let path = folder.join(&page.name);
        let Ok(text) = std::fs::read_to_string(&path) else {
            let what = format!("section `{}`: {CONTRACT} has no such page", page.name);
            problems.push(Problem::of(RULES, what));
            continue;
        };
        problems.extend(differences(page, &text));
    }
    problems
}

fn differences(page: &Page, text: &str) -> Vec<Problem> {
    let mut theirs = defined(text);
    theirs.retain(|id| page.covers(id));
    let ours: BTreeSet<&str> = page.rules.iter().map(|rule| rule.id.as_str()).collect();
    let say = |id: &&str, what: &str| Problem::of(RULES, format!("{id}: {what} {}", page.name));
    let missing = theirs
        .difference(&ours)
        .map(|id| say(id, "has no row here but stands in"));
    let surplus = ours
        .difference(&theirs)
        .map(|id| say(id, "has a row here but is not in"));
    missing.chain(surplus).collect()
}

/// The ids that a contract page defines, as opposed to cites. A definition begins a row, a list
/// item or a sentence, and goes on with a full stop, the letter of its origin or the next cell.
fn defined(text: &str) -> BTreeSet<&str> {
    let mut defined = BTreeSet::new();
    let mut before = "";
    for line in text.lines() {
        // Running text may go on from the line above; rows, items and what follows a row do not.
        if line.is_empty() || line.starts_with(['|', '-']) || before == "|" {
            before = "";
        }
        let mut words = line.split(' ').filter(|word| !word.is_empty()).peekable();
        while let Some(word) = words.next() {
            let head = before.is_empty() || before.ends_with(['.', ';', ':']);
            let next = words.peek().copied().unwrap_or_default();
            let origin = next.trim_end_matches('.');
            let letter = origin.len() == 1 && origin.bytes().all(|byte| byte.is_ascii_lowercase());
            let id = word.strip_suffix('.').unwrap_or(word);
            let stop = id != word && !before.ends_with([';', ':']) && next != "|";
            let goes_on = letter || stop || (before.is_empty() && next == "|");
            if head && goes_on && is_id(id) {
                defined.insert(id);
            }
            // The bar or dash at the head of a line is not a word.
            if !(before.is_empty() && ["|", "-"].contains(&word)) {
                before = word;
            }
        }
        if line.starts_with('#') {
            before = "";
        }
    }
    defined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::plant;

    const DOCUMENT: &str = "\
## wire.md

| id | rule | |
|---|---|---|
| WR-1 | One. | |
| WR-2 | Two. | later: part 5 |
| WR-3 | Three. | not code: a naming rule |
| WR-4 | Four. | later: |
";

    fn lacking(sources: &[(&str, &str)]) -> String {
        let files = sources
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.as_bytes().into()));
        table(&pages(DOCUMENT), &citations(&files.collect()), false)
            .0
            .to_string()
    }

    #[test]
    fn an_id_needs_code_and_test_unless_it_is_excused() {
        let none = lacking(&[]);
        assert!(none.contains("WR-1 ") && none.contains("WR-4 "), "{none}");
        assert!(!none.contains("WR-2 ") && !none.contains("WR-3 "), "{none}");
        let code = "crates/wire/src/lib.rs";
        let both = "//! WR-1, WR-4.\n#[cfg(test)]\nmod tests {\n    /// WR-1\n}\n";
        let (left, count) = table(
            &pages(DOCUMENT),
            &citations(&plant([
                (code, both),
                ("crates/wire/tests/a.rs", "/// (WR-4)"),
            ])),
            false,
        );
        assert!(left.is_empty() && count == 0, "{left}");
        let half = lacking(&[(code, both)]);
        assert!(half.contains("WR-4  wire/src/lib.rs  none"), "{half}");
    }

    #[test]
    fn the_judge_counts_as_a_test_and_tools_and_benches_count_for_nothing() {
        let files = plant([
            ("crates/contract/src/lib.rs", "// WR-1"),
            ("xtask/src/a.rs", "// WR-2"),
            ("crates/bench/src/a.rs", "// WR-2"),
        ]);
        let found = citations(&files);
        assert!(found["WR-1"].code.is_empty() && !found["WR-1"].tests.is_empty());
        assert!(!found.contains_key("WR-2"));
    }

    #[test]
    fn an_id_that_no_row_has_is_a_slip_of_the_pen() {
        let files = plant([("crates/wire/src/a.rs", "// WR-99, CRC-32, RFC-3986")]);
        let problems = unknown(&pages(DOCUMENT), &citations(&files));
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].place, "crates/wire/src/a.rs");
    }

    #[test]
    fn ids_are_whole_words() {
        let line = "WR-1's (WR-20), WR-30/T-REL-33; xWR-5 WR-6a wr-7 WR- CRC-32C ST-7.";
        assert_eq!(
            ids(line).collect::<Vec<_>>(),
            ["WR-1", "WR-20", "WR-30", "T-REL-33", "ST-7"]
        );
    }

    #[test]
    fn a_page_defines_where_a_sentence_or_a_row_begins() {
        let text = "\
| WR-1 | a rule, see WR-2 |
WR-20. Text. ST-21. More ST-7. End
| RL-1 p | Reserve | RL-3 | see: RL-4. |
- RL-16 b Text; EX-184 d more (EX-340..357), SB-50..59; RL-6.
SES-4 those that match, see
RL-9. ST-91. More.
ST-90 d. Text of RL-5
";
        let found: Vec<_> = defined(text).into_iter().collect();
        assert_eq!(
            found,
            [
                "EX-184", "RL-1", "RL-16", "ST-21", "ST-90", "ST-91", "WR-1", "WR-20"
            ]
        );
    }

    #[test]
    fn a_section_may_be_about_a_part_of_its_page() {
        let document =
            "## relocation.md: RL-1 to RL-3, RL-9\n\n| RL-1 | One. | |\n| RL-9 | Nine. | |\n";
        let page = pages(document).remove(0);
        assert_eq!(page.name, "relocation.md");
        let problems = differences(&page, "| RL-1 |\n| RL-2 |\n| RL-4 |\n| SRC-1 |\n| RL-9 |");
        let what: Vec<_> = problems.iter().map(|problem| &problem.what[..5]).collect();
        assert_eq!(what, ["RL-2:"]);
        let files = plant([("crates/location/src/a.rs", "// RL-3, RL-4, RL-9")]);
        let problems = unknown(&[page], &citations(&files));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].what.contains("RL-3"));
    }

    #[test]
    fn a_page_and_its_section_must_name_the_same_ids() {
        let page = pages(DOCUMENT).remove(0);
        assert_eq!(
            differences(&page, "| WR-1 |\n| WR-2 |\n| WR-3 |\n| WR-4 |"),
            []
        );
        let problems = differences(&page, "| WR-1 |\n| WR-2 |\n| WR-3 |\n| WR-5 |");
        let what: Vec<_> = problems.iter().map(|problem| &problem.what[..5]).collect();
        assert_eq!(what, ["WR-5:", "WR-4:"]);
    }
}
