//! Tables of text.

/// Aligns columns, each as wide as its widest cell. An empty cell shows `-`.
pub(super) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let shown = |cell: &str| if cell.is_empty() { "-".to_owned() } else { cell.to_owned() };
    let header = header.map(str::to_owned);
    let rows = rows.iter().map(|row| row.each_ref().map(|cell| shown(cell)));
    let lines: Vec<[String; N]> = [header].into_iter().chain(rows).collect();
    let mut widths = [0; N];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}
