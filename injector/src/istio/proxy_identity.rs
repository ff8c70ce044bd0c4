//! User and group of a proxy.

use std::collections::BTreeMap;

/// User and group of the proxy; the rules exempt connections with them from capture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Identity {
    /// User ID.
    pub uid: u64,
    /// Group ID.
    pub gid: u64,
}

impl Default for Identity {
    fn default() -> Self {
        Self { uid: PROXY_UID, gid: PROXY_UID }
    }
}

impl Identity {
    /// Returns the identity that `OpenShift` allows in a namespace: the last user and the last
    /// group of the ranges in its annotations. An absent or invalid range gives the default.
    pub fn from_namespace(annotations: &BTreeMap<String, String>) -> Self {
        let users = annotations.get(UID_RANGE);
        let groups = annotations.get(SUPPLEMENTAL_GROUPS).filter(|groups| !groups.is_empty());
        Self {
            uid: users.and_then(|range| last(range)).unwrap_or(PROXY_UID),
            gid: groups.or(users).and_then(|ranges| last_of_first(ranges)).unwrap_or(PROXY_UID),
        }
    }
}

/// Returns the last number of the first range in a list; `None` if any range of the list is
/// invalid.
fn last_of_first(ranges: &str) -> Option<u64> {
    let ends: Option<Vec<_>> = ranges.split(',').map(last).collect();
    ends?.first().copied()
}

/// Returns the last number of a range, `start/size` or `first-last`.
fn last(range: &str) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u32>().ok().map(u64::from);
    if let Some((start, size)) = range.split_once('/') {
        let size = number(size).filter(|size| *size > 0)?;
        return Some(number(start)? + size - 1);
    }
    let (first, last) = range.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(last)
}

/// Default user and group of a proxy.
pub(crate) const PROXY_UID: u64 = 1337;

const SUPPLEMENTAL_GROUPS: &str = "openshift.io/sa.scc.supplemental-groups";
const UID_RANGE: &str = "openshift.io/sa.scc.uid-range";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_id_of_the_openshift_range_is_used() {
        for (users, groups, uid, gid) in [
            (Some("1000620000/10000"), Some("1000620000/10000"), 1_000_629_999, 1_000_629_999),
            (Some("1000620000/10000"), None, 1_000_629_999, 1_000_629_999),
            (Some("1-5"), Some("10/5,20/5"), 5, 14),
            (Some("5-1"), Some("none"), 1337, 1337),
            (Some("1/0"), Some("7/1"), 1337, 7),
            (None, None, 1337, 1337),
        ] {
            let annotations = [(UID_RANGE, users), (SUPPLEMENTAL_GROUPS, groups)];
            let annotations = annotations
                .into_iter()
                .filter_map(|(key, range)| Some((key.to_owned(), range?.to_owned())));
            let identity = Identity::from_namespace(&annotations.collect());
            assert_eq!((identity.uid, identity.gid), (uid, gid), "{users:?} {groups:?}");
        }
    }
}
