//! The word that somebody meant who wrote another one.

/// The candidate that is nearest to the word, if it is near: the same but for letter case, or one
/// slip of the pen in five letters away (a letter too many, too few or wrong, or two that changed
/// places).
pub fn among<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = word.trim().to_lowercase();
    let distances = candidates.iter().map(|candidate| {
        let allowed = candidate.chars().count().div_ceil(5).min(3);
        (distance(&word, &candidate.to_lowercase(), allowed), *candidate)
    });
    let near = distances.filter_map(|(distance, candidate)| Some((distance?, candidate)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// How many slips lie between two words (optimal string alignment); `None` for more than allowed.
fn distance(a: &str, b: &str, allowed: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > allowed {
        return None;
    }
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect(), vec![0; b.len() + 1]];
    for i in 1..=a.len() {
        rows[2][0] = i;
        for j in 1..=b.len() {
            let wrong = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[1][j - 1] + wrong).min(rows[1][j] + 1).min(rows[2][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[0][j - 2] + 1);
            }
            rows[2][j] = best;
        }
        rows.rotate_left(1);
    }
    Some(rows[1][b.len()]).filter(|distance| *distance <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_seen_through() {
        let words = ["true", "false", "interceptionMode", "includeInboundPorts"];
        for (word, near) in [
            ("ture", Some("true")),
            ("True ", Some("true")),
            ("flase", Some("false")),
            ("interceptionmode", Some("interceptionMode")),
            ("intreceptonMode", Some("interceptionMode")),
            ("includeInboundPort", Some("includeInboundPorts")),
            ("includePorts", None),
            ("yes", None),
            ("", None),
        ] {
            assert_eq!(among(word, &words), near, "{word}");
        }
    }
}
