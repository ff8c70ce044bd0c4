//! Installer: brings plugin and configuration to the node, and back after others have changed them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube_access::WriteBudget;
use rustix::fs::{FlockOperation, flock};
use thiserror::Error;
use tokio::sync::{mpsc, watch};

use crate::args::{Arguments, ConfigMode, ConfigurationArgs};
use crate::folder_watch::FolderWatch;
use crate::install::conf_dir::ConfDir;
use crate::install::entry::{TYPE, entry};
use crate::install::files::{self, FileError};
use crate::install::plan::{FolderChange, Installation, NotYet, Place, STANDALONE};
use crate::metrics::{InstallResult, Metrics};
use crate::reconciler::Trigger;
use crate::run::readiness_file;

/// Folders and files of an installation.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Folder of the runtime's configurations.
    pub conf_dir: PathBuf,
    /// Folder of the runtime's plugins.
    pub bin_dir: PathBuf,
    /// Run folder of the agent.
    pub run_dir: PathBuf,
    /// The plugin to install.
    pub plugin: PathBuf,
    /// Mode of a new configuration.
    pub file_mode: u32,
}

/// Installer of the running agent.
#[derive(Debug)]
pub struct Installer {
    paths: Paths,
    configuration: ConfigurationArgs,
    metrics: Arc<Metrics>,
    triggers: mpsc::UnboundedSender<Trigger>,
    warnings: mpsc::UnboundedSender<String>,
    budget: WriteBudget,
    plugin_budget: WriteBudget,
    /// True once the temporary files of killed agents are removed.
    is_clean: bool,
    /// Warnings that are logged once.
    warned: BTreeSet<String>,
    /// True after an attempt that could not read or write.
    has_failed: bool,
    /// The last outcome, which is logged once.
    outcome: Option<String>,
    /// The last error of the watch, which is logged once.
    watch_error: Option<String>,
    /// True if the runtime may not have noticed a change, of this process or of one that was killed:
    /// it does not watch the folders of drop-ins and of the targets of links.
    is_reload_due: bool,
}

/// Error of an installation.
#[derive(Debug, Error)]
pub enum InstallError {
    /// The plugin cannot be installed.
    #[error("{0}")]
    Plugin(#[source] FileError),
    /// The configuration cannot be read or written.
    #[error("{0}")]
    Configuration(#[source] FileError),
    /// The configuration has to wait.
    #[error("{}: {error}", folder.display())]
    NotYet {
        /// The folder of the configurations.
        folder: PathBuf,
        /// The reason.
        error: NotYet,
    },
    /// Others change the folder all the time.
    #[error("{}: its files change while they are read", .0.display())]
    Unsteady(PathBuf),
    /// Another program undoes the installation.
    #[error("{file}: another program has removed or changed {what} again and again; now the agent writes it once in {} s", BETWEEN_WRITES.as_secs())]
    Fight {
        /// The file that is written.
        file: String,
        /// Thing that is removed: the plugin, or its entry.
        what: &'static str,
        /// Time until the next attempt.
        delay: Duration,
    },
}

impl Paths {
    /// Returns the paths that the command line names.
    pub fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let node = &arguments.node;
        let plugin = match &node.plugin {
            Some(plugin) => plugin.clone(),
            None => std::env::current_exe()?.with_file_name(TYPE),
        };
        Ok(Self {
            conf_dir: node.mounted_cni_net_dir.clone(),
            bin_dir: node.mounted_cni_bin_dir.clone(),
            run_dir: node.cni_agent_run_dir.clone(),
            plugin,
            file_mode: if arguments.configuration.cni_conf_group_read { 0o640 } else { 0o600 },
        })
    }

    /// Takes the lock between two agents on one node, until the file is dropped.
    pub fn lock(&self) -> io::Result<File> {
        let file = File::create(self.run_dir.join(LOCK))?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    /// Removes the temporary files of agents that were killed. The caller holds the lock.
    pub fn remove_leftovers(&self) {
        for folder in files::conf_dirs(&self.conf_dir).iter().chain([&self.bin_dir]) {
            files::remove_leftovers(folder);
        }
    }
}

/// Returns the installation that the flags ask for. `drop_ins` is true if the runtime reads them.
pub fn installation(flags: &ConfigurationArgs, run_dir: &Path, drop_ins: bool) -> Installation {
    let named = || flags.cni_conf_name.clone().filter(|name| !name.is_empty());
    let mode = if flags.chained_cni_plugin { flags.config_mode } else { ConfigMode::Standalone };
    let place = match mode {
        ConfigMode::Standalone => {
            Place::Standalone(named().unwrap_or_else(|| STANDALONE.to_owned()))
        }
        ConfigMode::Edit => Place::Edit(named()),
        ConfigMode::Own => Place::Own,
        ConfigMode::DropIn => Place::DropIn,
        ConfigMode::Auto => match named().filter(|_| !flags.istio_owned_cni_config) {
            Some(file) => Place::Edit(Some(file)),
            None if drop_ins && !flags.istio_owned_cni_config => Place::DropIn,
            None => Place::Own,
        },
    };
    Installation {
        place,
        own_file: flags.istio_owned_cni_config_filename.clone(),
        entry: entry(&flags.excluded(), run_dir, flags.on_unknown.into()),
    }
}

impl Installer {
    /// Creates the installer. `warnings` takes what operators of the node should know.
    pub fn new(
        arguments: &Arguments,
        metrics: Arc<Metrics>,
        triggers: mpsc::UnboundedSender<Trigger>,
        warnings: mpsc::UnboundedSender<String>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            paths: Paths::new(arguments)?,
            configuration: arguments.configuration.clone(),
            metrics,
            triggers,
            warnings,
            budget: WriteBudget::new(WRITES_AT_ONCE, BETWEEN_WRITES, Timestamp::now()),
            plugin_budget: WriteBudget::new(WRITES_AT_ONCE, BETWEEN_WRITES, Timestamp::now()),
            is_clean: false,
            warned: BTreeSet::new(),
            has_failed: false,
            outcome: None,
            watch_error: None,
            is_reload_due: true,
        })
    }

