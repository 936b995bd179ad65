//! What commands print: plain lines and aligned tables.

use std::fmt::{self, Write as _};
use std::io::Write as _;

/// Prints one line (or several) on standard output.
pub(crate) fn say(text: &str) {
    if cfg!(test) {
        // The findings of a planted defect would only confuse who reads the output of the tests.
        return;
    }
    if writeln!(std::io::stdout().lock(), "{text}").is_err() {
        // The reader of a pipe has left; nobody is there to be told anything more.
        std::process::exit(1);
    }
}

/// Prints one line (or several) on standard error.
pub(crate) fn complain(text: &str) {
    // Nothing can be done when even this fails.
    writeln!(std::io::stderr().lock(), "{text}").ok();
}

/// Rows of text whose columns line up.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    pub(crate) fn new<const N: usize>(heads: [&str; N]) -> Self {
        Self {
            rows: vec![heads.map(str::to_owned).to_vec()],
        }
    }

    /// Adds a row; it should have as many cells as there are heads.
    pub(crate) fn row<const N: usize>(&mut self, cells: [&str; N]) {
        self.rows.push(cells.map(str::to_owned).to_vec());
    }

    /// Whether nothing but the heads is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                write!(line, "{cell:<width$}  ")?;
            }
            if index > 0 {
                out.write_str("\n")?;
            }
            out.write_str(line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_space() {
        let mut table = Table::new(["id", "rule"]);
        assert!(table.is_empty());
        table.row(["WR-10", "x"]);
        table.row(["…", ""]);
        assert_eq!(table.to_string(), "id     rule\nWR-10  x\n…");
    }
}
