//! Errors of iptables programs, with the rule and flag they are about.

use std::io;
use std::process::ExitStatus;

use thiserror::Error;

use super::listing::Change;
use crate::netlink::errno_hint::{Cause, missing_privilege};
use crate::netlink::error::KernelError;
use crate::netlink::privileges::{Capability, CapabilityState, Privileges};
use crate::plan::Table;
use crate::render::iptables::table_name;
use crate::types::family::Family;
use crate::types::iptables_variant::Variant;

/// Error of an iptables program, or of running it.
#[derive(Debug, Error)]
pub enum IptablesError {
    /// The tables of the network namespace cannot be listed.
    #[error("cannot list the tables of iptables: {0}")]
    Tables(Cause),
    /// PATH lacks the variant that the user requested.
    #[error(
        "--force-iptables-binary: `{0}` cannot be used: PATH has no iptables-{0}; \
         hint: leave the flag out, or add iptables-{0} to the image"
    )]
    NoVariant(Variant),
    /// The user requested iptables, and PATH has none that works.
    #[error(
        "--backend: `iptables` cannot be used: PATH has no iptables that this process could run; \
         hint: use --backend nftables, which needs no program"
    )]
    NoBinaries,
    /// One family's programs are missing.
    #[error(
        "cannot capture IPv6: PATH has no {0}; \
         hint: add it to the image, or use --backend nftables"
    )]
    NoFamily(&'static str),
    /// A program cannot be started.
    #[error("cannot run {program}: {source}; hint: {}", start_hint(source))]
    Start {
        /// The program.
        program: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A program cannot be started after the rules of one family are installed.
    #[error("the rules of {family} are installed, and the others are not: {rest}")]
    HalfDone {
        /// The family of the rules.
        family: Family,
        /// The failure.
        rest: Box<IptablesError>,
    },
    /// A program starts, but its libraries or interpreter are missing.
    #[error("{program} does not work: {reason}; hint: --backend nftables needs no program")]
    Broken {
        /// The program.
        program: &'static str,
        /// Error message of the program or its loader.
        reason: String,
    },
    /// A program does not end in time.
    #[error(
        "{program} did not end in time; \
         hint: another program may hold the lock of iptables, or the lock's file is on a file \
         system that hangs; --backend nftables needs no lock"
    )]
    Stuck {
        /// The program.
        program: &'static str,
    },
    /// A table cannot be listed.
    #[error("`{program} -t {table} -S` fails: {reason}{hint}")]
    List {
        /// The program.
        program: &'static str,
        /// The table.
        table: &'static str,
        /// The program's error.
        reason: String,
        /// Remedy.
        hint: String,
    },
    /// Each listing differs from the one before.
    #[error("other processes keep changing the rules of iptables")]
    Unsettled,
    /// Legacy tables exist, and no program can list them.
    #[error("{0}")]
    Unreadable(String),
    /// The program rejects a rule, and the kernel discards the change of its table.
    #[error("{program} rejects{step}{origin}: {reason}{hint}")]
    Refused {
        /// The program.
        program: &'static str,
        /// The rejected line, if the program names it.
        step: String,
        /// The setting that the rejected rule comes from, if any.
        origin: String,
        /// The program's error.
        reason: String,
        /// Remedy.
        hint: String,
    },
    /// The kernel's netlink interface returns an error.
    #[error(transparent)]
    Kernel(#[from] Box<KernelError>),
}

/// Builds the error from the output of a failed `iptables-restore`.
pub(super) fn refusal(
    program: &'static str,
    change: &Change,
    status: ExitStatus,
    stderr: &str,
    privileges: Privileges,
) -> IptablesError {
    let number = line_number(stderr);
    let index = number.and_then(|number| number.checked_sub(1));
    let line = index.and_then(|index| change.text.lines().nth(index));
    let rule = index.and_then(|index| change.rules.get(index)).and_then(Option::as_ref);
    let table = || {
        let lines = change.text.lines().take(number.unwrap_or_default());
        lines.filter_map(|line| line.strip_prefix("* ")).last().unwrap_or_default()
    };
    let step = match line {
        None => String::new(),
        Some("COMMIT") => format!(" the rules of the table {}", table()),
        Some(line) => format!(" `{line}`"),
    };
    let origin = rule.map(|rule| format!(" (from {})", rule.origin)).unwrap_or_default();
    let reason = match reason(stderr) {
        Some(reason) => reason,
        None => status.to_string(),
    };
    IptablesError::Refused { program, step, origin, reason, hint: hint(stderr, privileges) }
}