    /// Installs, and installs again after each change, for as long as the program runs.
    pub async fn run(mut self, mut drop_ins: watch::Receiver<bool>) -> anyhow::Error {
        loop {
            // Before the folders are read, so that no change is missed.
            let watch = self.watch();
            let known = *drop_ins.borrow_and_update();
            let installation = installation(&self.configuration, &self.paths.run_dir, known);
            // Another agent may hold the lock, and a disk may be slow.
            let done = tokio::task::spawn_blocking(move || {
                let delay = self.reconcile(&installation);
                (self, delay)
            });
            let delay;
            (self, delay) = match done.await {
                Ok(done) => done,
                Err(error) => return error.into(),
            };
            let changed = async {
                match &watch {
                    Some(watch) => watch.changed().await,
                    None => std::future::pending().await,
                }
            };
            let delay = if self.watch_error.is_none() { delay } else { delay.min(UNWATCHED) };
            tokio::select! {
                // The temporary file of an attempt that failed would wake up the loop at once.
                _ = changed, if !self.has_failed => {}
                Ok(()) = drop_ins.changed() => {}
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    /// Returns a watch of the folders that can be watched.
    fn watch(&mut self) -> Option<FolderWatch> {
        let mut folders = files::conf_dirs(&self.paths.conf_dir);
        folders.push(self.paths.bin_dir.clone());
        let mut first = None;
        let watch = FolderWatch::new();
        let watch = watch.map_err(|error| first = Some(format!("inotify: {error}"))).ok();
        for folder in folders {
            match watch.as_ref().map(|watch| watch.add(&folder)) {
                Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                    first.get_or_insert_with(|| format!("{}: {error}", folder.display()));
                }
                _ => {}
            }
        }
        if let Some(error) = &first
            && self.watch_error.as_ref() != Some(error)
        {
            let seconds = UNWATCHED.as_secs();
            tracing::warn!(
                "watching for changes: {error}; instead, the agent looks every {seconds} s"
            );
        }
        self.watch_error = first;
        watch
    }

    /// Installs what is missing. Returns the time until the next attempt without a change.
    fn reconcile(&mut self, installation: &Installation) -> Duration {
        let outcome = self.install(installation);
        let result = match &outcome {
            Ok(_) => InstallResult::SUCCESS,
            Err(InstallError::Plugin(_)) => InstallResult::COPY_BINARIES_FAILURE,
            Err(_) => InstallResult::CREATE_CNI_CONFIG_FAILURE,
        };
        self.set_ready(outcome.is_ok());
        let text = match &outcome {
            Ok(_) => format!("plugin and configuration are in place: {}", installation.place),
            Err(error) => format!("not installed: {error}"),
        };
        let is_new = self.outcome.as_ref() != Some(&text);
        if is_new || matches!(outcome, Ok(true)) {
            self.metrics.count_install(result);
        }
        match &outcome {
            Ok(_) if is_new => tracing::info!("{text}"),
            Err(error) if is_new => {
                tracing::warn!("{text}");
                if matches!(error, InstallError::Fight { .. }) {
                    // Without an API server, the log has said it.
                    let _ = self.warnings.send(error.to_string());
                }
            }
            _ => {}
        }
        if matches!(outcome, Ok(true)) {
            // The reconciler lives as long as the program, if there is one.
            let _ = self.triggers.send(Trigger::ConfigurationRestored);
        }
        self.outcome = Some(text);
        self.has_failed =
            matches!(outcome, Err(InstallError::Plugin(_) | InstallError::Configuration(_)));
        match outcome {
            Ok(_) => UNCHANGED,
            Err(InstallError::Fight { delay, .. }) => delay,
            Err(_) => AGAIN,
        }
    }

    /// Installs what is missing. True if the configuration was written.
    fn install(&mut self, installation: &Installation) -> Result<bool, InstallError> {
        let paths = self.paths.clone();
        // Without the lock, two agents may write in turn; each write is whole.
        let lock = paths.lock();
        if let Err(error) = &lock {
            self.warn_once(&format!("{}: {error}", paths.run_dir.join(LOCK).display()));
        }
        if !self.is_clean && lock.is_ok() {
            paths.remove_leftovers();
            self.is_clean = true;
        }
        // First, because runtimes reject a configuration whose plugin is missing.
        let new = files::new_plugin(&paths.plugin, &paths.bin_dir).map_err(InstallError::Plugin)?;
        if let Some(content) = new {
            if let Err(delay) = self.plugin_budget.take(Timestamp::now()) {
                let file = paths.bin_dir.join(TYPE).display().to_string();
                return Err(InstallError::Fight {
                    file,
                    what: "the plugin",
                    delay: delay.unsigned_abs(),
                });
            }
            files::install_plugin(&content, &paths.bin_dir).map_err(|error| {
                self.plugin_budget.give_back();
                InstallError::Plugin(error)
            })?;
        }
        let mut is_written = false;
        for _ in 0..ATTEMPTS {
            let folder =
                files::read_conf_dir(&paths.conf_dir).map_err(InstallError::Configuration)?;
            let changes = installation
                .changes(&folder)
                .map_err(|error| InstallError::NotYet { folder: paths.conf_dir.clone(), error })?;
            if changes.is_empty() {
                self.reload()?;
                self.warn_about_plugins(&folder);
                return Ok(is_written);
            }
            // A file that has changed since is read again first.
            if files::read_conf_dir(&paths.conf_dir).ok() != Some(folder) {
                continue;
            }
            let write = changes.iter().find(|change| !matches!(change, FolderChange::Remove(_)));
            let is_counted = write.is_some();
            if let Some(write) = write
                && let Err(delay) = self.budget.take(Timestamp::now())
            {
                let file = write.file().to_owned();
                let delay = delay.unsigned_abs();
                return Err(InstallError::Fight { file, what: "the plugin's entry", delay });
            }
            for (number, change) in changes.iter().enumerate() {
                self.is_reload_due = true;
                files::change(&paths.conf_dir, change, paths.file_mode).map_err(|error| {
                    if is_counted && number == 0 {
                        self.budget.give_back();
                    }
                    InstallError::Configuration(error)
                })?;
                is_written = true;
            }
        }
        Err(InstallError::Unsteady(paths.conf_dir))
    }

    /// Warns if the folder of plugins has none of the network's: the runtime may have another one.
    fn warn_about_plugins(&mut self, folder: &ConfDir) {
        let bin_dir = self.paths.bin_dir.clone();
        let used = folder.lists().next().map(|(file, list)| (file, list.others()));
        if let Some((file, plugins)) = used
            && !plugins.iter().any(|it| bin_dir.join(it).exists())
        {
            self.warn_once(&format!(
                "{} has none of the plugins of {file} ({}); hint: if pods do not start, mount the \
                 runtime's own folder of plugins here",
                bin_dir.display(),
                plugins.join(", ")
            ));
        }
    }

    fn warn_once(&mut self, warning: &str) {
        if self.warned.insert(warning.to_owned()) {
            tracing::warn!("{warning}");
        }
    }

    /// Makes the runtime load its folder again, if it may have missed a change.
    fn reload(&mut self) -> Result<(), InstallError> {
        if self.is_reload_due {
            files::reload(&self.paths.conf_dir).map_err(InstallError::Configuration)?;
        }
        self.is_reload_due = false;
        Ok(())
    }

    fn set_ready(&self, is_ready: bool) {
        let file = readiness_file(&self.paths.run_dir);
        let done = if is_ready { fs::write(&file, "") } else { fs::remove_file(&file) };
        if let Err(error) = done
            && is_ready
        {
            tracing::warn!("{}: {error}", file.display());
        }
    }
}

/// File of the lock in the run folder.
pub const LOCK: &str = "lock";
/// Writes that need not wait.
const WRITES_AT_ONCE: u32 = 5;
/// Interval between further writes.
const BETWEEN_WRITES: SignedDuration = SignedDuration::from_secs(5);
/// Attempts against a folder that changes meanwhile.
const ATTEMPTS: usize = 5;
/// Time until the folders are looked at again without a change.
const UNCHANGED: Duration = Duration::from_secs(10);
/// Time until they are looked at again without a watch.
const UNWATCHED: Duration = Duration::from_secs(1);
/// Time until the next attempt after an error.
const AGAIN: Duration = Duration::from_secs(2);
