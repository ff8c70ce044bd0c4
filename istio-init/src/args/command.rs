//! Command line: the subcommand, its flags, and the flags of a run.

use std::ffi::OsString;
use std::net::SocketAddr;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command as Grammar};

use super::{Args, Environment};
use crate::args;
use crate::types::direction::Direction;
use crate::types::input_error::Escaped;
use crate::types::owner::{Gid, Uid};
use crate::types::protocol::Protocol;

/// Parsed command line: a subcommand, and the flags that define the rules it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The subcommand.
    pub command: Subcommand,
    /// Flags and variables of the run.
    pub args: Args,
    /// True if the command reads the installed rules instead of those that the flags define.
    pub from_kernel: bool,
    /// Output format.
    pub output: Output,
}

/// Subcommand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subcommand {
    /// No subcommand: install the rules, unless a flag prevents it.
    Install,
    /// Print the rules.
    Plan,
    /// Explain the path of a packet through the rules.
    Explain(PacketQuery),
    /// Compare the installed rules with the plan.
    Verify,
    /// Try the installed rules with real sockets.
    Probe,
    /// Remove the rules of an earlier run.
    Cleanup,
}

/// Packet to explain. Unset fields are filled from the machine or with defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketQuery {
    /// Direction, from the pod's point of view.
    pub direction: Direction,
    /// The transport protocol.
    pub protocol: Protocol,
    /// Source address and port.
    pub from: Option<SocketAddr>,
    /// Destination address and port.
    pub to: SocketAddr,
    /// Outgoing or incoming interface.
    pub interface: Option<String>,
    /// User of the sending socket.
    pub uid: Uid,
    /// Group of the sending socket.
    pub gid: Gid,
    /// Mark set by the socket.
    pub mark: u32,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Text for people.
    Table,
    /// A script for `nft -f`.
    Nft,
    /// Text for `iptables-restore` and `ip6tables-restore`.
    Iptables,
    /// JSON.
    Json,
    /// A picture as SVG.
    Svg,
    /// A picture as Mermaid text.
    Mermaid,
}

impl Request {
    /// Parses a command line, which starts with the program's name, and an environment.
    ///
    /// As in Istio, the program may be named `istio-iptables` once more before its flags.
    ///
    /// Errors show arguments cut and escaped.
    pub fn parse(
        command_line: impl IntoIterator<Item = OsString>,
        environment: &Environment,
    ) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = command_line.into_iter().collect();
        Self::from_words(words.clone(), environment).map_err(|error| {
            let shown = |word: &OsString| Escaped(&word.to_string_lossy()).to_string().into();
            let shown: Vec<OsString> = words.iter().map(shown).collect();
            if shown == words {
                return error;
            }
            // clap puts arguments into its message, usage and suggestions.
            Self::from_words(shown, environment)
                .err()
                .unwrap_or_else(|| args::command().error(error.kind(), "invalid command line"))
        })
    }

    fn from_words(words: Vec<OsString>, environment: &Environment) -> Result<Self, clap::Error> {
        let mut words = program_version::as_flag(words);
        if words.get(1).is_some_and(|word| word == args::SUBCOMMAND) {
            words.remove(1);
        }
        // `help`, with or without a subcommand, means `--help`.
        if words.get(1).is_some_and(|word| word == "help") {
            words.remove(1);
            words.truncate(2);
            words.push("--help".into());
        }
        let named = |words: &[OsString]| {
            let first = words.get(1)?.to_str()?;
            NAMES.iter().find(|name| **name == first).copied()
        };
        let Some(name) = named(&words) else {
            if let Some(word) = words.get(1).filter(|word| is_no_flag(word)) {
                return Err(no_such_command(word));
            }
            let args = Args::parse(words, environment)?;
            let (command, output) = (Subcommand::Install, Output::Table);
            return Ok(Self { command, args, from_kernel: false, output });
        };
        words.remove(1);
        let matches = grammar(name).try_get_matches_from(with_output_flag(words))?;
        let command = match name {
            "plan" => Subcommand::Plan,
            "explain" => Subcommand::Explain(question(&matches)),
            "verify" => Subcommand::Verify,
            "probe" => Subcommand::Probe,
            _ => Subcommand::Cleanup,
        };
        let is_on = |id| matches.try_get_one::<bool>(id).ok().flatten() == Some(&true);
        Ok(Self {
            command,
            args: Args::from_matches(&matches, environment),
            from_kernel: is_on(FROM_KERNEL),
            output: one(&matches, OUTPUT).unwrap_or(Output::Table),
        })
    }
}

fn is_no_flag(word: &OsString) -> bool {
    let text = word.to_string_lossy();
    // Older binaries had a subcommand of this name.
    !text.starts_with('-') && text != "clean"
}

/// Returns the error for an unknown subcommand, with a suggestion.
fn no_such_command(word: &OsString) -> clap::Error {
    let commands = args::command().subcommand_required(true).subcommands(NAMES.map(Grammar::new));
    let line = [OsString::from("istio-init"), word.clone()];
    commands.try_get_matches_from(line).err().unwrap_or_else(|| {
        args::command().error(ErrorKind::InvalidSubcommand, "unknown subcommand")
    })
}

