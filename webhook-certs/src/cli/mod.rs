//! The commands of `webhook-certs`.

mod cluster_args;
mod state_report;

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::cluster;
use webhook_certs::parameter_args::duration;
use webhook_certs::server_names::ServerNames;
use webhook_certs::serving::ServingCertificate;
use webhook_certs::status::Status;

use cluster_args::ClusterArgs;
use state_report::StateReport;

/// Issues and keeps up the certificates of an admission webhook.
#[derive(Debug, Parser)]
#[command(name = "webhook-certs", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    /// What to log on stderr, in the syntax of tracing's filters.
    #[arg(long, global = true, env = "RUST_LOG", default_value = "info")]
    log: String,
}

impl Cli {
    pub(crate) fn log_filter(&self) -> EnvFilter {
        EnvFilter::new(&self.log)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Keeps the CA's Secret and the caBundle of the webhook configurations right until it is
    /// terminated. Replicas of the webhook do the same by themselves.
    Serve(ClusterArgs),
    /// Tells where the CA's rotation stands, when it expires, and which webhook entries trust it.
    /// Exits 1 when there is no usable CA or an entry does not trust it.
    Status(StatusArgs),
    /// Asks the replicas to replace the CA; admission goes on meanwhile.
    Rotate(RotateArgs),
    /// Writes a new CA and a leaf of it as PEM files, for trying out.
    Issue(IssueArgs),
}

#[derive(Debug, Args)]
struct StatusArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How to write it.
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum OutputFormat {
    /// Lines for people.
    #[default]
    Table,
    /// One JSON object for programs.
    Json,
}

#[derive(Debug, Args)]
struct RotateArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Withdraw trust from the present CA as soon as every replica has a leaf of the next one, not
    /// only when the last leaf of it has expired: for a key that others may have. A replica that is
    /// cut off from the API server is not trusted from then on.
    #[arg(long)]
    revoke: bool,
}

#[derive(Debug, Args)]
struct IssueArgs {
    /// A DNS name or address of the leaf; may be repeated.
    #[arg(long = "dns", value_name = "NAME", required = true)]
    names: Vec<String>,
    /// The directory for ca.crt, ca.key, tls.crt and tls.key; it is created where it is missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// How long both certificates are valid.
    #[arg(long, value_name = "DURATION", default_value = "168h", value_parser = duration)]
    lifetime: SignedDuration,
}

pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Issue(args) => issue(&args),
        Command::Serve(args) => runtime()?.block_on(serve(args)),
        Command::Status(args) => runtime()?.block_on(status(args)),
        Command::Rotate(args) => runtime()?.block_on(rotate(args)),
    }
}

async fn serve(args: ClusterArgs) -> Result<ExitCode> {
    let client = args.client().await?;
    let mut terminated = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let (status, _) = watch::channel(Status::default());
    tokio::select! {
        failed = cluster::maintain(client, args.options(), ServingCertificate::new(), status) => {
            let Err(error) = failed;
            Err(error).context("cannot keep up certificates")
        }
        _ = terminated.recv() => Ok(ExitCode::SUCCESS),
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::SUCCESS),
    }
}

async fn status(args: StatusArgs) -> Result<ExitCode> {
    let options = args.cluster.options();
    let seen = cluster::observe(args.cluster.client().await?, &options).await?;
    let report = StateReport::of(&seen, &options, seen.now(Timestamp::now()))?;
    print(&match args.output {
        OutputFormat::Table => report.to_table(),
        OutputFormat::Json => vec![report.to_json()?],
    })?;
    Ok(if report.is_healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn rotate(args: RotateArgs) -> Result<ExitCode> {
    let options = args.cluster.options();
    let old = cluster::rotate(args.cluster.client().await?, &options, args.revoke).await?;
    let what = if args.revoke { "revoked" } else { "replaced" };
    print(&[format!(
        "{} is to be {what}; hint: `webhook-certs status` tells how far that is",
        old.name()
    )])?;
    Ok(ExitCode::SUCCESS)
}

fn issue(args: &IssueArgs) -> Result<ExitCode> {
    let names = ServerNames::parse(&args.names).context("--dns")?;
    let lifetime = Lifetime::starting(Timestamp::now(), args.lifetime);
    let authority = Authority::create("webhook-certs", 1, lifetime, Entropy::draw()?)?;
    let leaf = authority.issue(&names, lifetime, Entropy::draw()?)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&args.out)
        .with_context(|| format!("--out: cannot create `{}`", args.out.display()))?;
    let mut lines = Vec::new();
    for (file, mode, text) in [
        ("ca.crt", PUBLIC, authority.certificate_pem().as_str()),
        ("ca.key", PRIVATE, authority.key_pem().as_str()),
        ("tls.crt", PUBLIC, leaf.certificate_pem().as_str()),
        ("tls.key", PRIVATE, leaf.key_pem().as_str()),
    ] {
        let path = args.out.join(file);
        write(&path, mode, text)
            .with_context(|| format!("--out: cannot write `{}`", path.display()))?;
        lines.push(path.display().to_string());
    }
    print(&lines)?;
    Ok(ExitCode::SUCCESS)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

fn print(lines: &[String]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    for line in lines {
        writeln!(stdout, "{line}").context("cannot write to stdout")?;
    }
    Ok(())
}

fn write(path: &Path, mode: u32, text: &str) -> std::io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}

const PUBLIC: u32 = 0o644;
const PRIVATE: u32 = 0o600;
