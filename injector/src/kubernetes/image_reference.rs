//! References of container images: `[REGISTRY/]PATH[:TAG][@DIGEST]`, as container runtimes parse
//! them.

/// True if a container runtime accepts the text as the name of an image.
pub(crate) fn is_image(text: &str) -> bool {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (text, None),
    };
    // A colon before a slash belongs to the registry's port.
    let last = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[last..].split_once(':') {
        Some((_, tag)) => (&rest[..rest.len() - tag.len() - 1], Some(tag)),
        None => (rest, None),
    };
    let path = match name.split_once('/') {
        Some((registry, path)) if is_registry(registry) => path,
        _ => name,
    };
    name.len() <= MOST_LETTERS
        && path.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
}

/// True for a host that is no component of a path: with a dot, a port, or the name `localhost`.
fn is_registry(text: &str) -> bool {
    let host = match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => text,
    };
    let is_v6 = host.starts_with('[') && host.ends_with(']');
    let is_host = host.split('.').all(|label| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-';
        !label.is_empty() && label.chars().all(is_letter) && !label.starts_with('-')
    });
    let is_apart = host.len() < text.len()
        || host == "localhost"
        || host.contains('.')
        || host.bytes().any(|byte| byte.is_ascii_uppercase());
    is_v6 || (is_host && is_apart)
}

/// True for lower-case letters and digits, with single separators between them: a dot, one or two
/// underscores, or dashes.
fn is_component(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators: Vec<_> = text.split(is_letter).filter(|part| !part.is_empty()).collect();
    let is_separator =
        |text: &&str| [".", "_", "__"].contains(text) || text.bytes().all(|c| c == b'-');
    text.starts_with(is_letter) && text.ends_with(is_letter) && separators.iter().all(is_separator)
}

fn is_tag(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(is_letter)
        && text.len() <= 128
        && text.chars().all(|c| is_letter(c) || ".-".contains(c))
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, hash)| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "+._-".contains(c);
        algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
            && algorithm.chars().all(is_letter)
            && hash.len() >= 32
            && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Most letters of a name without tag and digest.
const MOST_LETTERS: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_those_of_container_runtimes() {
        let digest = format!("a/b@sha256:{}", "0a".repeat(32));
        for image in [
            "proxyv2",
            "proxyv2:1.28-distroless",
            "istio/proxyv2:1.28",
            "docker.io/istio/proxyv2:1.28",
            "localhost/a",
            "registry.example:5000/a/b.c/d__e-f:T_1",
            "REGISTRY/a",
            "[fd00::1]:5000/a",
            "10.0.0.1:5000/a:1",
            &digest,
            "registry.example:5000/a",
        ] {
            assert!(is_image(image), "{image}");
        }
        let long = "a".repeat(256);
        for image in [
            "",
            "/a",
            "a/",
            "a//b",
            "a b",
            "a/b:c d",
            "a/B",
            "Upper:1",
            "a/b:",
            "a:1:2",
            "a/b@sha256:0123",
            "a/b@",
            "a/-b",
            "a/b..c",
            "a/b:-1",
            "https://registry.example/a",
            "a/b\n",
            "'mirror/proxy:1",
            &long,
        ] {
            assert!(!is_image(image), "{image}");
        }
    }
}
