//! Documents of a YAML file.

/// Document of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    /// Number of lines before the text.
    pub(super) lines_before: usize,
}

/// Splits a file at its lines `---`.
pub(super) fn split(file: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut start, mut lines_before) = (0, 0);
    let mut place = 0;
    for (line_number, line) in file.split_inclusive('\n').enumerate() {
        let is_marker = line.strip_prefix("---").is_some_and(|rest| {
            rest.trim().is_empty() || {
                rest.starts_with([' ', '\t']) && rest.trim_start().starts_with('#')
            }
        });
        if is_marker {
            documents.push(Document { text: &file[start..place], lines_before });
            (start, lines_before) = (place + line.len(), line_number + 1);
        }
        place += line.len();
    }
    documents.push(Document { text: &file[start..], lines_before });
    documents
}
