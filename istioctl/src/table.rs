//! Tables of text.

use crate::printable::Printable;

/// Aligns columns, each as wide as its widest cell. An empty cell shows `-`.
pub(super) fn table<Row: AsRef<[String]>>(header: &[&str], rows: &[Row]) -> String {
    let cells = |row: &Row| -> Vec<String> {
        let cells = row.as_ref().iter().map(String::as_str);
        cells.map(|cell| Printable(if cell.is_empty() { "-" } else { cell }).to_string()).collect()
    };
    let header = header.iter().map(|&head| head.to_owned()).collect();
    let lines: Vec<Vec<String>> = [header].into_iter().chain(rows.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<_> = (0..lines[0].len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}
