//! Policies that decide nothing.

use pilot_registry::protocol::Protocol::Http;
use pilot_routing::peer_authentication::{MtlsMode, PeerAuthentications, without_effect};
use serde_json::json;

use crate::world::World;

#[test]
fn policies_without_effect_are_found() {
    let found = |policies: &[(&str, &str, &[u16])]| -> Vec<String> {
        let mut world = World::new("10.0.0.1", json!({}));
        world.serve("web.shop", &[(80, Http)], "10.96.0.1", &["10.0.0.1"]);
        for (namespace, app, ports) in policies {
            let ports: Vec<_> = ports.iter().map(|port| (*port, MtlsMode::Disable)).collect();
            world.authenticate(namespace, app, MtlsMode::Strict, &ports);
        }
        let root = "istio-system";
        let all = PeerAuthentications::new(root, world.policies.clone());
        let found = without_effect(&world.policies, &all, root, &world.snapshot());
        found.iter().map(|it| format!("{} {}", it.policy, it.reason.name())).collect()
    };
    assert_eq!(found(&[("shop", "", &[]), ("shop", "web", &[8080])]), [""; 0]);
    // No service leads to the port: only the container may know it.
    assert_eq!(found(&[("shop", "web", &[9999])]), [""; 0]);
    assert_eq!(found(&[("shop", "web", &[80])]), ["shop/policy-0 service_port"]);
    assert_eq!(found(&[("shop", "", &[8080])]), ["shop/policy-0 ports_without_selector"]);
    let root = [("istio-system", "web", &[][..])];
    assert_eq!(found(&root), ["istio-system/policy-0 selector_in_root_namespace"]);
    for (namespace, app) in [("shop", ""), ("shop", "web"), ("istio-system", "")] {
        let two = [(namespace, app, &[][..]); 2];
        assert_eq!(found(&two), [format!("{namespace}/policy-1 older_policy")]);
    }
    // The workloads may come later.
    assert_eq!(found(&[("shop", "api", &[80])]), [""; 0]);
}