/// Returns the purpose of a subcommand.
pub fn about(name: &str) -> &'static str {
    match name {
        "plan" => "Prints the rules, each with the setting it comes from",
        "explain" => "Explains the path of a packet, and which rule decides",
        "verify" => {
            "Compares the installed rules with the plan; exits 3 if they differ, unless \
             --reconcile repairs them"
        }
        "probe" => {
            "Tries the installed rules with real sockets; exits 126 if a flow does not match the \
             plan"
        }
        _ => "Removes the rules of an earlier run",
    }
}

/// Returns the grammar of a subcommand: its own flags, and those of a run.
pub fn grammar(name: &'static str) -> Grammar {
    let (title, outputs): (_, &[&str]) = match name {
        "plan" => ("istio-init plan", &FORMS),
        "explain" => ("istio-init explain", &["table", "json"]),
        "verify" => ("istio-init verify", &["table", "json"]),
        "probe" => ("istio-init probe", &["table", "json"]),
        _ => ("istio-init cleanup", &[]),
    };
    let of_a_run = |flag: Arg| flag.help_heading("Flags of a run");
    let run = args::command().before_help(None);
    let mut grammar = run.mut_args(of_a_run).name(title).bin_name(title).about(about(name));
    if !outputs.is_empty() {
        let parser = clap::builder::PossibleValuesParser::new(outputs.to_vec());
        let parser = clap::builder::TypedValueParser::map(parser, |text| form(&text));
        let help = "Output format; `-o` works as well [default: table]";
        grammar = grammar.arg(value(OUTPUT, "FORM", help).value_parser(parser));
    }
    // A comparison needs both the plan and the installed rules.
    if !matches!(name, "verify" | "cleanup") {
        let help = "Use the installed rules instead of those that the flags define";
        let flag = Arg::new(FROM_KERNEL).long(FROM_KERNEL).action(ArgAction::SetTrue).help(help);
        grammar = grammar.arg(flag);
    }
    if name == "explain" {
        grammar = grammar.args(question_flags());
    }
    let flags = if name == "cleanup" {
        "Of the flags of a run, only --dry-run and --log_as_json have an effect."
    } else {
        "The flags of a run define the rules."
    };
    grammar.after_help(format!(
        "{flags}\n\
         Exit codes: 0 done, 1 rejected or failed, 2 invalid usage{}.",
        match name {
            "verify" => ", 3 difference found",
            "probe" => ", 126 a flow does not match the plan",
            _ => "",
        }
    ))
}

/// Returns a flag with the name of its value.
fn value(name: &'static str, shown: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(shown).help(help)
}

fn question_flags() -> Vec<Arg> {
    vec![
        value("direction", "in|out", "Direction of the packet, from the pod's point of view")
            .default_value("out")
            .value_parser(|text: &str| match text {
                "in" => Ok(Direction::In),
                "out" => Ok(Direction::Out),
                _ => Err("expected in or out"),
            }),
        value("protocol", "tcp|udp", "The packet's protocol").default_value("tcp").value_parser(
            |text: &str| match text {
                "tcp" => Ok(Protocol::Tcp),
                "udp" => Ok(Protocol::Udp),
                _ => Err("expected tcp or udp"),
            },
        ),
        value("to", "ADDRESS:PORT", "Destination")
            .required(true)
            .value_parser(|text: &str| text.parse::<SocketAddr>().map_err(|_| ENDPOINT)),
        value("from", "ADDRESS[:PORT]", "Source [default: any]")
            .value_parser(|text: &str| address(text)),
        value(
            "interface",
            "NAME",
            "Interface [default: lo within the pod, else that of the route; eth0 for received \
             packets]",
        ),
        value("uid", "NUMBER", "User of the sending socket")
            .default_value("0")
            .value_parser(|text: &str| text.parse::<Uid>().map_err(|error| error.reason)),
        value("gid", "NUMBER", "Group of the sending socket")
            .default_value("0")
            .value_parser(|text: &str| text.parse::<Gid>().map_err(|error| error.reason)),
        value("mark", "NUMBER", "Mark set by the sending socket")
            .default_value("0")
            .value_parser(|text: &str| text.parse::<u32>().map_err(|_| "expected a number")),
    ]
}

fn question(matches: &ArgMatches) -> PacketQuery {
    // The grammar gives each of these a default, or requires it.
    PacketQuery {
        direction: one(matches, "direction").unwrap_or(Direction::Out),
        protocol: one(matches, "protocol").unwrap_or(Protocol::Tcp),
        from: one(matches, "from"),
        to: one(matches, "to").unwrap_or_else(|| SocketAddr::from(([0; 4], 0))),
        interface: one(matches, "interface"),
        uid: one(matches, "uid").unwrap_or(Uid::ROOT),
        gid: one(matches, "gid").unwrap_or(Gid::ROOT),
        mark: one(matches, "mark").unwrap_or(0),
    }
}

