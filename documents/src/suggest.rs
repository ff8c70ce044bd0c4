//! "Did you mean" suggestions by edit distance.

/// Returns the candidate closest to the word, if it is close: equal except for letter case, or at
/// most one edit per five letters away, and at most three. An edit inserts, deletes or replaces a
/// letter, or swaps two adjacent letters.
pub fn among<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    nearest(word, candidates, |candidate| candidate.chars().count().div_ceil(5).min(3))
}

/// Returns the candidate closest to the word, at most this many edits away.
pub fn within<'a>(word: &str, candidates: &[&'a str], edits: usize) -> Option<&'a str> {
    nearest(word, candidates, |_| edits)
}

fn nearest<'a>(
    word: &str,
    candidates: &[&'a str],
    allowed: impl Fn(&str) -> usize,
) -> Option<&'a str> {
    let word = word.trim().to_lowercase();
    let near = candidates.iter().filter_map(|candidate| {
        let lowered = candidate.to_lowercase();
        let allowed = allowed(candidate);
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
    fn number_of_edits_can_be_given() {
        assert_eq!(within("POD_IP", &["POD_UID"], 1), None);
        assert_eq!(within("POD_IP", &["POD_UID"], 2), Some("POD_UID"));
    }

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
