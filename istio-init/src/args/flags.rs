//! Table of all flags: those of Istio's `istio-iptables`, and this program's own.
//!
//! Parsing, environment variables, error messages and the origin of a rule refer to a flag by
//! [`Flag`] and look up its facts here.

use std::fmt;

/// A flag. First come Istio's own, then those that Istio's command inherits from its parent
/// command, last those that only this program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag {
    /// Port that outbound connections are redirected to.
    EnvoyPort,
    /// Port that inbound connections are redirected to.
    InboundCapturePort,
    /// Port of the tunnel listener, never captured inbound.
    InboundTunnelPort,
    /// Users whose traffic is the proxy's own.
    ProxyUid,
    /// Groups whose traffic is the proxy's own.
    ProxyGid,
    /// REDIRECT or TPROXY.
    InboundInterceptionMode,
    /// Inbound ports to capture.
    InboundPorts,
    /// Inbound ports that are not captured if all others are.
    LocalExcludePorts,
    /// Interfaces that bypass capture.
    ExcludeInterfaces,
    /// Destination ranges to capture.
    ServiceCidr,
    /// Destination ranges that are not captured.
    ServiceExcludeCidr,
    /// Destination ports to capture at any address.
    OutboundPorts,
    /// Destination ports that are not captured.
    LocalOutboundPortsExclude,
    /// Capture IPv6 if any address is IPv6.
    DualStack,
    /// Print the plan and change nothing.
    DryRun,
    /// Remove the rules of an earlier run.
    CleanupOnly,
    /// Istio: replace rules that differ. Here every run does.
    Reconcile,
    /// Istio: apply although the rules match. Has no effect.
    ForceApply,
    /// Use nftables.
    NativeNftables,
    /// Packet mark of TPROXY.
    InboundTproxyMark,
    /// Routing table of TPROXY.
    InboundTproxyRouteTable,
    /// Interfaces whose arriving traffic counts as outbound.
    KubeVirtInterfaces,
    /// Port of the validation's probe.
    IptablesProbePort,
    /// Time limit of a probe.
    ProbeTimeout,
    /// Leave the rules to another program.
    SkipRuleApply,
    /// Probe the rules after they are applied.
    RunValidation,
    /// Capture DNS.
    RedirectDns,
    /// Capture DNS to every server.
    CaptureAllDns,
    /// Drop packets that connection tracking finds invalid.
    DropInvalid,
    /// Name of the namespace, for Istio's lock file.
    NetworkNamespace,
    /// Run as part of a CNI plugin.
    CniMode,
    /// Variant of iptables to run.
    ForceIptablesBinary,
    /// Backend that installs the rules. Not in Istio.
    Backend,
    /// Istio's log levels.
    LogOutputLevel,
    /// Istio's log format.
    LogAsJson,
    /// Istio's log destinations.
    LogTarget,
    /// Istio's scopes that log their caller.
    LogCaller,
    /// Istio's scopes that log a stack.
    LogStacktraceLevel,
    /// Verbosity of Kubernetes' client library in Istio.
    Vklog,
    /// Users whose outbound traffic is not captured, optionally only to some ports.
    ExcludeOutboundForUids,
    /// Address families to capture.
    IpFamilies,
    /// Run in the network namespace of a node.
    AllowHostNetwork,
}

/// Names of a flag, its environment variables, its default and its support.
#[derive(Clone, Copy, Debug)]
pub struct FlagSpec {
    /// The flag this row describes.
    pub flag: Flag,
    /// Long name without dashes.
    pub long: &'static str,
    /// One-letter name.
    pub short: Option<char>,
    /// Environment variables in increasing priority; the command line overrides them.
    pub variables: &'static [&'static str],
    /// Value used if neither a flag nor a variable sets one.
    pub default: &'static str,
    /// Syntax of the value.
    pub kind: FlagKind,
    /// Name of the value in the help.
    pub value: &'static str,
    /// Support by this program.
    pub support: Support,
    /// One line for `--help`.
    pub help: &'static str,
}

/// Syntax of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind {
    /// Any text, parsed with the configuration.
    Text,
    /// Go's `strconv.ParseBool`; a flag without value means true.
    Bool,
    /// A 16-bit number.
    Number,
    /// Go's `time.ParseDuration`.
    Duration,
}

/// Support of a flag by this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Same meaning as in Istio.
    Implemented,
    /// Accepted; this program behaves so with or without it.
    Implied,
    /// Accepted, because Istio's injector passes it; it only concerns Istio's logs.
    Logging,
}

impl Flag {
    /// Returns the table's row of this flag.
    pub fn spec(self) -> &'static FlagSpec {
        // The table is in the order of the enum; a test checks it.
        &FLAGS[self as usize]
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}", self.spec().long)
    }
}

const fn row(
    flag: Flag,
    (long, short): (&'static str, Option<char>),
    variables: &'static [&'static str],
    default: &'static str,
    (kind, support, value): FlagValue,
    help: &'static str,
) -> FlagSpec {
    FlagSpec { flag, long, short, variables, default, kind, value, support, help }
}

