//! Which lines of a Rust file are test code.

/// Marks what stands under `#[cfg(test)]` or `#[test]`, with the doc comment above it. Item ends are
/// found by indentation, which `cargo fmt` guarantees.
pub(crate) fn test_lines(text: &str) -> Vec<bool> {
    let lines: Vec<&str> = text.lines().collect();
    let mut marks = vec![false; lines.len()];
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_marker(line)) {
        let above = lines.iter().take(at).rev();
        let first = at.saturating_sub(above.take_while(|line| is_attached(line)).count());
        let indent: String = line.chars().take_while(|letter| *letter == ' ').collect();
        let mut item = lines.iter().skip(at);
        let last = at.saturating_add(item.position(|line| ends_item(line, &indent)).unwrap_or(0));
        let marked = marks.iter_mut().enumerate();
        marked
            .filter(|(line, _)| (first..=last).contains(line))
            .for_each(|(_, mark)| *mark = true);
    }
    marks
}

fn is_marker(line: &str) -> bool {
    let markers = ["#[cfg(test)]", "#[cfg(all(test", "#[test]", "#[tokio::test"];
    markers
        .iter()
        .any(|marker| line.trim_start().starts_with(marker))
}

fn is_attached(line: &str) -> bool {
    line.trim_start().starts_with("///") || line.trim_start().starts_with("#[")
}

/// The closing brace of an item with this indentation, or an item on one line: `mod tests;`.
fn ends_item(line: &str, indent: &str) -> bool {
    line.strip_prefix(indent).is_some_and(|item| {
        let one_line = item.ends_with(';') || item.ends_with("{}");
        item == "}" || (one_line && !item.starts_with([' ', '#', '/']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_code_is_found_with_its_doc_comment() {
        let text = "\
fn code() {
}

/// WR-1
#[test]
fn alone() {
    body();
}

#[cfg(test)]
mod file;

const X: u8 = 1;

#[cfg(test)]
mod tests {
    #[test]
    fn inner() {}
}
fn more() {}
";
        let marks: Vec<usize> = test_lines(text)
            .iter()
            .enumerate()
            .filter(|(_, t)| **t)
            .map(|(n, _)| n + 1)
            .collect();
        assert_eq!(marks, [4, 5, 6, 7, 8, 10, 11, 15, 16, 17, 18, 19]);
    }
}
