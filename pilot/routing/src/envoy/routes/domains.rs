//! Domains of virtual hosts: the names and addresses by which clients call a host.

use std::collections::HashSet;

use pilot_registry::hostname::Hostname;

use super::super::message::url_host;
use super::{HostRoute, PortRoutes};

impl HostRoute {
    /// Names and addresses by which clients call the host: those of the strongest claim first.
    fn claims(&self, namespace: &str, domain: &str) -> [Vec<String>; 3] {
        let full = self.hostname.as_str();
        let names = short_forms(full, namespace, domain);
        let with_pods = |name: &str| self.has_pod_names.then(|| format!("*.{name}"));
        let absolute = format!("{full}.");
        let pods = [with_pods(full), with_pods(&absolute)].into_iter().flatten();
        let aliases = || self.aliases.iter().map(Hostname::as_str);
        let of_aliases = aliases().flat_map(|alias| [alias.to_owned(), format!("{alias}.")]);
        let full_forms = [full.to_owned(), absolute].into_iter().chain(pods).chain(of_aliases);
        let short = names.iter().flat_map(|name| [Some((*name).to_owned()), with_pods(name)]);
        let of_aliases = aliases().flat_map(|alias| short_forms(alias, namespace, domain));
        [
            full_forms.collect(),
            self.addresses.iter().copied().map(url_host).collect(),
            short.flatten().chain(of_aliases.map(str::to_owned)).collect(),
        ]
    }
}

impl PortRoutes {
    /// Domains of each host. Envoy rejects a domain that stands twice: a full name wins over an
    /// address, and both over a short form.
    pub(super) fn domains(&self) -> Vec<Vec<String>> {
        let claims: Vec<_> =
            self.hosts.iter().map(|host| host.claims(&self.namespace, &self.domain)).collect();
        let mut taken = HashSet::new();
        let mut domains = vec![Vec::new(); claims.len()];
        for strength in 0..3 {
            for (own, claims) in domains.iter_mut().zip(&claims) {
                for domain in &claims[strength] {
                    if taken.insert(domain.as_str()) {
                        own.push(domain.clone());
                    }
                }
            }
        }
        domains
    }
}

/// Short forms of a Service's name that resolve in a pod of a namespace.
fn short_forms<'a>(full: &'a str, namespace: &str, domain: &str) -> Vec<&'a str> {
    let Some(with_svc) = full.strip_suffix(domain).and_then(|rest| rest.strip_suffix('.')) else {
        return Vec::new();
    };
    let Some(with_namespace) = with_svc.strip_suffix(".svc") else { return Vec::new() };
    let name = with_namespace.strip_suffix(namespace).and_then(|rest| rest.strip_suffix('.'));
    [Some(with_svc), Some(with_namespace), name].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::HostAction;
    use super::*;
    use crate::view::OutboundPolicy;

    fn host(hostname: &str, address: &str) -> HostRoute {
        HostRoute {
            hostname: Hostname::parse(hostname).unwrap(),
            port: 80,
            aliases: vec![],
            addresses: if address.is_empty() { vec![] } else { vec![address.parse().unwrap()] },
            has_pod_names: address.is_empty(),
            action: HostAction::Cluster {
                name: "c".to_owned(),
                is_sticky: false,
                is_outside: false,
            },
        }
    }

    fn domains(namespace: &str, hosts: Vec<HostRoute>) -> Vec<String> {
        let routes = PortRoutes {
            port: 80,
            namespace: namespace.into(),
            domain: "cluster.local".into(),
            policy: OutboundPolicy::AllowAny,
            hosts,
        };
        routes.domains().into_iter().map(|domains| domains.join(" ")).collect()
    }

    const FULL: &str = "web.shop.svc.cluster.local web.shop.svc.cluster.local.";

    #[test]
    fn short_forms_depend_on_the_proxys_namespace() {
        let web = || vec![host("web.shop.svc.cluster.local", "10.0.0.1")];
        let other = format!("{FULL} 10.0.0.1 web.shop.svc web.shop");
        assert_eq!(domains("other", web()), [&*other]);
        assert_eq!(domains("shop", web()), [format!("{other} web")]);
        // A namespace that ends like the other one.
        assert_eq!(domains("hop", web()), [other]);
    }

    #[test]
    fn headless_hosts_have_names_of_pods() {
        let found = domains("shop", vec![host("web.shop.svc.cluster.local", "")]);
        let expected = format!(
            "{FULL} *.web.shop.svc.cluster.local *.web.shop.svc.cluster.local. \
             web.shop.svc *.web.shop.svc web.shop *.web.shop \
             web *.web"
        );
        assert_eq!(found, [expected]);
    }

    #[test]
    fn host_has_the_names_of_its_aliases() {
        let front = Hostname::parse("front.shop.svc.cluster.local").unwrap();
        let web = host("web.shop.svc.cluster.local", "10.0.0.1");
        let web = HostRoute { aliases: vec![front.clone()], ..web };
        let expected = format!(
            "{FULL} {front} {front}. 10.0.0.1 web.shop.svc web.shop web \
             front.shop.svc front.shop front"
        );
        assert_eq!(domains("shop", vec![web]), [expected]);
    }

    #[test]
    fn full_name_wins_over_a_short_form() {
        let hosts =
            vec![host("web.shop", "fd00::1"), host("web.shop.svc.cluster.local", "fd00::1")];
        let expected =
            ["web.shop web.shop. [fd00::1]".to_owned(), format!("{FULL} web.shop.svc web")];
        assert_eq!(domains("shop", hosts), expected);
    }

    #[test]
    fn hosts_of_other_domains_have_no_short_forms() {
        let found = domains("shop", vec![host("api.example.com", "10.0.0.1")]);
        assert_eq!(found, ["api.example.com api.example.com. 10.0.0.1"]);
    }
}
