//! Output of `cargo tree`, which resolves features as a build does.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};

/// Name and version of a package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PackageId {
    pub(super) name: String,
    pub(super) version: String,
}

/// Packages, each with those that it uses.
#[derive(Debug, Default)]
pub(super) struct DependencyTree(pub(super) BTreeMap<PackageId, BTreeSet<PackageId>>);

impl DependencyTree {
    /// Parses the output with `--prefix=depth --format={p}`. A package has its dependencies where
    /// it stands first.
    pub(super) fn parse(output: &str) -> Result<Self> {
        let mut uses = BTreeMap::<_, BTreeSet<_>>::new();
        let mut ancestors: Vec<PackageId> = Vec::new();
        for line in output.lines().filter(|line| !line.is_empty()) {
            let (depth, package) = parse_line(line).ok_or_else(|| Error::Output {
                command: "cargo tree".to_owned(),
                problem: format!("`{line}` is not a depth, a name and a version"),
            })?;
            ancestors.truncate(depth);
            if let Some(parent) = ancestors.last() {
                uses.entry(parent.clone()).or_default().insert(package.clone());
            }
            uses.entry(package.clone()).or_default();
            ancestors.push(package);
        }
        Ok(Self(uses))
    }

    /// Returns the packages that a package uses, at any depth, and itself.
    pub(super) fn reachable<'a>(&'a self, root: &'a PackageId) -> BTreeSet<&'a PackageId> {
        let mut found = BTreeSet::new();
        let mut unread = vec![root];
        while let Some(package) = unread.pop() {
            if found.insert(package) {
                unread.extend(self.0.get(package).into_iter().flatten());
            }
        }
        found
    }
}

fn parse_line(line: &str) -> Option<(usize, PackageId)> {
    let digits = line.find(|character: char| !character.is_ascii_digit())?;
    let (depth, package) = line.split_at(digits);
    let mut words = package.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let package = PackageId { name: name.to_owned(), version: version.to_owned() };
    Some((depth.parse().ok()?, package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_package_keeps_its_dependencies() {
        let output = "0a v1.0.0 (/tree/a)\n1b v2.0.0\n2c v3.0.0\n1c v3.0.0 (*)\n\n\
            0d v1.0.0 (/tree/d)\n1b v2.0.0 (*)\n";
        let tree = DependencyTree::parse(output).unwrap();
        let d = PackageId { name: "d".to_owned(), version: "1.0.0".to_owned() };
        let names: Vec<_> = tree.reachable(&d).iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["b", "c", "d"]);
    }

    #[test]
    fn unknown_line_is_an_error() {
        let error = DependencyTree::parse("0a\n").unwrap_err();
        assert!(error.to_string().contains("`0a`"), "{error}");
    }
}
