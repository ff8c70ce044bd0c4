//! Paths of the programs that a node consists of.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};

use crate::skipped_tests;

/// Programs outside the tree (installed by `make setup`) and our own.
#[derive(Debug, Clone)]
pub struct Programs {
    cache: PathBuf,
}

impl Programs {
    /// Finds the folder that `make setup` fills.
    pub fn find() -> Result<Self> {
        let cache = env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
            .context("neither XDG_CACHE_HOME nor HOME is set")?;
        Ok(Self { cache: cache.join("outrigger") })
    }

    /// Returns [`Programs::find`] if it has the programs of API servers without a node.
    pub fn of_api_servers() -> Result<Self> {
        let programs = Self::find()?;
        for name in ["etcd", "kube-apiserver", "kubectl"] {
            programs.asset(name)?;
        }
        Ok(programs)
    }

    /// Returns [`Programs::of_api_servers`], or `None` if they are absent, which leaves `tests`
    /// out.
    pub fn of_api_servers_if_any(tests: &str) -> Result<Option<Self>> {
        match Self::of_api_servers() {
            Ok(programs) => Ok(Some(programs)),
            Err(error) => skipped_tests::record(tests, &format!("{error:#}")).map(|()| None),
        }
    }

    /// Returns a Kubernetes program of the version in `tests/kubernetes/go.mod`.
    ///
    /// It ignores `KUBEBUILDER_ASSETS`, because all programs of a node have the same version.
    pub fn kubernetes(&self, name: &str) -> Result<PathBuf> {
        let version = required_version(include_str!("../kubernetes/go.mod"), "k8s.io/kubernetes")?;
        existing(self.cache.join(format!("kubernetes-{version}")).join(name), "make setup")
    }

    /// Returns `CoreDNS` of the version in `tests/coredns/go.mod`.
    pub fn coredns(&self) -> Result<PathBuf> {
        let version =
            required_version(include_str!("../coredns/go.mod"), "github.com/coredns/coredns")?;
        existing(self.cache.join(format!("coredns-{version}")).join("coredns"), "make setup")
    }

    /// Returns Helm of the version in `tests/helm/go.mod`.
    pub fn helm(&self) -> Result<PathBuf> {
        let version = required_version(include_str!("../helm/go.mod"), "helm.sh/helm/v3")?;
        existing(self.cache.join(format!("helm-{version}")).join("helm"), "make setup")
    }

    /// Returns cnitool, the reference client of CNI, of the version in `tests/cnitool/go.mod`.
    pub fn cnitool(&self) -> Result<PathBuf> {
        let module = "github.com/containernetworking/cni";
        let version = required_version(include_str!("../cnitool/go.mod"), module)?;
        existing(self.cache.join(format!("cnitool-{version}")).join("cnitool"), "make setup")
    }

    /// Returns a program of an API server without a node: from the folder `KUBEBUILDER_ASSETS` if
    /// it is set, else that of a node.
    pub fn asset(&self, name: &str) -> Result<PathBuf> {
        match env::var_os("KUBEBUILDER_ASSETS").map(|folder| Path::new(&folder).join(name)) {
            Some(program) => existing(program, "unset KUBEBUILDER_ASSETS"),
            None if name == "etcd" => self.system(name),
            None => self.kubernetes(name),
        }
    }

    /// Returns Envoy of the version in `tests/envoy-version`.
    pub fn envoy(&self) -> Result<PathBuf> {
        let version = include_str!("../envoy-version").trim();
        existing(self.cache.join(format!("envoy-{version}")).join("envoy"), "make setup")
    }

    /// Returns promtool, which evaluates alerts.
    pub fn promtool(&self) -> Result<PathBuf> {
        existing(self.cache.join("promtool").join("promtool"), "make setup")
    }

    /// Returns mdBook of the version in `tests/mdbook-version`.
    pub fn mdbook(&self) -> Result<PathBuf> {
        let version = include_str!("../mdbook-version").trim();
        existing(self.cache.join(format!("mdbook-{version}/bin/mdbook")), "make setup")
    }

    /// Returns the gRPC application of `tests/grpc`, which speaks xDS itself.
    pub fn grpc_application(&self) -> Result<PathBuf> {
        let version = required_version(include_str!("../grpc/go.mod"), "google.golang.org/grpc")?;
        let folder = self.cache.join(format!("grpc-{version}"));
        existing(folder.join("grpc-application"), "make setup")
    }

    /// Returns a program of this repository from [`own_programs`].
    pub fn own(&self, name: &str) -> Result<PathBuf> {
        existing(own_programs()?.join(name), "make test-programs, or make build for dist/")
    }

    /// Returns a program from a Debian package.
    pub fn system(&self, name: &str) -> Result<PathBuf> {
        let folders = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"];
        match folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists()) {
            Some(program) => Ok(program),
            None => bail!("{name} is not installed; hint: make setup"),
        }
    }
}

/// Returns the root of the work tree of the running test. Cargo names its package at run time; what
/// is compiled in may name another work tree with the same target directory.
pub fn repository() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let package = env::var_os("CARGO_MANIFEST_DIR");
        let package = package.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = package.ancestors().find(|folder| folder.join("Cargo.lock").exists());
        root.unwrap_or(&package).to_owned()
    });
    &ROOT
}

/// Returns the folder of this repository's programs: the one that `OUTRIGGER_PROGRAMS` names
/// relative to the work tree, such as `dist`, or else the one that cargo built them into with the
/// running test.
pub fn own_programs() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("OUTRIGGER_PROGRAMS") {
        return Ok(repository().join(folder));
    }
    let test = env::current_exe().context("finding this program")?;
    let folder = test.parent().and_then(Path::parent);
    folder.map(Path::to_owned).context("this program is in no folder of cargo")
}

/// Returns the version of a module that a `go.mod` requires.
fn required_version<'a>(go_mod: &'a str, module: &str) -> Result<&'a str> {
    let mut lines = go_mod.lines().map(|line| line.trim().trim_start_matches("require "));
    lines
        .find_map(|line| line.strip_prefix(module)?.strip_prefix(' ')?.split(' ').next())
        .with_context(|| format!("no go.mod in tests/ requires {module}"))
}

fn existing(program: PathBuf, made_by: &str) -> Result<PathBuf> {
    if program.exists() {
        return Ok(program);
    }
    bail!("{} does not exist; hint: {made_by}", program.display())
}
