//! Writes the templates of the Helm chart from what kustomize renders of `manifests/`, so that both
//! install the same objects. With `--check`, says whether they are current.

mod layers;
mod names;
mod parameters;
mod tree;
mod yaml;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use e2e::programs::{Programs, repository};

use crate::names::DEFINITIONS;
use crate::tree::{Item, Tree};

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let is_check = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => false,
        ["--check"] => true,
        _ => bail!("usage: chart [--check]"),
    };
    let folder = repository().join("manifests/chart/templates");
    let templates = templates(&Programs::find()?)?;
    if is_check {
        return check(&folder, &templates);
    }
    for (name, text) in &templates {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    for name in generated(&folder)?.into_iter().filter(|name| !templates.contains_key(name)) {
        let path = folder.join(name);
        fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}

/// Returns the generated templates by file name: one for each kind of object of each program.
fn templates(programs: &Programs) -> Result<BTreeMap<String, String>> {
    let Tree::List(mut objects) = layers::objects(programs)? else {
        bail!("kustomize renders a list of objects");
    };
    parameters::place(&mut objects)?;
    let mut by_file: BTreeMap<String, Vec<&Item>> = BTreeMap::new();
    for object in &objects {
        let kind = object.key.split(' ').next().unwrap_or_default().to_lowercase();
        by_file.entry(format!("{}-{kind}.yaml", program(object)?)).or_default().push(object);
    }
    let write = |(name, objects): (String, Vec<&Item>)| {
        let text = yaml::write_objects(&objects).with_context(|| name.clone())?;
        Ok((name, format!("{HEADER}{DEFINITIONS}{text}")))
    };
    by_file.into_iter().map(write).collect()
}

/// Returns the program that an object belongs to.
fn program(object: &Item) -> Result<&str> {
    let value = |tree: &Tree, key: &str| match tree {
        Tree::Map(items) => items.iter().find(|item| item.key == key).map(|item| item.tree.clone()),
        _ => None,
    };
    let labels = value(&object.tree, "metadata").and_then(|metadata| value(&metadata, "labels"));
    match labels.and_then(|labels| value(&labels, "app")) {
        Some(Tree::Scalar(app)) if app == "pilot-discovery" => Ok("pilot-discovery"),
        Some(Tree::Scalar(app)) if app == "sidecar-injector" => Ok("sidecar-injector"),
        // Those of generated ConfigMaps are not labelled.
        None => Ok("sidecar-injector"),
        other => bail!("{} has the label app: {other:?}", object.key),
    }
}

fn check(folder: &Path, templates: &BTreeMap<String, String>) -> Result<()> {
    let hint = "hint: make manifests";
    for (name, text) in templates {
        let found = fs::read_to_string(folder.join(name)).unwrap_or_default();
        ensure!(found == *text, "manifests/chart/templates/{name} is not current; {hint}");
    }
    for name in generated(folder)? {
        ensure!(templates.contains_key(&name), "manifests/chart/templates/{name} is left; {hint}");
    }
    Ok(())
}

/// Returns the names of the files that were generated.
fn generated(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let file = file?;
        if fs::read_to_string(file.path())?.starts_with(HEADER) {
            names.push(file.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

const HEADER: &str = "\
{{- /* Made from what kustomize renders of manifests/: edit there, then run make manifests. */ -}}
";
