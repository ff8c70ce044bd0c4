//! Sandboxes that block netlink: seccomp profiles, and user-space kernels without netfilter's
//! netlink.

use std::collections::BTreeMap;
use std::process::Output;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use crate::iptables_rules::rules;
use crate::pod::{Pod, istio_init};
use crate::settings::{SEARCH_PATH, Settings};

#[test]
fn seccomp_profile_without_netlink_is_named() {
    let pod = Pod::create();
    let before = pod.dump();
    let settings = Settings::injected();
    let output = refused(&pod, libc::EPERM, &settings);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr), @r"
    error: cannot open a netlink socket for nf_tables: Operation not permitted (os error 1)
      hint: opening it needs no capability: a seccomp profile or a security module forbids it; allow socket(AF_NETLINK) in the container's profile
    ");
    assert_eq!(pod.dump(), before);
}

#[test]
fn kernel_without_netfilter_netlink_is_named() {
    let pod = Pod::create();
    let settings = Settings::injected();
    let output = refused(&pod, libc::EPROTONOSUPPORT, &settings);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr), @r"
    error: cannot open a netlink socket for nf_tables: Protocol not supported (os error 93)
      hint: this kernel or sandbox does not support this netlink protocol; rules need nf_tables (module nfnetlink), or iptables-legacy in the image and in the kernel
    ");
}

#[test]
fn unknown_network_namespace_is_rejected() {
    let pod = Pod::create();
    let before = pod.dump();
    let output = refused(&pod, libc::ENOBUFS, &Settings::injected());
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr), @r"
    error: this network namespace: `cannot open a netlink socket for nf_tables: No buffer space available (os error 105)` prevents deciding whether it is a node's or a pod's
      hint: run istio-init in the pod; if this is intended, use --allow-host-network
    ");
    assert_eq!(pod.dump(), before);
}

/// Such a kernel can have legacy tables.
#[test]
fn auto_uses_legacy_without_netfilter_netlink() {
    let (pod, expected) = (Pod::create(), Pod::create());
    let settings = Settings::injected().with_variable("PATH", SEARCH_PATH);
    let settings = settings.with_switch("--backend=auto");
    let output = refused(&pod, libc::EPROTONOSUPPORT, &settings);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    expected.init(&Settings::injected().by_iptables("legacy"));
    assert_eq!(rules(&pod, "legacy"), rules(&expected, "legacy"));
}

/// Runs with `socket(AF_NETLINK, …, NETLINK_NETFILTER)` failing with this error.
fn refused(pod: &Pod, errno: i32, settings: &Settings) -> Output {
    let filter = no_netfilter_socket(errno.unsigned_abs());
    let run = || {
        // Applies to this thread and its children.
        apply_filter(&filter).expect("a filter");
        let mut command = istio_init();
        command.args(settings.command_line()).envs(settings.environment());
        command.output().expect("istio-init")
    };
    pod.namespace.run(run).expect("a thread in the pod")
}

fn no_netfilter_socket(errno: u32) -> BpfProgram {
    let is = |argument: u8, value: i32| {
        let value = u64::from(value.unsigned_abs());
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
            .expect("a condition")
    };
    let netfilter = vec![is(0, libc::AF_NETLINK), is(2, libc::NETLINK_NETFILTER)];
    let rule = SeccompRule::new(netfilter).expect("a rule");
    let filter = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_socket, vec![rule])]),
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        std::env::consts::ARCH.try_into().expect("an architecture with seccomp"),
    );
    filter.and_then(TryInto::try_into).expect("a program")
}
