//! How results are printed.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::json;

/// One figure beside one peer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    /// What was measured.
    pub(crate) figure: String,
    /// Of `ours` and `peer`; more is better exactly when it ends in `/s`.
    pub(crate) unit: &'static str,
    /// Our median.
    pub(crate) ours: f64,
    /// The peer's median.
    pub(crate) peer: Option<f64>,
    /// Who the peer is.
    pub(crate) peer_name: Option<String>,
    /// Median of the ratios of each round; above 1 we are better.
    pub(crate) ratio: Option<f64>,
    /// The range of the middle half of the rounds, as a share of the median.
    pub(crate) spread: f64,
    /// How many rounds were counted.
    pub(crate) rounds: usize,
}

/// Prints a table, or a JSON object per line.
pub(crate) fn print(lines: &[Line], json: bool) {
    let text = if json {
        json_lines(lines)
    } else {
        table(lines)
    };
    // A reader that has left wants no more.
    std::io::stdout().lock().write_all(text.as_bytes()).ok();
}

/// Prints on standard error.
pub(crate) fn complain(text: &str) {
    // Nothing can be done when even this fails.
    writeln!(std::io::stderr().lock(), "{text}").ok();
}

fn json_lines(lines: &[Line]) -> String {
    let object = |line: &Line| {
        let object = json!({
            "figure": line.figure,
            "unit": line.unit,
            "ours": rounded(line.ours),
            "peer": line.peer.map(rounded),
            "peer_name": line.peer_name,
            "ratio": line.ratio.map(rounded),
            "spread": rounded(line.spread),
            "rounds": line.rounds,
        });
        format!("{object}\n")
    };
    lines.iter().map(object).collect()
}

/// Three decimals; more would be noise.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn table(lines: &[Line]) -> String {
    let heads = [
        "figure",
        "unit",
        "ours",
        "peer",
        "peer name",
        "ratio",
        "spread",
        "rounds",
    ];
    let mut rows = vec![heads.map(str::to_owned)];
    let number = |value: f64| {
        let decimals = if value.abs() >= 100.0 { 0 } else { 2 };
        format!("{value:.decimals$}")
    };
    for line in lines {
        rows.push([
            line.figure.clone(),
            line.unit.to_owned(),
            number(line.ours),
            line.peer.map(number).unwrap_or_default(),
            line.peer_name.clone().unwrap_or_default(),
            line.ratio
                .map(|ratio| format!("{ratio:.2}"))
                .unwrap_or_default(),
            format!("{:.0}%", line.spread * 100.0),
            line.rounds.to_string(),
        ]);
    }
    let widths: [usize; 8] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    });
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Numbers stand at the right of their column. Writing to a string does not fail.
            let numeric = ![0, 1, 4].contains(&column);
            if numeric {
                write!(line, "{cell:>width$}  ")
            } else {
                write!(line, "{cell:width$}  ")
            }
            .ok();
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(peer: Option<f64>) -> Line {
        Line {
            figure: "64 B".to_owned(),
            unit: "MB/s",
            ours: 1234.5678,
            peer,
            peer_name: peer.map(|_| "other".to_owned()),
            ratio: peer.map(|peer| 1234.5678 / peer),
            spread: 0.25,
            rounds: 7,
        }
    }

    #[test]
    fn json_has_the_eight_fields_and_null_without_a_peer() {
        let text = json_lines(&[line(Some(1000.0)), line(None)]);
        let objects: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            objects[0],
            json!({"figure": "64 B", "unit": "MB/s", "ours": 1234.568, "peer": 1000.0,
                "peer_name": "other", "ratio": 1.235, "spread": 0.25, "rounds": 7})
        );
        assert!(objects[1]["peer"].is_null() && objects[1]["ratio"].is_null());
    }

    #[test]
    fn the_table_lines_up() {
        let text = table(&[line(Some(10.0))]);
        let expected = "\
figure  unit  ours   peer  peer name   ratio  spread  rounds
64 B    MB/s  1235  10.00  other      123.46     25%       7
";
        assert_eq!(text, expected);
    }
}
