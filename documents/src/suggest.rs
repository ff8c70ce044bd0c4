//! "Did you mean" suggestions by edit distance.

/// Returns the candidate closest to the word, if it is close: equal except for letter case, or at
/// most one edit per five letters away, and at most three. An edit inserts, deletes or replaces a
/// letter, or swaps two adjacent letters.
pub fn among<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word: Vec<_> = lower_case(word.trim()).collect();
    let near = candidates.iter().filter_map(|candidate| {
        let length = candidate.chars().count();
        let allowed = length.div_ceil(5).min(3);
        if word.len().abs_diff(length) > allowed {
            return None;
        }
        let lowered: Vec<_> = lower_case(candidate).collect();
        Some((distance(&word, &lowered, allowed)?, *candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

fn lower_case(word: &str) -> impl Iterator<Item = char> {
    word.chars().flat_map(char::to_lowercase)
}

/// Returns the edit distance of two words (optimal string alignment); `None` if it exceeds
/// `allowed`.
///
/// Only cells within `allowed` of the diagonal are computed, because a pod may have thousands of
/// unknown keys.
fn distance(a: &[char], b: &[char], allowed: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > allowed {
        return None;
    }
    let far = allowed + 1;
    let mut rows = [vec![far; b.len() + 2], (0..b.len() + 2).collect(), vec![far; b.len() + 2]];
    for i in 1..=a.len() {
        let (first, last) = (i.saturating_sub(allowed).max(1), (i + allowed).min(b.len()));
        rows[2][0] = i;
        if first > 1 {
            rows[2][first - 1] = far;
        }
        rows[2][last + 1] = far;
        for j in first..=last {
            let wrong = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[1][j - 1] + wrong).min(rows[1][j] + 1).min(rows[2][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[0][j - 2] + 1);
            }
            rows[2][j] = best;
        }
        // A swap skips one row, so both rows must exceed the limit.
        let least = |row: &[usize]| row[first - 1..=last].iter().all(|cell| *cell > allowed);
        if least(&rows[1]) && least(&rows[2]) {
            return None;
        }
        rows.rotate_left(1);
    }
    Some(rows[1][b.len()]).filter(|distance| *distance <= allowed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn banded_distance_equals_full_distance(a in "[abc]{0,12}", b in "[abc]{1,12}", allowed in 0..4_usize) {
            let [a, b] = [a, b].map(|word| word.chars().collect::<Vec<_>>());
            let whole = whole_distance(&a, &b);
            prop_assert_eq!(distance(&a, &b, allowed), Some(whole).filter(|far| *far <= allowed));
        }
    }

    /// Returns the distance computed from the full table.
    fn whole_distance(a: &[char], b: &[char]) -> usize {
        let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
        for i in 1..=a.len() {
            let mut row = vec![i];
            for j in 1..=b.len() {
                let wrong = usize::from(a[i - 1] != b[j - 1]);
                let mut best =
                    (rows[i - 1][j - 1] + wrong).min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                row.push(best);
            }
            rows.push(row);
        }
        rows[a.len()][b.len()]
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
