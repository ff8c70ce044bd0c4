//! Images of the injected containers.

use super::context::Context;
use crate::settings::annotations::key;

/// Returns the proxy's image.
pub(super) fn of_proxy(context: &Context<'_>) -> String {
    let name = &context.values().global.proxy.image;
    complete(context, name, context.proxy_config.image_type())
}

/// Returns the init container's image. The image type of the proxy's configuration does not apply
/// to it.
pub(super) fn of_init(context: &Context<'_>) -> String {
    complete(context, &context.values().global.proxy_init.image, "")
}

/// Completes an image name with hub, tag and variant. A name with a `/` is already complete.
fn complete(context: &Context<'_>, name: &str, configured_type: &str) -> String {
    let given = context.annotations.or(key::PROXY_IMAGE, name);
    if given.contains('/') {
        return given.to_owned();
    }
    let global = &context.values().global;
    let variant = match context.annotations.get(key::PROXY_IMAGE_TYPE) {
        Some(variant) => variant,
        None if configured_type.is_empty() => &global.variant,
        None => configured_type,
    };
    let name = if name.is_empty() { "proxyv2" } else { name };
    image(&global.hub, name, &global.tag, variant)
}

fn image(hub: &str, name: &str, tag: &str, variant: &str) -> String {
    if variant.is_empty() {
        return format!("{hub}/{name}:{tag}");
    }
    let tag = tag.strip_suffix("-distroless").unwrap_or(tag);
    let tag = tag.strip_suffix("-debug").unwrap_or(tag);
    match variant {
        "default" => format!("{hub}/{name}:{tag}"),
        variant => format!("{hub}/{name}:{tag}-{variant}"),
    }
}

/// The image that users write to request the overlay's.
pub(crate) const AUTO: &str = "auto";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_type_replaces_the_suffix_of_the_tag() {
        for (tag, variant, expected) in [
            ("1.28", "", "h/p:1.28"),
            ("1.28-distroless", "", "h/p:1.28-distroless"),
            ("1.28-distroless", "default", "h/p:1.28"),
            ("1.28-distroless", "debug", "h/p:1.28-debug"),
            ("1.28-debug-distroless", "default", "h/p:1.28"),
            ("1.28", "distroless", "h/p:1.28-distroless"),
        ] {
            assert_eq!(image("h", "p", tag, variant), expected);
        }
    }
}
