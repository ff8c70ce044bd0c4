//! Crates that programs are linked from.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::component::{Component, ComponentKind, PackageUrl};
use super::dependency_tree::{DependencyTree, PackageId};
use super::document::Bom;
use crate::command::run;
use crate::error::{Error, Result};
use crate::platform::Platform;

/// Crates of programs that are built together, because a build unites their features.
#[derive(Debug)]
pub struct Crates {
    tree: DependencyTree,
    components: BTreeMap<PackageId, Component>,
}

impl Crates {
    /// Asks cargo for the crates of packages in a workspace.
    pub fn read(workspace: &Path, packages: &[&str], platform: Platform) -> Result<Self> {
        let target = platform.rust_target();
        // Neither procedural macros nor build scripts are in the program.
        let mut tree = vec!["tree", "--locked", "--edges=normal,no-proc-macro", "--prefix=depth"];
        tree.extend(["--format={p}", "--target", target]);
        tree.extend(packages.iter().flat_map(|package| ["--package", package]));
        let tree = run("cargo", &tree, workspace)?;
        let metadata = ["metadata", "--locked", "--format-version=1", "--filter-platform", target];
        let metadata = run("cargo", &metadata, workspace)?;
        let lock_path = workspace.join("Cargo.lock");
        let lock = std::fs::read_to_string(&lock_path).map_err(Error::read(&lock_path))?;
        Self::parse(&tree, &metadata, &lock)
    }

    fn parse(tree: &str, metadata: &str, lock: &str) -> Result<Self> {
        let tree = DependencyTree::parse(tree)?;
        let metadata: Metadata = serde_json::from_str(metadata).map_err(|error| Error::Output {
            command: "cargo metadata".to_owned(),
            problem: error.to_string(),
        })?;
        let checksums = checksums(lock);
        let components = metadata.packages.into_iter().map(|package| {
            let id = PackageId { name: package.name, version: package.version };
            let component = match package.source {
                None => Component::own(ComponentKind::Library, &id.name, &id.version),
                Some(_) => Component::packaged(
                    ComponentKind::Library,
                    &PackageUrl {
                        kind: "cargo",
                        name: &id.name,
                        version: &id.version,
                        qualifiers: "",
                    },
                ),
            };
            let component = match package.license {
                Some(license) => component.license(&license),
                None => component,
            };
            let component = match checksums.get(&id) {
                Some(checksum) => component.checksum(checksum.clone()),
                None => component,
            };
            (id, component)
        });
        Ok(Self { tree, components: components.collect() })
    }

    /// Adds the crates of a package to the bill of `program`.
    pub fn add_to(&self, bom: &mut Bom, program: &Component, package: &str) -> Result<()> {
        let unknown = || Error::UnknownPackage(package.to_owned());
        let root = self.tree.0.keys().find(|id| id.name == package).ok_or_else(unknown)?;
        let component = |id: &PackageId| {
            let unknown = || Error::UnknownPackage(format!("{} {}", id.name, id.version));
            self.components.get(id).ok_or_else(unknown)
        };
        for id in self.tree.reachable(root) {
            let user = if id == root { program } else { component(id)? };
            for used in &self.tree.0[id] {
                bom.add_dependency(user, component(used)?);
            }
        }
        Ok(())
    }
}

/// Returns the checksums of a `Cargo.lock`, whose form cargo keeps: a line for each key.
fn checksums(lock: &str) -> BTreeMap<PackageId, String> {
    let packages = lock.split("[[package]]").filter_map(|block| {
        let value = |key: &str| {
            let lines = &mut block.lines();
            let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
            Some(value.trim_matches('"').to_owned())
        };
        let id = PackageId { name: value("name")?, version: value("version")? };
        Some((id, value("checksum")?))
    });
    packages.collect()
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bill_has_the_crates_of_one_program() {
        let tree = "0program v0.1.0 (/a)\n1b v1.0.0\n\n0other v0.1.0 (/o)\n1c v1.0.0\n";
        let metadata = r#"{"packages": [
            {"name": "program", "version": "0.1.0", "license": "Apache-2.0", "source": null},
            {"name": "other", "version": "0.1.0", "license": "Apache-2.0", "source": null},
            {"name": "b", "version": "1.0.0", "license": "MIT/Apache-2.0", "source": "registry"},
            {"name": "c", "version": "1.0.0", "license": "MIT", "source": "registry"}]}"#;
        let lock = "version = 4\n\n[[package]]\nname = \"b\"\nversion = \"1.0.0\"\n\
            source = \"registry\"\nchecksum = \"00ff\"\n\n[[package]]\nname = \"program\"\n\
            version = \"0.1.0\"\n";
        let crates = Crates::parse(tree, metadata, lock).unwrap();
        let program = Component::own(ComponentKind::Application, "program", "0.1.0");
        let mut bom = Bom::new(program.clone());
        crates.add_to(&mut bom, &program, "program").unwrap();
        insta::assert_snapshot!(bom.to_json(None));
    }
}
