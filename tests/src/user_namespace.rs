//! Root's rights over network namespaces for users who are not root.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::geteuid;

use crate::skipped_tests;

/// Starts the calling program again in a user namespace of its own, unless it is root.
///
/// There, it is root of network and mount namespaces of its own. Users other than root are
/// subordinate ids of the caller, since rules match on users such as 1337. If the kernel or missing
/// subordinate ids forbid that, the program ends with success and `tests` are left out.
pub fn enter(tests: &str) -> Result<()> {
    if geteuid().is_root() {
        return Ok(());
    }
    let mut probe = unshare();
    let output = probe.arg("true").stdin(Stdio::null()).output().context("starting unshare")?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let reason = format!("not root, and no user namespace: {}; {HINT}", complaint.trim());
        skipped_tests::record(tests, &reason)?;
        #[expect(
            clippy::disallowed_methods,
            clippy::exit,
            reason = "libtest cannot leave out a test that has started"
        )]
        std::process::exit(0);
    }
    let program = env::current_exe().context("finding this program")?;
    let mut again = unshare();
    // Files of the machine's root cannot be written there: `ip netns` and iptables have theirs in
    // /run.
    again.args(["sh", "-c", r#"mount -t tmpfs tmpfs /run && exec "$0" "$@""#]).arg(program);
    bail!("unshare: {}", again.args(env::args_os().skip(1)).exec())
}

/// `unshare` up to the command that it runs.
fn unshare() -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--map-root-user", "--map-auto", "--net", "--mount", "--"]);
    unshare.env("PATH", SEARCH_PATH);
    unshare
}

/// Programs for root are not in every user's path.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const HINT: &str = "hint: install uidmap, and have the user in /etc/subuid and /etc/subgid";
