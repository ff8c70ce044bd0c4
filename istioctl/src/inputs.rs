//! Input files of a command: files, directories and standard input.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use documents::yaml;
use injector::manifest::{Document, PodTemplateRule};

use crate::output_flags::Destination;
use crate::printable::Printable;
use crate::unrendered::Unrendered;
use crate::{Failure, Streams};

/// Flags that name the input files.
#[derive(Debug, Args)]
pub(crate) struct InputFlags {
    /// A file, or a directory of .yaml, .yml and .json files; `-` is standard input. May be
    /// repeated
    #[arg(short, long, value_name = "FILE|DIRECTORY", required = true)]
    filename: Vec<PathBuf>,
    /// Read the subdirectories of a directory too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// A pod template in another kind of objects, such as
    /// `Widget.example.com=.spec.jobs[*].template`; any API group without GROUP. May be repeated
    #[arg(long = "pod-template", value_name = "KIND.GROUP=.PATH")]
    pod_templates: Vec<PodTemplateRule>,
}

/// An input file and its text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct InputFile {
    /// The file; `None` for standard input.
    pub(crate) path: Option<PathBuf>,
    /// The whole text.
    pub(crate) text: String,
}

impl InputFlags {
    /// Returns the rules for pod templates in other kinds.
    pub(crate) fn pod_templates(&self) -> &[PodTemplateRule] {
        &self.pod_templates
    }

    /// Returns a usage error if standard input is to be written in place.
    pub(crate) fn refuse_standard_input(&self, to: Destination<'_>) -> Result<(), Failure> {
        let named = self.filename.iter().any(|path| path == Path::new(STANDARD));
        if named && to == Destination::InPlace {
            return Err(Failure::Usage(NO_FILE.to_owned()));
        }
        Ok(())
    }

    /// Reads the files in the order of the flags, those of a directory in the order of their names.
    /// A file that is named twice is read once. All unreadable files are named.
    pub(crate) fn read(
        &self,
        streams: &mut Streams<'_>,
    ) -> Result<Vec<InputFile>, Vec<anyhow::Error>> {
        let (files, errors) = read("--filename ", &self.filename, self.recursive, streams);
        if errors.is_empty() { Ok(files) } else { Err(errors) }
    }

    /// Reads the files as [`Self::read`] does, for a command that does not write them.
    pub(crate) fn read_only(
        &self,
        streams: &mut Streams<'_>,
    ) -> Result<Vec<InputFile>, Vec<anyhow::Error>> {
        Ok(self.read(streams)?.into_iter().map(InputFile::indented).collect())
    }
}

/// Reads files and directories as [`InputFlags::read`] does. Returns the readable files and the
/// errors of the others, in which `flag` stands before a path.
pub(crate) fn read(
    flag: &str,
    given: &[PathBuf],
    recursive: bool,
    streams: &mut Streams<'_>,
) -> (Vec<InputFile>, Vec<anyhow::Error>) {
    let (mut paths, mut errors) = (Vec::new(), Vec::new());
    for given in given {
        match expand(given, recursive) {
            Ok(found) => paths.extend(found),
            Err(error) => errors.push(error.context(format!("{flag}{}", given.display()))),
        }
    }
    let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
    // `web.yaml` and `./web.yaml` are one file; standard input and missing files have no path.
    let identity = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    for path in paths.into_iter().filter(|path| seen.insert(identity(path))) {
        match InputFile::read(flag, &path, streams) {
            Ok(file) => files.push(file),
            Err(error) => errors.push(error),
        }
    }
    (files, errors)
}