/// Builds the error from the output of a failed `iptables -S`.
pub(super) fn not_listed(
    program: &'static str,
    table: Table,
    status: ExitStatus,
    stderr: &str,
) -> IptablesError {
    IptablesError::List {
        program,
        table: table_name(table),
        reason: reason(stderr).unwrap_or_else(|| status.to_string()),
        hint: hint(stderr, Privileges::current()),
    }
}

/// Returns the number in `line 12 failed`, `Error occurred at line: 12`, or `line 12: RULE_APPEND
/// failed`.
fn line_number(stderr: &str) -> Option<usize> {
    stderr.split("line").skip(1).find_map(|rest| {
        let digits = rest.trim_start_matches([':', ' ']);
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    })
}

/// Returns the error without the program's name and usage hints.
fn reason(stderr: &str) -> Option<String> {
    let is_telling = |line: &&str| {
        !(line.is_empty()
            || line.starts_with("Try `")
            || line.starts_with("Error occurred at line")
            || line.starts_with('#')
            || line.ends_with("(nf_tables):")
            || line.ends_with("(legacy):"))
    };
    let lines = stderr.lines().map(str::trim).filter(is_telling).map(without_name);
    let lines: Vec<&str> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

fn without_name(line: &str) -> &str {
    match line.split_once(": ") {
        Some((name, rest)) if name.starts_with("ip") && name.contains("tables") => {
            without_name(rest)
        }
        _ => line,
    }
}

/// Returns the remedy as a hint; empty for an unknown error.
fn hint(stderr: &str, privileges: Privileges) -> String {
    remedy(stderr, privileges)
        .map(|hint| format!("{}{hint}", reason::hint::SEPARATOR))
        .unwrap_or_default()
}

fn remedy(stderr: &str, privileges: Privileges) -> Option<String> {
    let has = |text: &str| stderr.contains(text);
    if let Some(name) = between(stderr, "Extension ", " revision") {
        return Some(missing_extension(name));
    }
    if let Some(name) = between(stderr, "Couldn't load match `", "'") {
        return Some(format!("this image's iptables has no file libxt_{name}.so"));
    }
    if let Some(name) = between(stderr, "Couldn't load target `", "'") {
        return Some(format!("this image's iptables has no file libxt_{name}.so"));
    }
    let hint = if has("lock file") {
        "iptables-legacy needs a lock file that it can write, /run/xtables.lock unless \
         XTABLES_LOCKFILE names another; or use --backend nftables, which needs no lock"
    } else if has("Permission denied") || has("Operation not permitted") || has("be root") {
        if privileges.holds(Capability::NetAdmin) != CapabilityState::Effective
            || privileges.is_filtered
        {
            return Some(missing_privilege(privileges).to_owned());
        }
        "iptables needs the capability NET_ADMIN; iptables-legacy also needs user 0 and NET_RAW"
    } else if has("xtables lock") {
        "another program holds the lock of iptables-legacy; end it, or use --backend nftables, \
         which needs no lock"
    } else if has("Table does not exist") || has("unable to initialize table") {
        "the kernel lacks the table's module (iptable_nat or ip6table_nat for nat); load it on the \
         node, or use --backend nftables"
    } else if has("CHAIN_ADD failed") || has("TABLE_ADD failed") {
        "the kernel's nf_tables lacks NAT (module nft_chain_nat); load it on the node"
    } else if has("RULE_APPEND failed (No such file or directory)") || has("No chain/target/match")
    {
        "the kernel lacks a module that the rule needs, xt_owner for owners or xt_REDIRECT for \
         redirection; load it on the node"
    } else {
        return None;
    };
    Some(hint.to_owned())
}

fn start_hint(source: &io::Error) -> &'static str {
    if source.kind() == io::ErrorKind::WouldBlock {
        "no more processes can be started (RLIMIT_NPROC, or the PID limit of the pod or its node); \
         --backend nftables starts none"
    } else {
        "--backend nftables needs no program"
    }
}

