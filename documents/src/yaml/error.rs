//! Errors of the YAML library with their position.

/// An error of a text that is not one YAML document, or of a value that YAML cannot represent.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct YamlError {
    /// The line, from 1; 0 if unknown.
    pub line: usize,
    /// The column, from 1; 0 if unknown.
    pub column: usize,
    /// The problem at this position.
    pub problem: String,
}

impl YamlError {
    pub(super) fn from_library(error: &serde_saphyr::Error) -> Self {
        let place = error.location();
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Self {
            line: place.map_or(0, |at| number(at.line())),
            column: place.map_or(0, |at| number(at.column())),
            problem: problem(&error.without_snippet().to_string()),
        }
    }
}

impl std::fmt::Display for YamlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => f.write_str(&self.problem),
            line => write!(f, "line {line}, column {}: {}", self.column, self.problem),
        }
    }
}

/// Returns the library's message without the position, which [`YamlError`] has, and without advice
/// to programmers.
fn problem(message: &str) -> String {
    let replaced = [
        (
            "alias replay limit",
            "its aliases stand for too many values; hint: write values instead of aliases of aliases",
        ),
        (
            "recursive references",
            "an alias stands for a value that it is a part of; hint: write the value instead",
        ),
        (
            "non-finite float",
            "a number is `.inf` or `.nan`, which JSON does not have; hint: put a text in quotes",
        ),
    ];
    if let Some((_, clear)) = replaced.iter().find(|(start, _)| message.starts_with(start)) {
        return (*clear).to_owned();
    }
    let message = message.rsplit_once(" at line ").map_or(message, |(problem, _)| problem);
    let advice = [", set DuplicateKeyPolicy", "; use "];
    let advice = advice.into_iter().find_map(|advice| message.find(advice));
    advice.map_or(message, |at| &message[..at]).to_owned()
}
