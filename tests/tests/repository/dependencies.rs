//! Crates that a crate of the workspace must not depend on, directly or not.

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

use e2e::programs::repository;

/// Crates with their default features, and the names that must not be in their trees.
const EXCLUDED: [(&str, &[&str]); 6] = [
    ("cni", &["kube", "k8s-openapi", "tokio", "tonic", "install-cni"]),
    ("istio-init", &["kube", "tokio", "tonic", "envoy-types", "pilot-discovery", "pilot-registry"]),
    ("pilot-agent", &["kube", "k8s-openapi", "envoy-types", "pilot-discovery", "pilot-registry"]),
    ("pilot-xds", &["kube", "k8s-openapi", "envoy-types", "pilot-registry"]),
    ("pilot-registry", &["kube", "k8s-openapi", "envoy-types", "tokio", "tonic"]),
    ("mesh", &["kube", "k8s-openapi", "envoy-types", "tokio"]),
];

#[test]
fn crates_do_not_depend_on_excluded_ones() {
    for (package, excluded) in EXCLUDED {
        let tree = tree(package);
        assert!(tree.contains(package), "{tree:?}");
        let found: Vec<_> = excluded.iter().filter(|name| tree.contains(**name)).collect();
        assert!(found.is_empty(), "{package} depends on {found:?}");
    }
    // The names are those that cargo prints.
    let injector = tree("injector");
    assert!(["kube", "k8s-openapi", "tokio"].iter().all(|name| injector.contains(*name)));
}

/// Names of the normal dependencies of a crate, at any depth.
fn tree(package: &str) -> BTreeSet<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(repository())
        .args(["tree", "--locked", "--edges=normal", "--prefix=none"])
        .args(["--format={p}", "--package", package])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}
