//! Names, resolved through the agent's DNS proxy and by the cluster's DNS.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::namespace::{Namespace, address_of};
use e2e::{http, wait};
use pilot_agent::relay::{NameInfo, NameTable};
use serde_json::{Value, json};

use crate::app_pod::{app, pod};
use crate::fixture::Fixture;

/// Two pods ask the same questions. One of them has no sidecar.
pub(crate) fn dns_proxy_resolves_as_the_clusters_dns(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let shop = cluster.namespace("dns", &["istio-injection=enabled"])?;
    let other = cluster.namespace("dns-other", &[])?;
    other.apply(include_str!("dns-other.yaml"))?;
    shop.apply(include_str!("dns.yaml"))?;
    for pod in ["db-0", "db-1", "plain"] {
        shop.wait_for("condition=Ready", &format!("pod/{pod}"))?;
    }
    let names = wait::until("the pods are endpoints", || {
        let names = name_table(cluster)?;
        ensure!(names.table.contains_key("db-1.db.dns.svc.cluster.local"), "{names:?}");
        Ok(names)
    })?;
    fixture.control_plane().publish(names.clone());
    let annotations = json!({
        "proxy.istio.io/config": r#"proxyMetadata: {ISTIO_META_DNS_CAPTURE: "true"}"#,
    });
    let spec = json!({ "containers": [app("app", &["--http=8080"])] });
    shop.apply(&pod("captured", &annotations, &spec).to_string())?;
    shop.wait_for("condition=Ready", "pod/captured")?;

    let spellings = spellings(&names);
    let expected = resolve(&shop, "plain", &spellings)?;
    let resolved = expected.lines().filter(|line| line.contains(' ')).count();
    assert!(resolved > 60, "{resolved} names have addresses:\n{expected}");
    compare(&resolve(&shop, "captured", &spellings)?, &expected, "\n");

    let queries = queries(cluster, &names)?;
    let expected = look_up(&shop, "plain", &queries)?;
    compare(&look_up(&shop, "captured", &queries)?, &expected, "== ");

    let page = http::get((address_of(&shop.get("pod/captured")?)?, 15020).into(), METRICS)?;
    let page = page.expect_ok()?;
    let [asked, forwarded] = ["", "upstream_"].map(|kind| {
        let series = format!("istio_agent_dns_{kind}requests_total ");
        let count = page.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok());
        count.with_context(|| format!("no {series}in {page}"))
    });
    let (asked, forwarded) = (asked?, forwarded?);
    assert!(asked > forwarded + resolved as u64 && forwarded > 0, "{asked}, {forwarded}");
    other.delete()?;
    shop.delete()
}

/// Compares texts part by part, so that a failure shows what differs.
fn compare(by_agent: &str, by_cluster: &str, separator: &str) {
    let (by_agent, by_cluster) = (by_agent.split(separator), by_cluster.split(separator));
    for (by_agent, by_cluster) in by_agent.clone().zip(by_cluster.clone()) {
        assert_eq!(by_agent, by_cluster);
    }
    assert_eq!(by_agent.count(), by_cluster.count());
}

/// Returns a name table of the API server's Services, as the control plane makes it.
fn name_table(cluster: &Cluster) -> Result<NameTable> {
    let list = |kind: &str| -> Result<Value> {
        let list = cluster.kubectl().must(["get", kind, "--all-namespaces", "--output=json"])?;
        let mut list: Value = serde_json::from_str(&list)?;
        // Those of the other stories come and go.
        let is_stable = |object: &Value| NAMESPACES.contains(&namespace_of(object));
        list["items"].as_array_mut().context("no items")?.retain(is_stable);
        Ok(list)
    };
    let (services, slices) = (list("services")?, list("endpointslices")?);
    let mut names = NameTable::default();
    for service in items(&services) {
        let (name, namespace) = (text(&service["metadata"]["name"]), namespace_of(service));
        let mut add = |short: String, ips: Vec<String>| {
            let host = format!("{short}.{namespace}.svc.cluster.local");
            let info = names.table.entry(host).or_insert_with(|| NameInfo {
                ips: Vec::new(),
                registry: "Kubernetes".to_owned(),
                shortname: short,
                namespace: namespace.to_owned(),
            });
            info.ips.extend(ips);
        };
        let addresses = strings(&service["spec"]["clusterIPs"]);
        if addresses.iter().any(|address| address != "None") {
            add(name.to_owned(), addresses);
            continue;
        }
        let of_service = |slice: &&Value| {
            slice["metadata"]["labels"]["kubernetes.io/service-name"] == name
                && namespace_of(slice) == namespace
        };
        let endpoints =
            items(&slices).filter(of_service).flat_map(|slice| array(&slice["endpoints"]));
        for endpoint in endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false) {
            add(name.to_owned(), strings(&endpoint["addresses"]));
            if let Some(hostname) = endpoint["hostname"].as_str() {
                add(format!("{hostname}.{name}"), strings(&endpoint["addresses"]));
            }
        }
    }
    Ok(names)
}

