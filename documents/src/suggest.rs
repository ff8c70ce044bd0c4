//! "Did you mean" suggestions by edit distance.

/// Returns the candidate closest to the word, if it is close: equal except for letter case, or at
/// most one edit per five letters away, and at most three. An edit inserts, deletes or replaces a
/// letter, or swaps two adjacent letters.
pub fn among<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = word.trim().to_lowercase();
    let near = candidates.iter().filter_map(|candidate| {
        let lowered = candidate.to_lowercase();
        let allowed = candidate.chars().count().div_ceil(5).min(3);
        if word.chars().count().abs_diff(lowered.chars().count()) > allowed {
            return None;
        }
        // A pod may have thousands of unknown keys, most with the domain of a known one.
        let equal = word.chars().zip(lowered.chars()).take_while(|(a, b)| a == b);
        let start: usize = equal.map(|(letter, _)| letter.len_utf8()).sum();
        let distance = strsim::osa_distance(&word[start..], &lowered[start..]);
        (distance <= allowed).then_some((distance, *candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Returns the end of a message about an unknown word: `; did you mean …?`, or nothing.
pub fn did_you_mean(word: &str, candidates: &[&str]) -> String {
    among(word, candidates).map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_get_a_suggestion() {
        let words = ["true", "false", "interceptionMode", "includeInboundPorts"];
        for (word, near) in [
            ("ture", Some("true")),
            ("True ", Some("true")),
            ("flase", Some("false")),
            ("interceptionmode", Some("interceptionMode")),
            ("intreceptonMode", Some("interceptionMode")),
            ("includeInboundPort", Some("includeInboundPorts")),
            ("includePorts", None),
            ("includeInboundProtsx", Some("includeInboundPorts")),
            ("nicludeInboudnPorst", Some("includeInboundPorts")),
            ("ncludeInboundPortssss", None),
            ("yes", None),
            ("", None),
        ] {
            assert_eq!(among(word, &words), near, "{word}");
        }
    }
}
