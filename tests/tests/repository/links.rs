//! Links of the documentation, the table of contents of the site, and the versions that it names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use e2e::markdown::{Page, has_extension, tracked};
use e2e::programs::repository;

#[test]
fn every_link_has_a_target_in_the_site() {
    let files: BTreeSet<_> = tracked(&SITE).unwrap().into_iter().collect();
    let pages: BTreeMap<_, _> =
        all().into_iter().map(|path| (path.clone(), Page::read(&path).unwrap())).collect();
    let mut wrong = Vec::new();
    for page in pages.values() {
        for link in page.links.iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link.as_str(), ""));
            let target = resolve(&page.path, path);
            let has_anchor =
                anchor.is_empty() || pages.get(&target).is_some_and(|page| page.has_anchor(anchor));
            if !files.contains(&target) || !has_anchor {
                wrong.push(format!("{}: {link}", page.path));
            }
        }
    }
    assert!(wrong.is_empty(), "links without a target:\n{}", wrong.join("\n"));
}

#[test]
fn summary_lists_every_page_once() {
    let summary = Page::read("docs/SUMMARY.md").unwrap();
    let listed: Vec<_> = summary.links.iter().map(|link| resolve(&summary.path, link)).collect();
    let distinct: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(distinct.len(), listed.len(), "a page is listed twice: {listed:?}");
    // docs/site.sh adds the decisions.
    let is_added = |path: &String| path == "docs/SUMMARY.md" || path.contains("/decisions/0");
    let pages = all().into_iter().filter(|path| !is_added(path));
    assert_eq!(distinct, pages.collect::<BTreeSet<_>>());
}

#[test]
fn supported_versions_are_those_of_the_tests() {
    let page = std::fs::read_to_string(repository().join("docs/versions.md")).unwrap();
    let kubernetes = include_str!("../../kubernetes/go.mod")
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
    for version in [kubernetes.unwrap(), include_str!("../../envoy-version").trim()] {
        assert!(page.contains(version), "docs/versions.md does not name {version}");
    }
}

/// Returns the paths of all pages of the site.
fn all() -> Vec<String> {
    let files = tracked(&SITE).unwrap();
    files.into_iter().filter(|path| has_extension(path, "md")).collect()
}

/// Returns the path of a link's target from the root of the repository.
fn resolve(page: &str, link: &str) -> String {
    if link.is_empty() {
        return page.to_owned();
    }
    let mut path = PathBuf::new();
    for part in Path::new(page).parent().unwrap().join(link).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{page}: {link} leaves the repository"),
            part => path.push(part),
        }
    }
    path.to_str().unwrap().to_owned()
}

/// Files that `docs/site.sh` copies: the pages, and the files to which they link.
const SITE: [&str; 4] = [":(glob)*.md", "LICENSE", "docs", "manifests"];
