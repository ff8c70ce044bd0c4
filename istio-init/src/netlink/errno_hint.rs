//! Errors of the kernel with hints about their cause and remedy.

use std::fmt;

use reason::hint::SEPARATOR;
use rustix::io::Errno;

use super::nf_tables::is_no_nf_tables;
use super::privileges::{Capability, CapabilityState, Privileges};

/// Error of the kernel, with the privileges that may explain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The kernel's reason.
    pub errno: Errno,
    privileges: Privileges,
}

impl Cause {
    /// Creates an error for a process with these privileges.
    pub fn new(errno: Errno, privileges: Privileges) -> Self {
        Self { errno, privileges }
    }

    /// Returns a hint with its separator; empty if there is none.
    pub fn hint(&self) -> String {
        let hint = match self.errno {
            Errno::PERM | Errno::NOSYS => missing_privilege(self.privileges),
            Errno::MSGSIZE => {
                "the rules exceed net.core.wmem_max; use fewer and larger ranges, or raise it"
            }
            Errno::ACCESS => "IPv6 may be disabled on lo (net.ipv6.conf.lo.disable_ipv6)",
            _ => return String::new(),
        };
        format!("{SEPARATOR}{hint}")
    }

    /// Returns a hint for an error about rules.
    pub fn rules_hint(&self) -> String {
        let hint = match self.errno {
            errno if is_no_nf_tables(errno) => NO_NF_TABLES,
            Errno::NOENT | Errno::AFNOSUPPORT => {
                "the kernel needs nf_tables with NAT for the inet family (5.2 or later)"
            }
            _ => return self.hint(),
        };
        format!("{SEPARATOR}{hint}")
    }

    /// Returns a hint for a socket that cannot be opened. Opening needs no capability.
    pub fn socket_hint(&self) -> &'static str {
        match self.errno {
            Errno::PERM | Errno::ACCESS | Errno::NOSYS => {
                "; hint: opening it needs no capability: a seccomp profile or a security module \
                 forbids it; allow socket(AF_NETLINK) in the container's profile"
            }
            Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT => {
                "; hint: this kernel or sandbox does not support this netlink protocol; rules need \
                 nf_tables (module nfnetlink), or iptables-legacy in the image and in the kernel"
            }
            _ => "",
        }
    }
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Self {
        let privileges = match errno {
            Errno::PERM | Errno::NOSYS => Privileges::current(),
            _ => Privileges::default(),
        };
        Self { errno, privileges }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.errno, self.hint())
    }
}

/// Returns the missing privilege.
pub(crate) fn missing_privilege(privileges: Privileges) -> &'static str {
    match (privileges.holds(Capability::NetAdmin), privileges.is_filtered) {
        (CapabilityState::Missing, _) => {
            "istio-init needs the capability NET_ADMIN, which this container does not have: add it \
             to its securityContext"
        }
        (CapabilityState::Allowed, _) => {
            "istio-init needs the capability NET_ADMIN, which this container may have but its user \
             does not: run it as user 0, or give the program's file the capability"
        }
        (CapabilityState::Effective, true) => {
            "this process has the capability NET_ADMIN, so its seccomp profile forbids the call \
             (allow sendto and recvfrom on netlink sockets there), or the network namespace \
             belongs to a user namespace where it does not apply"
        }
        (CapabilityState::Effective, false) => {
            "this process has the capability NET_ADMIN, but not in the user namespace that owns \
             this network namespace; or a security module forbids the call"
        }
    }
}

const NO_NF_TABLES: &str = "this kernel has no nf_tables (CONFIG_NF_TABLES, Linux 5.2 or later for \
                            NAT in the inet family): load the module on the node, or use an image \
                            with iptables-legacy if the kernel supports it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_errno_has_its_own_hint() {
        let of = |status: &str| Privileges::parse(status);
        let capable = "CapEff:\t1000\nCapBnd:\t1000\n";
        let texts = [
            Cause::new(Errno::PERM, of("CapEff:\t0\nCapBnd:\t0\n")).to_string(),
            Cause::new(Errno::PERM, of("CapEff:\t0\nCapBnd:\t1000\nSeccomp:\t2\n")).to_string(),
            Cause::new(Errno::PERM, of(&format!("{capable}Seccomp:\t2\n"))).to_string(),
            Cause::new(Errno::NOSYS, of(&format!("{capable}Seccomp:\t2\n"))).to_string(),
            Cause::new(Errno::PERM, of(capable)).to_string(),
            Cause::new(Errno::BUSY, Privileges::default()).to_string(),
        ];
        insta::assert_snapshot!(texts.join("\n\n"));
        let of_rules = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOENT, Errno::BUSY]
            .map(|errno| Cause::new(errno, Privileges::default()).rules_hint());
        insta::assert_snapshot!(of_rules.join("\n"));
        let of_socket = [Errno::PERM, Errno::PROTONOSUPPORT, Errno::MFILE]
            .map(|errno| Cause::new(errno, Privileges::default()).socket_hint());
        insta::assert_snapshot!(of_socket.join("\n"));
    }
}
