//! Commands of `webhook-certs`.

mod cluster_args;
#[cfg(test)]
mod reference;
pub mod rotation_args;
mod state_report;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use crate::authority::{Authority, Entropy, Lifetime};
use crate::cluster::{self, RotationRequest};
use crate::server_names::ServerNames;
use crate::serving::ServingCertificate;
use crate::status::Status;
use anyhow::{Context, Result};
use clap::error::ErrorKind as UsageKind;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use kube_access::LogFilter;
use local_files::{FileSet, SetFile};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use cluster_args::ClusterArgs;
use rotation_args::duration;
use state_report::StateReport;

/// Issues, rotates and publishes the certificates of an admission webhook.
#[derive(Debug, Parser)]
#[command(name = "webhook-certs", version = program_version::text(), after_help = EXIT_HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Filter of the log on stderr: LEVEL, or TARGET=LEVEL of tracing, or SCOPE:LEVEL of Istio.
    #[arg(long, global = true, env = "RUST_LOG", value_name = "FILTER", default_value = "info")]
    pub log: LogFilter,
}

impl Cli {
    /// Parses the command line of the process; ends it after help and invalid usage.
    pub fn from_process() -> Self {
        Self::from_arg_matches(&grammar().get_matches()).unwrap_or_else(|error| error.exit())
    }
}

/// Returns the commands, with the defaults of all flags in the help.
fn grammar() -> clap::Command {
    Cli::command().mut_subcommands(rotation_args::with_defaults)
}

/// Hides a flag about the reconciliation by replicas. The flags of the replicas are accepted, since
/// the delays among them change when `status` expects the next phase.
fn without_server_flag(arg: Arg) -> Arg {
    let of_server = arg.get_help_heading() == Some(rotation_args::HEADING);
    arg.hide(of_server)
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Keeps the CA's Secret and the caBundle of the webhook configurations valid until it is
    /// terminated. Replicas of the webhook do the same by themselves.
    #[command(after_help = SERVE_HELP)]
    Serve(ClusterArgs),
    /// Prints the phase of the CA's rotation, the expiry of its CAs, and the webhook entries that
    /// trust them. Exits 1 if there is no usable CA or an entry does not trust it.
    Status(StatusArgs),
    /// Asks the replicas to replace the CA. Admission continues meanwhile.
    Rotate(RotateArgs),
    /// Writes a CA and a leaf as PEM files, for a webhook without access to the API server. An
    /// existing CA signs again, so clients that trust it trust the new leaf.
    Issue(IssueArgs),
    /// Prints the version and the commit.
    Version,
}

#[derive(Debug, Args)]
#[command(after_help = STATUS_HELP, mut_args(without_server_flag))]
struct StatusArgs {
    /// Format of the output.
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    output: OutputFormat,
    // Last, because its heading applies to the fields behind it.
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum OutputFormat {
    /// Lines of text.
    #[default]
    Table,
    /// One JSON object.
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_HELP, mut_args(without_server_flag))]
struct RotateArgs {
    /// Withdraw trust from a CA as soon as every replica has a leaf of another one, instead of when
    /// its last leaf has expired. For a key that may have leaked. NUMBER is at the end of the CA's
    /// name; without it the signing CA is revoked. NUMBER is required while the previous CA is
    /// trusted too. A replica without connection to the API server is not trusted from then on.
    #[arg(
        long,
        value_name = "NUMBER",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = RevokeTarget::ACTIVE,
    )]
    revoke: Option<RevokeTarget>,
    // Last, because its heading applies to the fields behind it.
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// CA to revoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RevokeTarget {
    Active,
    Numbered(u64),
}

impl RevokeTarget {
    /// Word for the signing CA; not empty, so that an empty value is an error.
    const ACTIVE: &str = "active";

    fn number(self) -> Option<u64> {
        match self {
            Self::Active => None,
            Self::Numbered(number) => Some(number),
        }
    }
}

impl FromStr for RevokeTarget {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text == Self::ACTIVE {
            return Ok(Self::Active);
        }
        text.parse().map(Self::Numbered).map_err(|_| {
            "not the number of a CA; hint: the names of CAs end with it; see `webhook-certs status`"
                .to_owned()
        })
    }
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_HELP)]
struct IssueArgs {
    /// DNS name or address of the leaf; may be repeated.
    #[arg(long = "dns", value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Directory for ca.crt, ca.key, tls.crt and tls.key; it is created if missing. The files are
    /// symbolic links into a directory of their own, and change all at once.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Lifetime of the leaf, and of a new CA. No leaf outlives its CA.
    #[arg(long, value_name = "DURATION", default_value = "168h", value_parser = duration)]
    lifetime: SignedDuration,
    /// Make a new CA that replaces an existing one.
    #[arg(long)]
    new_ca: bool,
}

/// The table of the reference page.
#[cfg(test)]
const EXIT_CODES: [(u8, &str); 3] = [
    (0, "done; `serve`: ended by SIGTERM or SIGINT"),
    (1, "failed; `status`: there is no usable CA, or a webhook entry does not trust it"),
    (2, "invalid command line"),
];

/// Runs a command.
pub fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Issue(args) => issue(&args),
        Command::Serve(args) => runtime()?.block_on(serve(args)),
        Command::Status(args) => runtime()?.block_on(status(args)),
        Command::Rotate(args) => runtime()?.block_on(rotate(args)),
        Command::Version => {
            let line = writeln!(std::io::stdout(), "webhook-certs {}", program_version::text());
            line.context("writing the version").map(|()| ExitCode::SUCCESS)
        }
    }
}

