//! Counts for the summary of `kube-inject`: injected, skipped and other objects of a file.

use std::collections::BTreeMap;
use std::fmt;

use crate::finding::{Finding, FindingResult};
use crate::printable::Printable;

/// Counts for a file or a part of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct InjectionTally {
    pub(super) injected: usize,
    /// Workloads that were injected before.
    pub(super) unchanged: usize,
    /// Unchanged workloads by the word of the reason.
    pub(super) skipped: BTreeMap<&'static str, usize>,
    /// Objects that are not workloads of a known kind, by kind.
    pub(super) left_alone: BTreeMap<String, usize>,
}

impl InjectionTally {
    /// Counts an object.
    pub(super) fn add(&mut self, finding: &Finding) {
        match &finding.result {
            FindingResult::Changed => self.injected += 1,
            FindingResult::Unchanged => self.unchanged += 1,
            FindingResult::NotAWorkload(_) => {
                *self.left_alone.entry(finding.object.kind.clone()).or_default() += 1;
            }
            FindingResult::Rejected { .. } => {}
            FindingResult::Skipped(reason) => *self.skipped.entry(reason.word()).or_default() += 1,
        }
    }
}

impl fmt::Display for InjectionTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} injected, ", self.injected)?;
        if self.unchanged > 0 {
            write!(f, "{} injected before, ", self.unchanged)?;
        }
        let skipped = self.skipped.iter().map(|(word, count)| (*word, *count));
        write_counts(f, "skipped", skipped.collect())?;
        f.write_str(", ")?;
        let alone = self.left_alone.iter().map(|(kind, count)| match kind.as_str() {
            "" => ("without a kind", *count),
            kind => (kind, *count),
        });
        let alone: Vec<_> =
            alone.map(|(kind, count)| (Printable(kind).to_string(), count)).collect();
        let alone = alone.iter().map(|(kind, count)| (kind.as_str(), *count));
        write_counts(f, "skipped because of their kind", alone.collect())
    }
}

/// Writes counts, the most frequent first: `3 skipped (2 host_network, 1 inject_annotation)`.
fn write_counts(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    mut counts: Vec<(&str, usize)>,
) -> fmt::Result {
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    write!(f, "{all} {what}")?;
    counts.sort_by_key(|&(name, count)| (usize::MAX - count, name));
    let shown = counts.iter().take(MOST).map(|(name, count)| format!("{count} {name}"));
    let mut shown: Vec<_> = shown.collect();
    let others: usize = counts.iter().skip(MOST).map(|(_, count)| count).sum();
    shown.extend((others > 0).then(|| format!("{others} others")));
    if shown.is_empty() { Ok(()) } else { write!(f, " ({})", shown.join(", ")) }
}

/// Most names in a line.
const MOST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shown_with_the_most_frequent_first() {
        assert_eq!(
            InjectionTally::default().to_string(),
            "0 injected, 0 skipped, 0 skipped because of their kind"
        );
        let kinds = (0..10).map(|n| (format!("Kind{n}"), n));
        let tally = InjectionTally {
            injected: 2,
            unchanged: 1,
            skipped: BTreeMap::from([("host_network", 2), ("inject_label", 3)]),
            left_alone: kinds.chain([(String::new(), 3)]).filter(|(_, n)| *n > 0).collect(),
        };
        assert_eq!(
            tally.to_string(),
            "2 injected, 1 injected before, 5 skipped (3 inject_label, 2 host_network), 48 skipped because of their kind (9 Kind9, 8 Kind8, 7 Kind7, 6 Kind6, 5 Kind5, 4 Kind4, 3 Kind3, 3 without a kind, \
             3 others)"
        );
    }
}
