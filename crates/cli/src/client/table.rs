//! Names and values in two columns, or rows below their headings.

use std::fmt::{self, Write};

/// Text in aligned columns; numbers to the right.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [&str; N]) -> &mut Self {
        self.rows.push(cells.map(visible).to_vec());
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell: &String| cell.chars().count())
                .max()
        };
        let widths: Vec<usize> = (0..columns)
            .map(|column| width(column).unwrap_or(0))
            .collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                write!(line, "{cell:width$}  ")?;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Ids are texts of others: what would move the cursor is shown as its escape.
fn visible(text: &str) -> String {
    text.chars()
        .flat_map(|letter| -> Box<dyn Iterator<Item = char>> {
            if letter.is_control() {
                Box::new(letter.escape_default())
            } else {
                Box::new(std::iter::once(letter))
            }
        })
        .collect()
}

/// `12345` as `12,345`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new();
        table.row(["node", "left"]).row(["a", "b"]);
        assert_eq!(table.to_string(), "node  left\na     b\n");
    }

    #[test]
    fn a_text_of_others_cannot_move_the_cursor() {
        let mut table = Table::new();
        table.row(["\x1b[2J\n"]);
        assert_eq!(table.to_string(), "\\u{1b}[2J\\n\n");
    }

    #[test]
    fn thousands_are_grouped() {
        let shown = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