/// Returns the files that a path stands for.
fn expand(given: &Path, recursive: bool) -> anyhow::Result<Vec<PathBuf>> {
    let is_url = |text: &str| ["http://", "https://"].iter().any(|one| text.starts_with(one));
    ensure!(!given.to_str().is_some_and(is_url), "URLs are not read{DOWNLOAD}");
    if given == Path::new(STANDARD) || !given.is_dir() {
        return Ok(vec![given.to_owned()]);
    }
    let mut files = Vec::new();
    walk(given, recursive, &mut files)?;
    if files.is_empty() {
        let hint = if recursive { "" } else { "; hint: -R also reads subdirectories" };
        return Err(anyhow!("the directory has no .yaml, .yml or .json file{hint}"));
    }
    Ok(files)
}

impl InputFile {
    fn read(flag: &str, path: &Path, streams: &mut Streams<'_>) -> anyhow::Result<Self> {
        let (mut file, mut bytes) = (Self { path: None, text: String::new() }, Vec::new());
        if path == Path::new(STANDARD) {
            streams.input.read_to_end(&mut bytes).with_context(|| file.to_string())?;
        } else {
            file.path = Some(path.to_owned());
            bytes = fs::read(path).with_context(|| format!("{flag}{file}"))?;
        }
        file.text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = before.split(|byte| *byte == b'\n').count();
            anyhow!(
                "{file}: line {line} is not UTF-8 text; hint: convert it, as with iconv -t UTF-8"
            )
        })?;
        let lines = file.text.trim_end();
        let ends_in_cr = lines.contains('\r') && !lines.contains('\n');
        ensure!(!ends_in_cr, "{file}: its lines end with CR alone{NEW_LINES}");
        Ok(file)
    }

    /// Returns the file for reading alone: a quoted string may continue in any column, as for Go's
    /// parser, and such lines are indented. Their numbers stay.
    pub(crate) fn indented(self) -> Self {
        let documents = Document::split(&self.text).into_iter();
        let texts = documents.map(|it| yaml::indented(it.text).unwrap_or_else(|| it.text.into()));
        Self { text: texts.collect(), path: self.path }
    }
}

impl fmt::Display for InputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => Printable(&path.to_string_lossy()).fmt(f),
            None => f.write_str("standard input"),
        }
    }
}

/// Adds the manifests of a directory in the order of their names. As in kubectl, a symbolic link
/// to a directory is not followed.
fn walk(directory: &Path, recursive: bool, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let named = || directory.display().to_string();
    let entries = fs::read_dir(directory).with_context(named)?;
    let mut entries = entries.collect::<io::Result<Vec<_>>>().with_context(named)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().with_context(|| path.display().to_string())?.is_dir() {
            if recursive {
                walk(&path, recursive, files)?;
            }
        } else if is_manifest(&path) && !path.is_dir() {
            // A pipe would wait for a writer.
            let is_other = fs::metadata(&path).is_ok_and(|found| !found.is_file());
            ensure!(!is_other, "{}: not a regular file{}", path.display(), NAME_IT);
            files.push(path);
        }
    }
    Ok(())
}

/// True if kubectl reads the file when its directory is named.
fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    extension.is_some_and(|extension| ["json", "yaml", "yml"].contains(&extension))
}

/// File name that means standard input or output.
pub(crate) const STANDARD: &str = "-";

const DOWNLOAD: &str = "; hint: download it first: curl --fail --location --remote-name URL";

const NEW_LINES: &str = "; hint: convert it: tr '\\r' '\\n' <OLD >NEW";

const NAME_IT: &str = "; hint: to read a pipe, name it with --filename";

const NO_FILE: &str = "error: --in-place: standard input is not a file; hint: name files or \
                       directories with --filename";

/// Returns the error about files without a pod.
pub(super) fn no_pods(files: &[InputFile]) -> anyhow::Error {
    let mut unrendered =
        files.iter().filter_map(|file| Some((file, Unrendered::by_name(file)?.reason())));
    match unrendered.next() {
        Some((file, reason)) => anyhow!("{file}: {reason}"),
        None => anyhow!(NO_PODS),
    }
}

const NO_PODS: &str = "no file has a pod or a workload with a pod template; hint: \
                                  --pod-template names the template of another kind";
