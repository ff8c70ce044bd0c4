//! Reference page of the words.

use reference_pages::{Page, code};

use crate::words::{Hint, SECTIONS, Word};

fn reference() -> String {
    let mut page = Page::new("Reasons").text(
        "A Reason explains a decision or a warning. Its word is the same in the admission warning, \
         the log line, the label `reason` of the metric `sidecar_injection_total`, and the output \
         of `istioctl`. Words are never renamed. A reason is printed as `message (word); hint: …`; \
         the message names the object and the value. A hint in quotation marks is always the same; \
         otherwise the column has what it names.",
    );
    for section in SECTIONS {
        let rows = section.words.iter().map(|word| row(word)).collect();
        page = page.heading(2, section.title).table(["word", "meaning", "hint"], rows);
    }
    page.into_text()
}

fn row(word: &Word) -> [String; 3] {
    let hint = match word.hint() {
        Hint::None => String::new(),
        Hint::Fixed(hint) => format!("“{hint}”"),
        Hint::Varies(what) => what.to_owned(),
    };
    [code(word.as_str()), word.meaning().to_owned(), hint]
}

#[test]
fn page_is_current() {
    reference_pages::check("reference/reasons.md", &reference());
}

#[test]
fn words_are_unique_and_fit_a_label() {
    let mut words: Vec<_> =
        SECTIONS.iter().flat_map(|section| section.words).map(|word| word.as_str()).collect();
    let count = words.len();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), count);
    let fits = |c: char| c.is_ascii_lowercase() || c == '_';
    assert!(words.iter().all(|word| word.chars().all(fits)), "{words:?}");
}