fn one<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Option<T> {
    matches.try_get_one::<T>(id).ok().flatten().cloned()
}

/// Parses an address with an optional port; the default is port 0.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let alone = || text.parse().map(|address| SocketAddr::new(address, 0));
    text.parse().or_else(|_| alone()).map_err(|_| ENDPOINT)
}

const ENDPOINT: &str = "expected 10.0.0.1:80 or [fd00::1]:80";

/// Replaces `-o FORMAT` by `--output`. In Istio, `-o` excludes outbound ports; no format is a port,
/// so both are accepted. A word that begins with a letter is meant as a format.
fn with_output_flag(words: Vec<OsString>) -> Vec<OsString> {
    let mut understood: Vec<OsString> = Vec::new();
    for word in words {
        let text = word.to_str().unwrap_or_default();
        let after_flag = understood.last().is_some_and(|last| last == "-o");
        let value = text.strip_prefix("-o").filter(|value| !value.is_empty());
        let value = value.map(|value| value.strip_prefix('=').unwrap_or(value));
        let is_form = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic());
        if after_flag && is_form(text) {
            understood.pop();
            understood.push(format!("--{OUTPUT}={text}").into());
        } else if let Some(form) = value.filter(|value| is_form(value)) {
            understood.push(format!("--{OUTPUT}={form}").into());
        } else {
            understood.push(word);
        }
    }
    understood
}

fn form(text: &str) -> Output {
    match text {
        "nft" => Output::Nft,
        "iptables" => Output::Iptables,
        "json" => Output::Json,
        "svg" => Output::Svg,
        "mermaid" => Output::Mermaid,
        _ => Output::Table,
    }
}

/// The subcommands.
pub const NAMES: [&str; 5] = ["plan", "explain", "verify", "probe", "cleanup"];
const FORMS: [&str; 6] = ["table", "nft", "iptables", "json", "svg", "mermaid"];
const OUTPUT: &str = "output";
const FROM_KERNEL: &str = "from-kernel";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, clap::Error> {
        Request::parse(line.split(' ').map(OsString::from), &Environment::new())
    }

    #[test]
    fn from_kernel_is_a_flag_of_plan_explain_and_probe() {
        for name in ["verify", "cleanup"] {
            let error = parse(&format!("istio-init {name} --from-kernel")).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::UnknownArgument);
            let help = parse(&format!("istio-init {name} --help")).expect_err(name).to_string();
            assert!(!help.contains("--from-kernel"), "{help}");
        }
        assert!(parse("istio-init plan --from-kernel").is_ok_and(|request| request.from_kernel));
    }

    #[test]
    fn misspelt_format_gets_a_suggestion() {
        for line in ["istio-init plan -o svgg", "istio-init plan -o=svgg", "istio-init plan -osvgg"]
        {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains("'--output <FORM>'") && error.contains("'svg'"), "{error}");
        }
    }

    #[test]
    fn misspelt_subcommand_gets_a_suggestion() {
        for line in ["istio-init verfy", "istio-init istio-iptables verfy -i *"] {
            let error = parse(line).expect_err(line);
            assert_eq!((error.kind(), error.exit_code()), (ErrorKind::InvalidSubcommand, 2));
            assert!(error.to_string().contains("'verify'"), "{error}");
        }
        let error = parse("istio-init clean").expect_err("clean");
        assert!(error.to_string().contains("--cleanup-only"), "{error}");
    }

    #[test]
    fn subcommand_help_lists_its_own_flags_first() {
        for (name, own) in [("explain", "--to <ADDRESS:PORT>"), ("verify", "--output <FORM>")] {
            let help = parse(&format!("istio-init {name} --help")).expect_err(name).to_string();
            let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
            assert!(place(own) < place("Flags of a run"), "{help}");
            assert!(place("Flags of a run") < place("--istio-service-cidr"), "{help}");
        }
    }

    #[test]
    fn help_is_printed_for_every_spelling() {
        for line in [
            "istio-init help",
            "istio-init -h",
            "istio-init --help",
            "istio-init istio-iptables help",
            "istio-init istio-iptables --help",
        ] {
            let help = parse(line).expect_err(line);
            assert_eq!((help.kind(), help.exit_code()), (ErrorKind::DisplayHelp, 0), "{line}");
            assert!(help.to_string().contains("--istio-service-cidr"), "{line}");
        }
        for name in NAMES {
            for line in [format!("istio-init help {name}"), format!("istio-init {name} --help")] {
                let help = parse(&line).expect_err(&line);
                assert_eq!((help.kind(), help.exit_code()), (ErrorKind::DisplayHelp, 0), "{line}");
                assert!(help.to_string().contains(&format!("istio-init {name}")), "{line}");
            }
        }
        let version = parse("istio-init --version").expect_err("a version");
        assert_eq!((version.kind(), version.exit_code()), (ErrorKind::DisplayVersion, 0));
    }
}