fn missing_extension(name: &str) -> String {
    match name {
        "owner" => {
            "the kernel has no match by owner (module xt_owner); load it on the node".to_owned()
        }
        "REDIRECT" => {
            "the kernel has no redirection (module xt_REDIRECT); load it on the node".to_owned()
        }
        other => format!("the kernel has no `{other}` (module xt_{other}); load it on the node"),
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::args::flags::Flag;
    use crate::plan::Origin;
    use crate::render::iptables::Line;

    fn refused(stderr: &str) -> String {
        refused_of("CapEff:\t3000\nCapBnd:\t3000\n", stderr)
    }

    fn refused_of(status: &str, stderr: &str) -> String {
        let privileges = Privileges::parse(status);
        let rule = |rule: &str, flag| {
            let (chain, rule) = ("ISTIO_OUTPUT".to_owned(), rule.to_owned());
            Some(Line { chain, rule, origin: Origin::Flag(flag) })
        };
        let change = Change {
            text: "* nat\n:ISTIO_OUTPUT - [0:0]\n-A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN\nCOMMIT\n".to_owned(),
            rules: vec![None, None, rule("-m owner --uid-owner 1337 -j RETURN", Flag::ProxyUid), None],
        };
        refusal("iptables-restore", &change, ExitStatus::from_raw(256), stderr, privileges)
            .to_string()
    }

    #[test]
    fn missing_privileges_are_named_with_a_remedy() {
        let stderr =
            "Could not fetch rule set generation id: Permission denied (you must be root)\n";
        let of = |status| refused_of(status, stderr);
        insta::assert_snapshot!(
            [
                of("CapEff:\t0\nCapBnd:\t0\n"),
                of("CapEff:\t0\nCapBnd:\t3000\n"),
                of("CapEff:\t3000\nCapBnd:\t3000\nSeccomp:\t2\n"),
            ]
            .join("\n\n")
        );
    }

    #[test]
    fn iptables_errors_name_rule_flag_and_remedy() {
        insta::assert_snapshot!(
            [
                "Warning: Extension owner revision 0 not supported, missing kernel module?\n\
                 iptables-restore v1.8.9 (nf_tables):\n\
                 line 3: RULE_APPEND failed (No such file or directory): rule in chain ISTIO_OUTPUT\n",
                "iptables-restore v1.8.9 (nf_tables): Couldn't load match `owner':No such file or directory\n\n\
                 Error occurred at line: 3\nTry `iptables-restore -h' or 'iptables-restore --help' for more information.\n",
                "iptables-restore v1.8.9 (legacy): iptables-restore: unable to initialize table 'nat'\n\n\
                 Error occurred at line: 1\n",
                "iptables-restore v1.8.9 (nf_tables):\nline 1: TABLE_ADD failed (Operation not supported): table nat\n",
                "Fatal: can't open lock file /run/xtables.lock: Permission denied\n",
                "Another app is currently holding the xtables lock. Perhaps you want to use the -w option?\n",
                "iptables-restore: line 4 failed\n",
                "",
            ]
            .map(refused)
            .join("\n\n"),
            @r"
        iptables-restore rejects `-A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN` (from --proxy-uid): Warning: Extension owner revision 0 not supported, missing kernel module?; line 3: RULE_APPEND failed (No such file or directory): rule in chain ISTIO_OUTPUT; hint: the kernel has no match by owner (module xt_owner); load it on the node

        iptables-restore rejects `-A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN` (from --proxy-uid): Couldn't load match `owner':No such file or directory; hint: this image's iptables has no file libxt_owner.so

        iptables-restore rejects `* nat`: unable to initialize table 'nat'; hint: the kernel lacks the table's module (iptable_nat or ip6table_nat for nat); load it on the node, or use --backend nftables

        iptables-restore rejects `* nat`: line 1: TABLE_ADD failed (Operation not supported): table nat; hint: the kernel's nf_tables lacks NAT (module nft_chain_nat); load it on the node

        iptables-restore rejects: Fatal: can't open lock file /run/xtables.lock: Permission denied; hint: iptables-legacy needs a lock file that it can write, /run/xtables.lock unless XTABLES_LOCKFILE names another; or use --backend nftables, which needs no lock

        iptables-restore rejects: Another app is currently holding the xtables lock. Perhaps you want to use the -w option?; hint: another program holds the lock of iptables-legacy; end it, or use --backend nftables, which needs no lock

        iptables-restore rejects the rules of the table nat: line 4 failed

        iptables-restore rejects: exit status: 1
        "
        );
    }
}
