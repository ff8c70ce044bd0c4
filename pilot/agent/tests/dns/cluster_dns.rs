//! The cluster's DNS by the Kubernetes DNS specification (version 1.1.0), and the name table of the
//! same Services.

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::CNAME;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use pilot_agent::dns::{Entry, Table};

/// Service of the cluster.
pub(crate) struct Service {
    pub(crate) name: &'static str,
    pub(crate) namespace: &'static str,
    addresses: Addresses,
}

enum Addresses {
    /// One address per family.
    Cluster(&'static [&'static str]),
    /// Ready pods with their hostnames and addresses.
    Headless(&'static [(&'static str, &'static [&'static str])]),
    /// Name outside the cluster.
    External(&'static str),
}

/// Services whose names resemble each other.
pub(crate) const SERVICES: &[Service] = &[
    cluster("web", "shop", &["10.96.2.1", "fd96::2:1"]),
    cluster("four", "shop", &["10.96.2.2"]),
    cluster("six", "shop", &["fd96::2:6"]),
    cluster("data", "shop", &["10.96.2.3"]),
    cluster("web", "data", &["10.96.3.1"]),
    cluster("shop", "data", &["10.96.3.2", "fd96::3:2"]),
    cluster("db-0", "db", &["10.96.4.1"]),
    cluster("web", "svc", &["10.96.5.1"]),
    cluster("svc", "svc", &["10.96.5.2"]),
    cluster("cluster", "local", &["10.96.6.1"]),
    headless(
        "db",
        "data",
        &[
            ("db-0", &["10.1.0.1", "fd10::1"]),
            ("db-1", &["10.1.0.2", "fd10::2"]),
            ("db-2", &["10.1.0.3"]),
        ],
    ),
    headless("idle", "data", &[]),
    Service { name: "far", namespace: "shop", addresses: Addresses::External("far.example") },
];

const fn cluster(
    name: &'static str,
    namespace: &'static str,
    ips: &'static [&'static str],
) -> Service {
    Service { name, namespace, addresses: Addresses::Cluster(ips) }
}

const fn headless(
    name: &'static str,
    namespace: &'static str,
    pods: &'static [(&'static str, &'static [&'static str])],
) -> Service {
    Service { name, namespace, addresses: Addresses::Headless(pods) }
}

/// Returns all hosts of the cluster with their addresses: short name, namespace, addresses. An
/// external name has none.
pub(crate) fn hosts() -> Vec<(String, &'static str, Vec<String>)> {
    let texts = |ips: &[&str]| ips.iter().map(|ip| (*ip).to_owned()).collect::<Vec<String>>();
    SERVICES
        .iter()
        .flat_map(|service| {
            let Service { name, namespace, addresses } = service;
            let of_service = |ips| ((*name).to_owned(), *namespace, ips);
            match addresses {
                Addresses::Cluster(ips) => vec![of_service(texts(ips))],
                Addresses::External(_) => vec![of_service(Vec::new())],
                Addresses::Headless(pods) => {
                    let all = pods.iter().flat_map(|(_, ips)| texts(ips)).collect();
                    let each = pods
                        .iter()
                        .map(|(pod, ips)| (format!("{pod}.{name}"), *namespace, texts(ips)));
                    [of_service(all)].into_iter().chain(each).collect()
                }
            }
        })
        .collect()
}

/// Returns the name table that the control plane makes of the Services. It knows no external names.
pub(crate) fn table() -> Table {
    let hosts = hosts();
    let full: Vec<String> =
        hosts.iter().map(|(name, space, _)| format!("{name}.{space}.{DOMAIN}")).collect();
    Table::new(hosts.iter().zip(&full).map(|((shortname, namespace, ips), host)| Entry {
        host,
        ips,
        registry: "Kubernetes",
        shortname,
        namespace,
    }))
}

/// Adds what the cluster's DNS answers to a response.
pub(crate) fn answer(query: &Message, mut response: Message) -> Vec<u8> {
    let asked = &query.queries[0];
    let name = asked.name().to_ascii().trim_end_matches('.').to_ascii_lowercase();
    if let Some(target) = external_name(&name) {
        let target = Name::from_ascii(target).unwrap();
        let alias = RData::CNAME(CNAME(target.clone()));
        response.add_answer(Record::from_rdata(asked.name().clone(), 5, alias));
        if asked.query_type() == RecordType::A {
            let address = RData::A("198.51.100.9".parse().unwrap());
            response.add_answer(Record::from_rdata(target, 5, address));
        }
        return response.to_vec().unwrap();
    }
    let is_it = |(short, space, _): &&(String, &str, Vec<String>)| {
        name == format!("{short}.{space}.{DOMAIN}")
    };
    // A headless Service without ready pods has no name.
    match hosts().iter().find(is_it).filter(|(_, _, ips)| !ips.is_empty()) {
        None => response.metadata.response_code = ResponseCode::NXDomain,
        Some((_, _, ips)) => {
            for ip in ips {
                let data = match ip.parse().unwrap() {
                    std::net::IpAddr::V4(ip) => RData::A(ip.into()),
                    std::net::IpAddr::V6(ip) => RData::AAAA(ip.into()),
                };
                if data.record_type() == asked.query_type() {
                    response.add_answer(Record::from_rdata(asked.name().clone(), 5, data));
                }
            }
        }
    }
    response.to_vec().unwrap()
}

fn external_name(name: &str) -> Option<&'static str> {
    SERVICES.iter().find_map(|service| match service.addresses {
        Addresses::External(target)
            if name == format!("{}.{}.{DOMAIN}", service.name, service.namespace) =>
        {
            Some(target)
        }
        _ => None,
    })
}

/// Domain of Services.
pub(crate) const DOMAIN: &str = "svc.cluster.local";
