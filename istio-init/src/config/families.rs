//! Which address families are captured.

use std::net::IpAddr;

use super::PASSTHROUGH_V6;
use super::reader::Reader;
use crate::complaint::{Complaint, Fault};
use crate::flag::Flag;

/// Whether IPv4 is captured, and whether IPv6 is.
pub(super) fn read(reader: &mut Reader, addresses: &[IpAddr]) -> (bool, bool) {
    let typed = reader.args.flag(Flag::IpFamilies);
    let families = match typed.text.as_str() {
        "" | "auto" => return (true, detects_ipv6(reader, addresses)),
        "v4" => (true, false),
        "v6" => (false, true),
        "dual" => (true, true),
        text => {
            let fault = Fault::new("is not a choice of address families");
            reader.complain(typed.source, text, fault.hint("use auto, v4, v6 or dual"));
            return (true, false);
        }
    };
    if reader.args.is_on(Flag::DualStack) && families != (true, true) {
        reader.warnings.push(format!(
            "{}: has no effect beside {} {}",
            reader.args.flag(Flag::DualStack).source,
            typed.source,
            typed.text
        ));
    }
    families
}

/// As in Istio, the first usable address decides, or any with dual stack.
fn detects_ipv6(reader: &mut Reader, addresses: &[IpAddr]) -> bool {
    let mut usable = addresses.iter().copied().filter(|address| is_usable(*address));
    match usable.next() {
        Some(IpAddr::V4(_)) => reader.args.is_on(Flag::DualStack) && usable.any(|a| a.is_ipv6()),
        Some(IpAddr::V6(_)) => true,
        None => {
            let fault = Fault::new("are none that the pod could be reached at");
            let fault = fault.hint("run istio-init after the pod's network is set up");
            let listed: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
            reader.complaints.push(Complaint {
                source: "addresses of this network namespace".to_owned(),
                value: listed.join(","),
                fault,
            });
            false
        }
    }
}

/// Whether the pod could be reached at the address, as Istio judges it.
fn is_usable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let is_link_local_multicast = v4.octets()[..3] == [224, 0, 0];
            !(v4.is_loopback() || v4.is_link_local() || is_link_local_multicast)
        }
        // The last one is ours, from an earlier run.
        IpAddr::V6(v6) => {
            let is_link_local_multicast = v6.segments()[0] & 0xff0f == 0xff02;
            !(v6.is_loopback()
                || v6.is_unicast_link_local()
                || is_link_local_multicast
                || v6 == PASSTHROUGH_V6)
        }
    }
}