/// Syntax, support and name of a value.
type FlagValue = (FlagKind, Support, &'static str);

const fn text(value: &'static str) -> FlagValue {
    (FlagKind::Text, Support::Implemented, value)
}

const SWITCH: FlagValue = (FlagKind::Bool, Support::Implemented, "true|false");
const IMPLIED: FlagValue = (FlagKind::Bool, Support::Implied, "true|false");
const LOG: FlagValue = (FlagKind::Text, Support::Logging, "TEXT");

/// Every flag.
#[rustfmt::skip]
pub const FLAGS: &[FlagSpec] = &[
    row(Flag::EnvoyPort, ("envoy-port", Some('p')), &[], "15001", text("PORT"), "Port that outbound connections are redirected to"),
    row(Flag::InboundCapturePort, ("inbound-capture-port", Some('z')), &["INBOUND_CAPTURE_PORT"], "15006", text("PORT"), "Port that inbound connections are redirected to"),
    row(Flag::InboundTunnelPort, ("inbound-tunnel-port", Some('e')), &["INBOUND_TUNNEL_PORT"], "15008", text("PORT"), "Port of the tunnel listener, never captured inbound"),
    row(Flag::ProxyUid, ("proxy-uid", Some('u')), &["PROXY_UID"], "", text("UIDS"), "Users whose traffic is the proxy's own: comma list [default: that of $ENVOY_USER, else 1337]"),
    row(Flag::ProxyGid, ("proxy-gid", Some('g')), &["PROXY_GID"], "", text("GIDS"), "Groups whose traffic is the proxy's own: comma list [default: the value of --proxy-uid]"),
    row(Flag::InboundInterceptionMode, ("istio-inbound-interception-mode", Some('m')), &["ISTIO_INBOUND_INTERCEPTION_MODE"], "", text("REDIRECT|TPROXY"), "Interception mode of inbound connections: REDIRECT or TPROXY [default: REDIRECT]"),
    row(Flag::InboundPorts, ("istio-inbound-ports", Some('b')), &["ISTIO_INBOUND_PORTS"], "", text("PORTS"), "Inbound ports to capture: comma list, `*` for all, empty for none"),
    row(Flag::LocalExcludePorts, ("istio-local-exclude-ports", Some('d')), &["ISTIO_LOCAL_EXCLUDE_PORTS"], "", text("PORTS"), "Inbound ports that are not captured if `-b '*'` captures all others: comma list"),
    row(Flag::ExcludeInterfaces, ("istio-exclude-interfaces", Some('c')), &["ISTIO_EXCLUDE_INTERFACES"], "", text("INTERFACES"), "Interfaces that bypass capture in both directions: comma list"),
    row(Flag::ServiceCidr, ("istio-service-cidr", Some('i')), &["ISTIO_SERVICE_CIDR"], "", text("CIDRS"), "Destination ranges to capture: comma list, `*` for all, empty for none"),
    row(Flag::ServiceExcludeCidr, ("istio-service-exclude-cidr", Some('x')), &["ISTIO_SERVICE_EXCLUDE_CIDR"], "", text("CIDRS"), "Destination ranges that are not captured: comma list"),
    row(Flag::OutboundPorts, ("istio-outbound-ports", Some('q')), &["ISTIO_OUTBOUND_PORTS"], "", text("PORTS"), "Destination ports to capture whatever the address: comma list"),
    row(Flag::LocalOutboundPortsExclude, ("istio-local-outbound-ports-exclude", Some('o')), &["ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE"], "", text("PORTS"), "Destination ports that are not captured, TCP and UDP: comma list"),
    row(Flag::DualStack, ("dual-stack", None), &["DUAL_STACK", "ISTIO_DUAL_STACK"], "false", SWITCH, "Capture IPv6 when any address of the pod is IPv6, not only when the first one is"),
    row(Flag::DryRun, ("dry-run", Some('n')), &["DRY_RUN"], "false", SWITCH, "Print the rules as an nft script on stdout, for iptables-restore if iptables is requested, and change nothing"),
    row(Flag::CleanupOnly, ("cleanup-only", None), &["CLEANUP_ONLY"], "false", SWITCH, "Remove the rules of an earlier run; needs no other flag"),
    row(Flag::Reconcile, ("reconcile", None), &["RECONCILE"], "false", IMPLIED, "Repair the difference that verify finds; a run without subcommand always does"),
    row(Flag::ForceApply, ("force-apply", None), &["FORCE_APPLY"], "false", IMPLIED, "Accepted: every run replaces rules that differ from the planned ones"),
    row(Flag::NativeNftables, ("native-nftables", None), &["NATIVE_NFTABLES"], "false", SWITCH, "Install the rules by nftables, as --backend nftables does"),
    row(Flag::InboundTproxyMark, ("istio-inbound-tproxy-mark", Some('t')), &["ISTIO_INBOUND_TPROXY_MARK"], "1337", text("MARK"), "Mark of packets that TPROXY delivers to this pod"),
    row(Flag::InboundTproxyRouteTable, ("istio-inbound-tproxy-route-table", Some('r')), &["ISTIO_INBOUND_TPROXY_ROUTE_TABLE"], "133", text("TABLE"), "Routing table of marked packets, otherwise unused"),
    row(Flag::KubeVirtInterfaces, ("kube-virt-interfaces", Some('k')), &["KUBE_VIRT_INTERFACES"], "", text("INTERFACES"), "Interfaces whose arriving traffic counts as outbound: comma list"),
    row(Flag::IptablesProbePort, ("iptables-probe-port", None), &["IPTABLES_PROBE_PORT"], "15002", (FlagKind::Number, Support::Implemented, "PORT"), "Port that the probe tries as Istio's validation does"),
    row(Flag::ProbeTimeout, ("probe-timeout", None), &["PROBE_TIMEOUT"], "5s", (FlagKind::Duration, Support::Implemented, "DURATION"), "Time limit of a probe; without this flag 30s with --skip-rule-apply"),
    row(Flag::SkipRuleApply, ("skip-rule-apply", None), &["SKIP_RULE_APPLY"], "false", SWITCH, "Change nothing: another program, such as a CNI plugin, installs the rules"),
    row(Flag::RunValidation, ("run-validation", None), &["RUN_VALIDATION"], "false", SWITCH, "Try the rules with real sockets after they are applied; exits 126 if a flow does not match the plan"),
    row(Flag::RedirectDns, ("redirect-dns", None), &["REDIRECT_DNS", "ISTIO_META_DNS_CAPTURE"], "false", SWITCH, "Send queries to the servers of /etc/resolv.conf to port 15053"),
    row(Flag::CaptureAllDns, ("capture-all-dns", None), &["CAPTURE_ALL_DNS"], "false", SWITCH, "With --redirect-dns: queries to every server, not only those of /etc/resolv.conf"),
    row(Flag::DropInvalid, ("drop-invalid", None), &["DROP_INVALID", "INVALID_DROP"], "false", SWITCH, "Drop packets that belong to no connection and begin none, of any protocol"),
    row(Flag::NetworkNamespace, ("network-namespace", None), &["NETWORK_NAMESPACE"], "", (FlagKind::Text, Support::Implied, "PATH"), "Accepted: it names Istio's lock file; the lock here is of the network namespace"),
    row(Flag::CniMode, ("cni-mode", None), &["CNI_MODE"], "false", IMPLIED, "Accepted: no program of the node is run that would need it"),
    row(Flag::ForceIptablesBinary, ("force-iptables-binary", None), &["FORCE_IPTABLES_BINARY"], "", text("legacy|nft"), "Variant of iptables to run: legacy or nft [default: legacy if it has rules, else nft]"),
    row(Flag::Backend, ("backend", None), &[], "auto", text("auto|iptables|nftables"), "Backend: iptables, nftables, or auto for iptables if one works, else nftables"),
    row(Flag::LogOutputLevel, ("log_output_level", None), &[], "", LOG, "Accepted: Istio's log levels"),
    row(Flag::LogAsJson, ("log_as_json", None), &[], "false", SWITCH, "Log JSON lines, as Istio does"),
    row(Flag::LogTarget, ("log_target", None), &[], "", LOG, "Accepted: Istio's log destinations"),
    row(Flag::LogCaller, ("log_caller", None), &[], "", LOG, "Accepted: Istio's scopes that log their caller"),
    row(Flag::LogStacktraceLevel, ("log_stacktrace_level", None), &[], "", LOG, "Accepted: Istio's scopes that log a stack"),
    row(Flag::Vklog, ("vklog", None), &[], "", LOG, "Accepted: verbosity of Kubernetes' client library in Istio"),
    row(Flag::ExcludeOutboundForUids, ("exclude-outbound-for-uids", None), &["EXCLUDE_OUTBOUND_FOR_UIDS"], "", text("RULES"), "Users whose outbound traffic is not captured: [[protocols:]ports:]uids, several separated by `;`, such as `1000-1999;tcp:22,8000-9000:0`"),
    row(Flag::IpFamilies, ("ip-families", None), &["IP_FAMILIES"], "auto", text("auto|v4|v6|dual"), "Address families to capture: auto, v4, v6 or dual"),
    row(Flag::AllowHostNetwork, ("allow-host-network", None), &["ALLOW_HOST_NETWORK"], "false", SWITCH, "Run even if this looks like the network namespace of a node"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (index, spec) in FLAGS.iter().enumerate() {
            assert_eq!(spec.flag as usize, index, "--{}", spec.long);
        }
        assert_eq!(FLAGS.len(), Flag::AllowHostNetwork as usize + 1);
    }

    #[test]
    fn names_are_unique_and_variables_derive_from_them() {
        let mut names: Vec<String> = Vec::new();
        for spec in FLAGS {
            names.push(spec.long.to_owned());
            names.extend(spec.short.map(String::from));
            if let Some(first) = spec.variables.first() {
                assert_eq!(*first, spec.long.to_uppercase().replace('-', "_"));
            }
        }
        names.sort();
        let total = names.len();
        names.dedup();
        assert_eq!(names.len(), total);
    }
}
