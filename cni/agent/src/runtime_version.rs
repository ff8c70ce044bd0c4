//! Container runtime of a node, as its Node object names it.

/// True if the runtime reads drop-ins beside a configuration list (libcni 1.3).
///
/// `version` is `status.nodeInfo.containerRuntimeVersion`, such as `containerd://2.1.4`.
pub fn reads_drop_ins(version: &str) -> bool {
    let Some((name, version)) = version.split_once("://") else { return false };
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match name {
        "containerd" => version >= (2, 1),
        "cri-o" => version >= (1, 34),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_runtimes_are_compared_as_numbers() {
        for (version, expected) in [
            ("containerd://1.6.20", false),
            ("containerd://2.0.5", false),
            ("containerd://2.1.0-rc.1", true),
            ("containerd://2.10.1", true),
            ("cri-o://1.33.9", false),
            ("cri-o://1.34.0", true),
            ("docker://29.1.0", false),
            ("", false),
        ] {
            assert_eq!(reads_drop_ins(version), expected, "{version}");
        }
    }
}