/// Returns each name with and without domains, and names that the table does not have.
fn spellings(names: &NameTable) -> BTreeSet<String> {
    let hosts = names.table.iter().flat_map(|(host, NameInfo { shortname, namespace, .. })| {
        let short = [shortname.clone(), format!("{shortname}.{namespace}")];
        let longer = [format!("{shortname}.{namespace}.svc"), host.clone()];
        short.into_iter().chain(longer).chain([format!("{host}."), host.to_uppercase()])
    });
    let outside = ["www.example", "www.example.", "four.example", "alias.example", "none.example"];
    let others = ["outside", "outside.dns", "idle", "idle.dns.svc", "none", "none.dns", "web.none"];
    let further = outside.into_iter().chain(others).map(str::to_owned);
    hosts.chain(further).collect()
}

/// Returns queries for single names, as `TYPE=NAME`.
fn queries(cluster: &Cluster, names: &NameTable) -> Result<BTreeSet<String>> {
    let web = "--output=jsonpath={.spec.clusterIP}";
    let web = cluster.kubectl().must(["get", "service", "web", "--namespace=dns", web])?;
    let of_services = [
        "srv=_http._tcp.web.dns.svc.cluster.local.",
        "srv=_sql._tcp.db.dns.svc.cluster.local.",
        "srv=db.dns.svc.cluster.local.",
        "txt=web.dns.svc.cluster.local.",
        "txt=dns-version.cluster.local.",
        "soa=cluster.local.",
    ];
    let of_others = ["txt=www.example.", "mx=www.example.", "cname=alias.example."];
    let absent = ["outside.dns", "idle.dns", "none.dns", "web.none", "db-9.db.dns"];
    let absent = absent.map(|name| format!("{name}.svc.cluster.local"));
    let outside = ["www.example", "four.example", "alias.example", "none.example", "cluster.local"];
    let pod = "10-244-0-9.dns.pod.cluster.local";
    let hosts = names.table.keys().map(String::as_str).chain(absent.iter().map(String::as_str));
    let hosts = hosts.chain(outside).chain([pod]);
    let addresses = hosts.flat_map(|host| [format!("a={host}."), format!("aaaa={host}.")]);
    let others = of_services.into_iter().chain(of_others).map(str::to_owned);
    Ok(addresses.chain(others).chain([format!("ptr={web}")]).collect())
}

/// Returns the addresses that the C library of a pod finds, in a line for each name.
fn resolve(shop: &Namespace<'_>, pod: &str, names: &BTreeSet<String>) -> Result<String> {
    let command = ["/app", "--resolve"].into_iter().chain(names.iter().map(String::as_str));
    shop.exec(pod, "app", &command.collect::<Vec<_>>())
}

/// Returns the sorted lines that `nslookup` prints for each query in a pod.
fn look_up(shop: &Namespace<'_>, pod: &str, queries: &BTreeSet<String>) -> Result<String> {
    let each = "for query; do echo \"== $query\"; \
        busybox nslookup -type=${query%%=*} ${query#*=} 2>&1 | \
        busybox grep -v 'Non-authoritative' | busybox sort -u; done";
    let shell = ["/bin/busybox", "sh", "-c", each, "sh"];
    let command = shell.into_iter().chain(queries.iter().map(String::as_str));
    shop.exec(pod, "app", &command.collect::<Vec<_>>())
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    array(&list["items"])
}

fn array(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn namespace_of(object: &Value) -> &str {
    text(&object["metadata"]["namespace"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn strings(list: &Value) -> Vec<String> {
    array(list).map(|item| text(item).to_owned()).collect()
}

/// The namespaces whose objects stay during the story.
const NAMESPACES: [&str; 4] = ["default", "dns", "dns-other", "kube-system"];
const METRICS: &str = "/stats/prometheus";
