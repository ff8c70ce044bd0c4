//! The commands of `webhook-certs`.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::cause::with_causes;
use webhook_certs::cluster::{self, Options, Parameters};
use webhook_certs::secret::State;
use webhook_certs::server_names::ServerNames;
use webhook_certs::serving::ServingCertificate;
use webhook_certs::status::Status;

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
    Status(ClusterArgs),
    /// Writes a new CA and a leaf of it as PEM files, for trying out.
    Issue(IssueArgs),
}

/// Which cluster, and which objects in it.
#[derive(Debug, Args)]
struct ClusterArgs {
    /// The kubeconfig file; without it, the one of the environment, else the pod's own account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The namespace of the Secret and the Service.
    #[arg(long, env = "POD_NAMESPACE", default_value = "istio-system")]
    namespace: String,
    /// The name of the installation: of the CA and of the field manager.
    #[arg(long, default_value = "sidecar-injector")]
    install: String,
    /// The Service through which API servers reach the webhook.
    #[arg(long, default_value = "sidecar-injector")]
    service: String,
    /// The cluster's DNS domain.
    #[arg(long, default_value = "cluster.local")]
    cluster_domain: String,
    /// A further DNS name or address of the leaf; may be repeated.
    #[arg(long = "extra-san", value_name = "NAME")]
    extra_names: Vec<String>,
    /// The revision of the control plane.
    #[arg(long, env = "REVISION", default_value = "default")]
    revision: String,
    /// The Secret that holds the CA [default: <INSTALL>-ca].
    #[arg(long, value_name = "NAME")]
    secret_name: Option<String>,
    /// A mutating webhook configuration to keep up; may be repeated [default:
    /// istio-sidecar-injector, with the revision as suffix unless it is `default`].
    #[arg(long = "webhook-configuration", value_name = "NAME")]
    webhook_configurations: Vec<String>,
    /// How long a new CA is valid, for example 8760h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    authority_lifetime: Option<SignedDuration>,
    /// How long a new leaf is valid, for example 168h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leaf_lifetime: Option<SignedDuration>,
    /// How long a CA that no longer signs stays trusted; at least as long as a leaf is valid.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    retire_delay: Option<SignedDuration>,
    /// How often everything is looked at without an event, for example 30s.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    tick: Option<SignedDuration>,
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

async fn status(args: ClusterArgs) -> Result<ExitCode> {
    let options = args.options();
    let now = Timestamp::now();
    let observation = cluster::observe(args.client().await?, &options).await?;
    let name = format!("{}/{}", options.namespace, options.secret_name);
    let Some(secret) = observation.secret else {
        anyhow::bail!("there is no Secret {name}");
    };
    let state = State::parse(&secret).with_context(|| format!("Secret {name}"))?;
    let authority = state.active.ca();
    let mut lines = vec![
        format!(
            "Secret {name}: generation {}, {} since {}",
            state.generation, state.phase, state.phase_since
        ),
        format!("CA {}: valid until {}", authority.name(), authority.not_after()),
    ];
    let mut healthy = authority.is_valid_at(now);
    for configuration in &observation.configurations {
        for entry in &configuration.entries {
            let trusts = entry.bundle.trusts(authority, now);
            healthy &= trusts;
            let verb = if trusts { "trusts" } else { "does not trust" };
            lines.push(format!("{} {}: {verb} it", configuration.name, entry.name));
        }
    }
    print(&lines)?;
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

impl ClusterArgs {
    fn options(&self) -> Options {
        let defaults = Parameters::default();
        let configurations = &self.webhook_configurations;
        let leaf_lifetime = self.leaf_lifetime.unwrap_or(defaults.leaf_lifetime);
        Options {
            namespace: self.namespace.clone(),
            install: self.install.clone(),
            service: self.service.clone(),
            cluster_domain: self.cluster_domain.clone(),
            extra_names: self.extra_names.clone(),
            revision: self.revision.clone(),
            secret_name: self.secret_name.clone().unwrap_or_else(|| format!("{}-ca", self.install)),
            webhook_configurations: if configurations.is_empty() {
                vec![Options::default_configuration(&self.revision)]
            } else {
                configurations.clone()
            },
            parameters: Parameters {
                authority_lifetime: self.authority_lifetime.unwrap_or(defaults.authority_lifetime),
                leaf_lifetime,
                retire_delay: self.retire_delay.unwrap_or(defaults.retire_delay).max(leaf_lifetime),
                tick: self.tick.map_or(defaults.tick, SignedDuration::unsigned_abs),
                ..defaults
            },
        }
    }

    async fn client(&self) -> Result<Client> {
        let options =
            KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match &self.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file)
                    .with_context(|| format!("--kubeconfig `{}`", file.display()))?;
                kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .with_context(|| format!("--kubeconfig `{}`", file.display()))?
            }
            None if self.context.is_some() => {
                kube::Config::from_kubeconfig(&options).await.context("--context")?
            }
            None => kube::Config::infer().await.map_err(|error| {
                let error = with_causes(&error);
                anyhow::anyhow!(
                    "no cluster is known: {error}\n\
                     hint: name one with --kubeconfig, or run in a pod"
                )
            })?,
        };
        // The upkeep has its own, shorter patience.
        config.default_retry = false;
        Client::try_from(config).context("cannot make a client of the cluster's configuration")
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    let duration: SignedDuration = text.parse().map_err(|error| format!("{error}"))?;
    if duration.is_positive() {
        Ok(duration)
    } else {
        Err("it has to be more than nothing".to_owned())
    }
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
