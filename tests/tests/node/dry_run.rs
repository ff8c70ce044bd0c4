//! `istioctl kube-inject -f FILE | kubectl create --dry-run=server -f -`.
//!
//! The API server is the strictest parser: it knows every field of its version, and the valid
//! values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use anyhow::{Context, Result, anyhow, ensure};
use e2e::cluster::Cluster;
use e2e::programs::repository;
use e2e::skipped_tests;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::istioctl::{INSTALLATION, KubeInject};

pub(crate) fn api_server_accepts_every_injected_example(fixture: &Fixture) -> Result<()> {
    let mut trial = Trial::new(fixture.cluster())?;
    for example in files(&repository().join("manifests/examples"))? {
        for settings in [&[][..], &INSTALLATION] {
            let call = KubeInject::new(example.clone()).flags(settings.iter().copied());
            trial.expect_accepted(&example, &call.run()?)?;
        }
    }
    trial.end()
}

pub(crate) fn api_server_accepts_every_injected_layout(fixture: &Fixture) -> Result<()> {
    let mut trial = Trial::new(fixture.cluster())?;
    let layouts = files(&repository().join("injector/testdata/kube-inject/edits"))?;
    for layout in layouts.into_iter().filter(|layout| !layout.ends_with(NOT_TEXT)) {
        trial.expect_accepted(&layout, &KubeInject::new(layout.clone()).run()?)?;
    }
    trial.end()
}

/// Its names are booleans and numbers to YAML, which Kubernetes refuses in a pod.
const NOT_TEXT: &str = "aliased-spellings.yaml";

#[expect(clippy::print_stdout, reason = "what is left out is said")]
pub(crate) fn api_server_accepts_our_injection_of_istios_cases(fixture: &Fixture) -> Result<()> {
    let Some(folder) = env::var_os("ISTIO_CASES").map(PathBuf::from) else {
        return skipped_tests::record("Istio's cases at an API server", "ISTIO_CASES is not set");
    };
    let mut trial = Trial::new(fixture.cluster())?;
    for case in folders(&folder)? {
        let input = case.join("input.yaml");
        if !input.exists() {
            continue;
        }
        let options = fs::read_to_string(case.join("options.json"))?;
        let options: Value = serde_json::from_str(&options)?;
        let Some(modes) = options["modes"].as_array() else { continue };
        let is_refused = options["expectedError"].is_string();
        if is_refused || !modes.iter().any(|mode| mode == "kube-inject") {
            continue;
        }
        let file = |name: &str| {
            let own = case.join(name);
            if own.exists() { own } else { folder.join("defaults").join(name) }
        };
        let environment: BTreeMap<String, String> =
            serde_json::from_value(options["env"].clone()).unwrap_or_default();
        let settings =
            [("--valuesFile", file("values.json")), ("--meshConfigFile", file("mesh.yaml"))];
        let templates = [("--injectConfigFile", file("inject_config.yaml"))];
        let built_in = KubeInject::new(input.clone()).flags(settings).environment(environment);
        let has_own_templates = case.join("inject_config.yaml").exists();
        if !has_own_templates {
            trial.expect_accepted(&input, &built_in.run()?)?;
        }
        match built_in.flags(templates).run() {
            Ok(injected) => trial.expect_accepted(&input, &injected)?,
            // Another test checks that it was injected.
            Err(error) => println!("left out: {}: {error:#}", case.display()),
        }
    }
    trial.end()
}

/// The API server, used for dry runs. No webhook is called, because its namespaces are not labelled
/// for injection.
struct Trial<'a> {
    cluster: &'a Cluster,
    /// Results for the files without injection.
    plain: BTreeMap<PathBuf, Result<(), String>>,
    /// All errors, reported together at the end.
    complaints: Vec<String>,
}

impl<'a> Trial<'a> {
    fn new(cluster: &'a Cluster) -> Result<Self> {
        // The namespace stays empty.
        let namespaces = NAMESPACES.map(|name| {
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string()
        });
        // Other stories create it at the same time.
        let apply = ["apply", "--server-side", "--filename", "-"];
        cluster.kubectl().must_with_input(apply, &namespaces.join("\n---\n"))?;
        Ok(Self { cluster, plain: BTreeMap::new(), complaints: Vec::new() })
    }

