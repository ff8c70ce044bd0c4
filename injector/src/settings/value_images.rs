//! Images of the Helm values.

use super::annotation_kind::AnnotationKind;
use super::values::Global;

/// Checks that hub, name and tag are an image together. A name with a slash is one by itself.
pub(super) fn check(global: &Global) -> Result<(), String> {
    let Global { hub, tag, proxy, proxy_init, .. } = global;
    let (hub, tag) = (&**hub, &**tag);
    if hub.is_empty() || tag.is_empty() {
        return Ok(());
    }
    let names = [("proxy", &*proxy.image), ("proxy_init", &*proxy_init.image)];
    let mut images = names.into_iter().map(|(part, name)| match name {
        name if name.contains('/') => (format!("global.{part}.image: "), name.to_owned()),
        name => {
            let name = if name.is_empty() { "proxyv2" } else { name };
            let start = format!("global.hub: with {part}.image and tag, ");
            (start, format!("{hub}/{name}:{tag}"))
        }
    });
    let allowed = AnnotationKind::Image.allowed();
    match images.find(|(_, image)| AnnotationKind::Image.check(image).is_err()) {
        Some((start, image)) => Err(format!("{start}{image:?} is not {allowed}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::values::Values;

    #[test]
    fn hub_name_and_tag_are_an_image_together() {
        for (global, error) in [
            ("{hub: 'r.example:5000/istio', tag: 1.28}", ""),
            ("{hub: '', tag: ''}", ""),
            ("{hub: 'r.example/b c', tag: 1.28}", "global.hub: with proxy.image and tag, "),
            ("{hub: r.example, tag: 'a b'}", "global.hub: with proxy.image and tag, "),
            ("{proxy_init: {image: 'a/b c'}}", "global.proxy_init.image: "),
        ] {
            let found = Values::parse(&format!("global: {global}")).err().unwrap_or_default();
            assert_eq!(found.is_empty(), error.is_empty(), "{global}: {found}");
            assert!(found.starts_with(error), "{global}: {found}");
        }
    }
}
