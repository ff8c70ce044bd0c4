//! Writes the templates of the Helm chart from what kustomize renders of `manifests/`, so that both
//! install the same objects, and the page of its values. With `--check`, says whether they are
//! current.

mod layers;
mod names;
mod parameters;
mod reference;
mod tree;
mod yaml;

use std::collections::BTreeMap;
use std::env;
use std::fs;

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
    let mut files = templates(&Programs::find()?)?;
    for page in &reference::PAGES {
        files.insert(page.path.to_owned(), reference::text(page)?);
    }
    let left = generated()?.into_iter().filter(|name| !files.contains_key(name));
    let left: Vec<_> = left.collect();
    for (name, text) in &files {
        let path = repository().join(name);
        if is_check {
            let found = fs::read_to_string(&path).unwrap_or_default();
            ensure!(found == *text, "{name} is not current; hint: make manifests");
        } else {
            fs::write(&path, text).with_context(|| format!("writing {name}"))?;
        }
    }
    for name in left {
        ensure!(!is_check, "{name} is of an earlier manifest; hint: make manifests");
        fs::remove_file(repository().join(&name)).with_context(|| format!("removing {name}"))?;
    }
    Ok(())
}

/// Returns the generated templates by path: one for each kind of object of each program.
fn templates(programs: &Programs) -> Result<BTreeMap<String, String>> {
    let Tree::List(mut objects) = layers::objects(programs)? else {
        bail!("kustomize renders a list of objects");
    };
    parameters::place(&mut objects)?;
    let mut by_file: BTreeMap<String, Vec<&Item>> = BTreeMap::new();
    for object in &objects {
        let kind = object.key.split(' ').next().unwrap_or_default().to_lowercase();
        by_file
            .entry(format!("{FOLDER}/{}-{kind}.yaml", program(object)?))
            .or_default()
            .push(object);
    }
    let template = |(name, objects): (String, Vec<&Item>)| {
        let text = yaml::template(&objects).with_context(|| name.clone())?;
        Ok((name, format!("{HEADER}{DEFINITIONS}{text}")))
    };
    by_file.into_iter().map(template).collect()
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

/// Returns the templates that were generated.
fn generated() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in
        fs::read_dir(repository().join(FOLDER)).with_context(|| format!("listing {FOLDER}"))?
    {
        let file = file?;
        if fs::read_to_string(file.path())?.starts_with(HEADER) {
            names.push(format!("{FOLDER}/{}", file.file_name().to_string_lossy()));
        }
    }
    Ok(names)
}

const FOLDER: &str = "manifests/chart/templates";
const HEADER: &str = "\
{{- /* Made from what kustomize renders of manifests/: edit there, then run make manifests. */ -}}
";
