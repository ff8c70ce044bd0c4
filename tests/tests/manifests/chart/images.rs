//! Images of all objects and of injected containers, by one value of the chart.

use serde_json::json;

use super::templated;
use crate::images::images;

#[test]
fn one_value_is_the_registry_of_all_images() {
    let values = json!({"global": {"hub": "registry.example.com/mesh/", "tag": "1.2.3"}});
    let objects = templated(&values);
    let images = images(objects.values());
    let expected = ["istio-init", "pilot-discovery", "proxyv2", "sidecar-injector"];
    let expected = expected.map(|name| format!("registry.example.com/mesh/{name}:1.2.3"));
    assert_eq!(images, expected);
}

#[test]
fn digest_takes_the_place_of_registry_and_tag() {
    let image = "registry.example.com/sidecar-injector@sha256:0123";
    let objects = templated(&json!({"injector": {"image": image}}));
    let deployment = &objects["Deployment sidecar-injector"];
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], image);
}
