//! Notes of Kubernetes Events.

/// Cuts a note to the maximum length that the API server accepts, between characters.
pub fn event_note(note: &str) -> &str {
    let end = (0..=note.len().min(LONGEST)).rev().find(|&end| note.is_char_boundary(end));
    &note[..end.unwrap_or_default()]
}

/// Bytes that the API server accepts.
const LONGEST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_cut_between_characters() {
        assert_eq!(event_note("short"), "short");
        let long = format!("{}ä", "a".repeat(LONGEST - 1));
        assert_eq!(event_note(&long), "a".repeat(LONGEST - 1));
    }
}