async fn serve(args: ClusterArgs) -> Result<ExitCode> {
    let options = options(&args);
    let (client, server) = args.client().await?;
    let mut terminated = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let (status, _) = watch::channel(Status::default());
    tokio::select! {
        failed = cluster::maintain(client, options, ServingCertificate::new(), status) => {
            let Err(error) = failed;
            Err(error).context(server).context("cannot maintain certificates")
        }
        _ = terminated.recv() => Ok(ExitCode::SUCCESS),
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::SUCCESS),
    }
}

async fn status(args: StatusArgs) -> Result<ExitCode> {
    let options = options_of_own_ca(&args.cluster);
    let (client, server) = args.cluster.client().await?;
    let seen = cluster::observe(client, &options).await.context(server)?;
    let report = StateReport::new(&seen, &options, seen.now(Timestamp::now()))?;
    print(&match args.output {
        OutputFormat::Table => report.to_table(),
        OutputFormat::Json => vec![report.to_json()?],
    })?;
    Ok(if report.is_healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn rotate(args: RotateArgs) -> Result<ExitCode> {
    let options = options_of_own_ca(&args.cluster);
    let request = args
        .revoke
        .map_or(RotationRequest::Rotation, |revoked| RotationRequest::Revocation(revoked.number()));
    let (client, server) = args.cluster.client().await?;
    let (ca, revocation) = cluster::rotate(client, &options, request).await.context(server)?;
    let what = revocation.map_or_else(
        || format!("{} will be replaced", ca.name()),
        |revocation| revocation.to_string(),
    );
    print(&[format!("{what}; hint: `webhook-certs status` shows the progress")])?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &ClusterArgs) -> cluster::Options {
    args.options().unwrap_or_else(|error| exit_with_usage_error(&error.to_string()))
}

fn options_of_own_ca(args: &ClusterArgs) -> cluster::Options {
    let options = options(args);
    if options.signer.is_some() {
        exit_with_usage_error(
            "with --cert-mode csr there is no CA in a Secret; \
             hint: `kubectl get certificatesigningrequests` lists the requests",
        );
    }
    options
}

fn exit_with_usage_error(message: &str) -> ! {
    Cli::command().error(UsageKind::ArgumentConflict, message).exit()
}

fn issue(args: &IssueArgs) -> Result<ExitCode> {
    let names = ServerNames::parse(&args.names).context("--dns")?;
    let lifetime = Lifetime::starting(Timestamp::now(), args.lifetime);
    let directory = FileSet::open(&args.out, "webhook-certs")
        .with_context(|| format!("--out: cannot create `{}`", args.out.display()))?;
    if let Some(others) = directory.other_writers().context("--out")? {
        tracing::warn!(
            "--out: {others} may write in `{}` and replace the CA in it; hint: use a directory \
             that only you may write in",
            args.out.display()
        );
    }
    let authority = match present_authority(args, &directory)? {
        Some(authority) => authority,
        None => Authority::create("webhook-certs", 1, lifetime, Entropy::draw()?)?,
    };
    let leaf = authority.issue(&names, lifetime, Entropy::draw()?)?;
    let (ca_key, key) = (authority.key_pem(), leaf.key_pem());
    let (ca, certificate) = (authority.certificate_pem(), leaf.certificate_pem());
    let files = [
        SetFile { name: "ca.crt", is_private: false, text: &ca },
        SetFile { name: "ca.key", is_private: true, text: &ca_key },
        SetFile { name: "tls.crt", is_private: false, text: &certificate },
        SetFile { name: "tls.key", is_private: true, text: &key },
    ];
    directory
        .publish(&files)
        .with_context(|| format!("--out: cannot write in `{}`", args.out.display()))?;
    let paths = files.map(|file| directory.path_of(file.name).display().to_string());
    print(&paths)?;
    Ok(ExitCode::SUCCESS)
}

/// Loads the CA of a previous call, if it is to sign again.
fn present_authority(args: &IssueArgs, directory: &FileSet) -> Result<Option<Authority>> {
    let read = |file: &str| {
        directory
            .read(file)
            .with_context(|| format!("--out: cannot read `{}`", directory.path_of(file).display()))
    };
    if args.new_ca {
        return Ok(None);
    }
    let (certificate, key) = match (read("ca.crt")?, read("ca.key")?) {
        (None, None) => return Ok(None),
        (certificate, key) => (certificate.unwrap_or_default(), key.unwrap_or_default()),
    };
    let hint = "hint: --new-ca replaces it";
    let authority = Authority::from_pem(&certificate, &key)
        .map_err(|error| anyhow::anyhow!("--out `{}`: {error}; {hint}", args.out.display()))?;
    let ca = authority.ca();
    anyhow::ensure!(
        ca.is_valid_at(Timestamp::now()),
        "--out `{}`: the CA {} is not valid now, only from {} until {}; {hint}",
        args.out.display(),
        ca.name(),
        ca.not_before(),
        ca.not_after()
    );
    Ok(Some(authority))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

const EXIT_HELP: &str = "Exit codes:\n  0  done\n  1  failed\n  2  invalid usage";

const SERVE_HELP: &str =
    "Exit codes:\n  0  ended by SIGTERM or SIGINT\n  1  failed\n  2  invalid usage";

const STATUS_HELP: &str = "Exit codes:\n  0  every webhook entry trusts the CA\n  1  failed, no \
                            usable CA, or an entry that does not trust it\n  2  invalid usage";

fn print(lines: &[String]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    for line in lines {
        writeln!(stdout, "{line}").context("cannot write to stdout")?;
    }
    Ok(())
}
