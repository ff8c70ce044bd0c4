//! Captured address families.

use std::net::IpAddr;

use super::PASSTHROUGH_V6;
use crate::args::Args;
use crate::args::flags::Flag;
use crate::types::input_error::{InputError, ValueError};

/// Returns whether IPv4 and IPv6 are captured.
pub(super) fn read(args: &Args, addresses: &[IpAddr]) -> Result<(bool, bool), InputError> {
    let typed = args.flag(Flag::IpFamilies);
    match typed.text.as_str() {
        "" | "auto" => Ok((true, detects_ipv6(args, addresses)?)),
        "v4" => Ok((true, false)),
        "v6" => Ok((false, true)),
        "dual" => Ok((true, true)),
        text => {
            let error = ValueError::new("is not a choice of address families");
            let error = error.hint("use auto, v4, v6 or dual");
            Err(InputError { source: typed.source.to_string(), value: text.to_owned(), error })
        }
    }
}

/// As in Istio, the first usable address decides, or any address if dual stack is on.
fn detects_ipv6(args: &Args, addresses: &[IpAddr]) -> Result<bool, InputError> {
    let mut usable = addresses.iter().copied().filter(|address| is_usable(*address));
    match usable.next() {
        Some(IpAddr::V4(_)) => Ok(args.is_on(Flag::DualStack) && usable.any(|a| a.is_ipv6())),
        Some(IpAddr::V6(_)) => Ok(true),
        None => {
            let error = ValueError::new("has none at which the pod is reachable");
            let error =
                error.hint("run istio-init after the network is set up, or set --ip-families");
            let listed: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
            let source = "address list of this network namespace".to_owned();
            Err(InputError { source, value: listed.join(","), error })
        }
    }
}

/// True if the pod is reachable at the address, by Istio's rules.
fn is_usable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let is_link_local_multicast = v4.octets()[..3] == [224, 0, 0];
            !(v4.is_loopback() || v4.is_link_local() || is_link_local_multicast)
        }
        // The last one was added by an earlier run.
        IpAddr::V6(v6) => {
            let is_link_local_multicast = v6.segments()[0] & 0xff0f == 0xff02;
            !(v6.is_loopback()
                || v6.is_unicast_link_local()
                || is_link_local_multicast
                || v6 == PASSTHROUGH_V6)
        }
    }
}