    fn end(self) -> Result<()> {
        ensure!(self.complaints.is_empty(), "{}", self.complaints.join("\n"));
        Ok(())
    }

    /// Checks that the API server accepts `file` and its injected form, or rejects a known invalid
    /// file.
    fn expect_accepted(&mut self, file: &Path, injected: &str) -> Result<()> {
        let text = fs::read_to_string(file)?;
        let is_known = REFUSED.iter().any(|(name, _)| file.ends_with(name));
        let (before, after) = thread::scope(|scope| {
            let before = self.plain.get(file).cloned();
            let asked = scope.spawn(|| before.unwrap_or_else(|| self.create(&text)));
            let after = self.create(injected);
            anyhow::Ok((asked.join().map_err(|_| anyhow!("a thread panicked"))?, after))
        })?;
        let complaint = match (&before, &after, is_known) {
            (Ok(()), Ok(()), false) | (Err(_), _, true) | (_, Err(_), true) => None,
            (Ok(()), Ok(()), true) => Some("is accepted, and listed as refused".to_owned()),
            (Err(error), _, false) => {
                Some(format!("the API server rejects it before injection: {error}"))
            }
            (_, Err(error), false) => {
                Some(format!("the API server rejects it after injection: {error}"))
            }
        };
        self.plain.insert(file.to_owned(), before);
        let Some(complaint) = complaint else { return Ok(()) };
        self.complaints.push(format!("{} {complaint}", file.display()));
        Ok(())
    }

    fn create(&self, documents: &str) -> Result<(), String> {
        let create = ["create", "--dry-run=server", "--validate=strict", "--filename=-"];
        let created = self.cluster.kubectl().must_with_input(create, documents);
        created.map(drop).map_err(|error| format!("{error:#}"))
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    entries(folder, |path| path.extension().is_some_and(|end| end == "yaml" || end == "json"))
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    entries(folder, Path::is_dir)
}

fn entries(folder: &Path, wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let list = fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    let paths = list.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let mut paths: Vec<_> = paths.into_iter().filter(|path| wanted(path)).collect();
    paths.sort();
    ensure!(!paths.is_empty(), "{}: nothing to try", folder.display());
    Ok(paths)
}

/// The namespaces of the files.
const NAMESPACES: [&str; 1] = ["sample"];

/// Files that the API server rejects for their own content, with the reason.
const REFUSED: [(&str, &str); 22] = [
    ("edits/aliased-template.yaml", SELECTOR),
    ("edits/anchors.yaml", "it has fields of its own to hang anchors on"),
    ("edits/block-scalars.yaml", "its labels have several lines"),
    ("edits/bom.json", "it has no containers"),
    ("edits/comments-beside-values.yaml", SELECTOR),
    ("edits/crlf.yaml", SELECTOR),
    ("edits/duplicate-looking-keys.yaml", "its labels have the names of fields"),
    ("edits/flow.yaml", SELECTOR),
    ("edits/four-spaces.yaml", SELECTOR),
    ("edits/kubectl.json", SELECTOR),
    ("edits/list.yaml", SELECTOR),
    ("edits/lists-not-indented.yaml", SELECTOR),
    ("edits/moved.yaml", IMAGE),
    ("edits/no-final-newline-inside.yaml", IMAGE),
    ("edits/nulls.yaml", IMAGE),
    ("edits/quoted-keys.yaml", SELECTOR),
    ("edits/separators.yaml", "kubectl does not take a document on the line of its separator"),
    ("edits/tabs.json", IMAGE),
    ("edits/unicode.yaml", "its labels and names are not ASCII"),
    ("deploymentconfig/input.yaml", "the cluster has no DeploymentConfig, which is OpenShift's"),
    ("status_annotations_zeroport/input.yaml", "its name has upper case letters"),
    ("user-volume/input.yaml", "its annotation asks for a volume with an absolute path"),
];

const SELECTOR: &str = "it has no selector, or one that does not match its labels";
const IMAGE: &str = "its containers have no images";
