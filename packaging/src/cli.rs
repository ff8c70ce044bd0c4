//! Command line of `packaging`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use packaging::images::{CERTIFICATES, ImageInputs, PROGRAM_IMAGES};
use packaging::oci::ImageArchive;
use packaging::release::{PlatformBuild, Release};
use packaging::{Error, Image, Origin, Platform, Revision, SourceDate, release_notes};

/// Packages the release programs
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Cli {
    /// Root of the source code
    #[arg(long, value_name = "FOLDER", default_value = ".", global = true)]
    workspace: PathBuf,
    #[command(subcommand)]
    command: PackagingCommand,
}

#[derive(Debug, Subcommand)]
enum PackagingCommand {
    /// Write archives, Debian packages, images, bills of materials, provenance and checksums
    Release(ReleaseArgs),
    /// Write the images of this machine's platform as archives to load
    Images(ImageArgs),
    /// Print the section of a version in CHANGELOG.md
    ReleaseNotes {
        /// Version, as in the title of the section
        version: String,
    },
}

#[derive(Debug, Args)]
struct ReleaseArgs {
    /// Programs of a platform; can be repeated
    #[arg(long, value_name = "PLATFORM=FOLDER", value_parser = at_platform, required = true)]
    programs: Vec<(Platform, PathBuf)>,
    /// Envoy of a platform, for the image of the proxy; can be repeated
    #[arg(long, value_name = "PLATFORM=FILE", value_parser = at_platform)]
    envoy: Vec<(Platform, PathBuf)>,
    /// Version of Envoy
    #[arg(long, value_name = "VERSION")]
    envoy_version: String,
    /// Folder for the release; its content is replaced
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    /// Commit of the source code; none if the work tree has changes
    #[arg(long, value_name = "COMMIT")]
    revision: Option<Revision>,
    /// Time of the commit, in seconds since 1970
    #[arg(long, env = "SOURCE_DATE_EPOCH", value_name = "SECONDS")]
    source_date: Option<SourceDate>,
    /// URL of the source code
    #[arg(long, env = "OUTRIGGER_SOURCE", value_name = "URL")]
    source: Option<String>,
    /// Builder in the provenance
    #[arg(
        long,
        env = "OUTRIGGER_BUILDER",
        value_name = "URI",
        default_value = "urn:outrigger:builder:local"
    )]
    builder: String,
    /// Log of the build in the provenance
    #[arg(long, env = "OUTRIGGER_INVOCATION", value_name = "URI")]
    invocation: Option<String>,
    /// Maintainer of the Debian packages
    #[arg(
        long,
        env = "OUTRIGGER_MAINTAINER",
        value_name = "NAME <ADDRESS>",
        default_value = "Outrigger maintainers <maintainers@outrigger.invalid>"
    )]
    maintainer: String,
    #[command(flatten)]
    names: NameArgs,
}

#[derive(Debug, Args)]
struct ImageArgs {
    /// Folder of the programs
    #[arg(long, value_name = "FOLDER")]
    programs: PathBuf,
    /// Envoy, for the image of the proxy
    #[arg(long, value_name = "FILE")]
    envoy: PathBuf,
    /// Folder for the archives
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    #[command(flatten)]
    names: NameArgs,
}

#[derive(Debug, Args)]
struct NameArgs {
    /// Repository of the images, without the last part of their names
    #[arg(long, value_name = "REPOSITORY", default_value = "localhost/outrigger")]
    repository: String,
    /// Root certificates for programs in images
    #[arg(long, value_name = "FILE", default_value = CERTIFICATES)]
    certificates: PathBuf,
}

impl Cli {
    pub(crate) fn run(self) -> Result<()> {
        match self.command {
            PackagingCommand::Release(args) => write_release(args, self.workspace),
            PackagingCommand::Images(args) => write_images(&args),
            PackagingCommand::ReleaseNotes { version } => {
                print_notes(&self.workspace.join("CHANGELOG.md"), &version)
            }
        }
    }
}

#[expect(clippy::print_stderr, reason = "talk of a program without a log")]
fn write_release(args: ReleaseArgs, workspace: PathBuf) -> Result<()> {
    let mut envoys = args.envoy;
    let builds = args.programs.into_iter().map(|(platform, programs)| {
        let found = envoys.iter().position(|(one, _)| *one == platform);
        let envoy = found.map(|index| envoys.swap_remove(index).1);
        PlatformBuild { platform, programs, envoy }
    });
    let release = Release {
        workspace,
        builds: builds.collect(),
        envoy_version: args.envoy_version,
        origin: Origin {
            version: VERSION.to_owned(),
            revision: args.revision,
            source: args.source,
            date: args.source_date,
            maintainer: args.maintainer,
        },
        builder: args.builder,
        invocation: args.invocation,
        repository: args.names.repository,
        certificates: args.names.certificates,
    };
    if args.output.exists() {
        fs::remove_dir_all(&args.output)
            .with_context(|| format!("removing {}", args.output.display()))?;
    }
    for line in release.write(args.output)? {
        eprintln!("packaging: LEFT OUT: {line}");
    }
    Ok(())
}

fn write_images(args: &ImageArgs) -> Result<()> {
    let inputs = ImageInputs {
        repository: &args.names.repository,
        tag: VERSION,
        platform: Platform::host(),
        programs: &args.programs,
        certificates: &args.names.certificates,
    };
    let write = |image: &Image| {
        let file_name = format!("{}.image.tar", image.name().title());
        ImageArchive::write_plain(image, &args.output.join(file_name))
    };
    for image in PROGRAM_IMAGES {
        write(&inputs.program(image)?)?;
    }
    write(&inputs.proxy(&args.envoy)?)?;
    Ok(())
}

fn print_notes(changelog: &Path, version: &str) -> Result<()> {
    let text = fs::read_to_string(changelog)
        .with_context(|| format!("reading {}", changelog.display()))?;
    let notes = release_notes(&text, version).ok_or_else(|| Error::NoSection {
        changelog: changelog.to_owned(),
        version: version.to_owned(),
    })?;
    std::io::stdout().write_all(notes.as_bytes()).context("writing the notes")
}

fn at_platform(text: &str) -> Result<(Platform, PathBuf), String> {
    let (platform, path) = text.split_once('=').ok_or("expected PLATFORM=PATH")?;
    Ok((platform.parse()?, path.into()))
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
