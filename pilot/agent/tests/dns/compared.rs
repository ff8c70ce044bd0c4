//! Comparison with the cluster's DNS: a resolver gets the same addresses from the DNS proxy.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};

use e2e::netns::Owner;
use hickory_proto::op::Message;

use crate::client::{APP, query, udp};
use crate::cluster_dns::{DOMAIN, hosts, table};
use crate::name_server::{Behaviour, NameServer};
use crate::pod::{Pod, Settings};

#[test]
fn addresses_equal_those_of_the_clusters_dns() {
    let mut compared = 0;
    for namespace in ["shop", "data", "db", "svc", "local", "empty"] {
        let pod = Pod::create();
        let mut settings = Settings::new(&["10.96.0.10"]);
        settings.namespace = namespace;
        pod.capture(&settings.servers, &[]);
        let _server = NameServer::start(&pod.world, "10.96.0.10", Behaviour::Cluster);
        let agent = pod.start(&settings);
        agent.publish(table);
        let asked = questions();
        // The proxy's own queries are not captured.
        let [by_agent, by_cluster] = [APP, Owner { uid: 1337, gid: 1337 }].map(|owner| {
            let resolve_all = || {
                let resolver = Resolver::new(namespace);
                asked.iter().map(|name| resolver.addresses(name)).collect::<Vec<_>>()
            };
            pod.namespace.run_as(owner, resolve_all).unwrap()
        });
        for ((name, agents), clusters) in asked.iter().zip(by_agent).zip(by_cluster) {
            assert_eq!(agents, clusters, "{name} in namespace {namespace}");
            compared += usize::from(!clusters.is_empty());
        }
        let requests = agent.metrics.requests.get();
        let forwarded = agent.metrics.upstream_requests.get();
        assert!(requests > forwarded && forwarded > 0, "{requests}, forwarded {forwarded}");
    }
    assert!(compared > 500, "only {compared} names have addresses");
}

/// Returns `NAME TYPE` for all names of all Services, and some that do not exist.
fn questions() -> Vec<String> {
    let mut names = BTreeSet::new();
    for (name, space, _) in hosts() {
        let short = [name.clone(), format!("{name}.{space}"), format!("{name}.{space}.svc")];
        let full = format!("{name}.{space}.{DOMAIN}");
        let upper = full.to_ascii_uppercase();
        names.extend(short.into_iter().chain([format!("{full}."), full, upper]));
    }
    let unknown = ["none", "none.shop", "web.none", "web.shop.none", "db-9.db.data", "local"];
    names.extend(unknown.map(str::to_owned));
    let questions = names.iter().flat_map(|name| [format!("{name} A"), format!("{name} AAAA")]);
    questions.collect()
}

/// Resolver of a container, with the search domains and `ndots:5` of a pod.
struct Resolver {
    search: Vec<String>,
    socket: UdpSocket,
}

impl Resolver {
    fn new(namespace: &str) -> Self {
        let server: SocketAddr = "10.96.0.10:53".parse().unwrap();
        let search = [&format!("{namespace}.{DOMAIN}"), DOMAIN, "cluster.local"];
        Self { search: search.map(str::to_owned).to_vec(), socket: udp(server) }
    }

    /// Returns the addresses that the first name with any has.
    fn addresses(&self, asked: &str) -> BTreeSet<String> {
        let (name, kind) = asked.split_once(' ').unwrap();
        let searched = self.search.iter().map(|domain| format!("{name}.{domain}"));
        let names: Vec<String> = if name.ends_with('.') {
            vec![name.to_owned()]
        } else if name.matches('.').count() >= 5 {
            [name.to_owned()].into_iter().chain(searched).collect()
        } else {
            searched.chain([name.to_owned()]).collect()
        };
        let mut found = names.iter().map(|name| self.ask(&format!("{name} {kind}")));
        found.find(|addresses| !addresses.is_empty()).unwrap_or_default()
    }

    fn ask(&self, asked: &str) -> BTreeSet<String> {
        self.socket.send(&query(asked, 7).to_vec().unwrap()).unwrap();
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).expect("an answer");
        let answer = Message::from_vec(&buffer[..length]).unwrap();
        assert_eq!(answer.queries, query(asked, 7).queries);
        let addresses = answer.answers.iter().filter_map(|record| record.data.ip_addr());
        addresses.map(|address| address.to_string()).collect()
    }
}
