//! Name table of the control plane in a compact form.

use std::net::IpAddr;

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

/// Name table, sorted by host. All texts share one buffer, all addresses another, so that ten
/// thousand hosts take about a megabyte.
#[derive(Debug, Default)]
pub struct Table {
    hosts: Vec<Host>,
    texts: String,
    addresses: Vec<IpAddr>,
    registries: Vec<String>,
}

/// Entry of a name table as the control plane sends it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Entry<'a> {
    /// Host: a full name without a dot at its end, or `*.` and the rest of a name.
    pub host: &'a str,
    /// Addresses.
    pub ips: &'a [String],
    /// Registry of the host, such as `Kubernetes` or `External`.
    pub registry: &'a str,
    /// Name of the Service, if the host belongs to one.
    pub shortname: &'a str,
    /// Namespace of the Service, if the host belongs to one.
    pub namespace: &'a str,
}

/// Domain of the proxy, which has short names for its Services.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ServiceDomain {
    namespace: String,
    /// `svc.cluster.local`.
    services: String,
}

#[derive(Debug)]
struct Host {
    name: Span,
    shortname: Span,
    namespace: Span,
    addresses: Span,
    registry: u32,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    length: u32,
}

impl Table {
    /// Returns the table of these entries. Of two entries with one host, the last counts. Invalid
    /// addresses are left out.
    pub fn new<'a>(entries: impl IntoIterator<Item = Entry<'a>>) -> Self {
        let mut table = Self::default();
        for entry in entries {
            table.push(&entry);
        }
        table.texts.shrink_to_fit();
        table.addresses.shrink_to_fit();
        let texts = &table.texts;
        table.hosts.reverse();
        table.hosts.sort_by(|one, other| one.name.text(texts).cmp(other.name.text(texts)));
        table.hosts.dedup_by(|next, kept| next.name.text(texts) == kept.name.text(texts));
        table.hosts.shrink_to_fit();
        table
    }

    /// Returns the number of hosts.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// True if the table has no hosts.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Returns the addresses of a host. A host without any is unknown: the name server of the
    /// cluster may know more. The name is in lower case, without a dot at its end.
    pub fn host(&self, name: &str) -> Option<&[IpAddr]> {
        self.find(name).map(|host| self.addresses_of(host))
    }

    /// Returns the addresses of a host, or of the Service in this domain with this short name:
    /// `NAME.NAMESPACE.svc`, `NAME.NAMESPACE`, or `NAME` in the proxy's namespace.
    pub fn name(&self, name: &str, domain: &ServiceDomain) -> Option<&[IpAddr]> {
        self.host(name).or_else(|| {
            let full_names = domain.full_names(name);
            let known = |full: &String| self.find(full).filter(|host| self.is_short(host, name));
            full_names.iter().find_map(known).map(|host| self.addresses_of(host))
        })
    }

    fn push(&mut self, entry: &Entry<'_>) {
        let start = offset(self.addresses.len());
        self.addresses.extend(entry.ips.iter().filter_map(|ip| ip.parse::<IpAddr>().ok()));
        let addresses = Span { start, length: offset(self.addresses.len()) - start };
        let name = self.text(entry.host.trim_end_matches('.').to_ascii_lowercase().as_str());
        let shortname = self.part(name, &entry.shortname.to_ascii_lowercase());
        let namespace = self.part(name, &entry.namespace.to_ascii_lowercase());
        let known = self.registries.iter().position(|registry| registry == entry.registry);
        let registry = known.unwrap_or_else(|| {
            self.registries.push(entry.registry.to_owned());
            self.registries.len() - 1
        });
        let registry = offset(registry);
        self.hosts.push(Host { name, shortname, namespace, addresses, registry });
    }

    fn text(&mut self, text: &str) -> Span {
        let start = offset(self.texts.len());
        self.texts.push_str(text);
        Span { start, length: offset(text.len()) }
    }

    /// Stores a text that is usually a part of the name.
    fn part(&mut self, name: Span, part: &str) -> Span {
        match name.text(&self.texts).find(part) {
            Some(at) => Span { start: name.start + offset(at), length: offset(part.len()) },
            None => self.text(part),
        }
    }

    fn find(&self, name: &str) -> Option<&Host> {
        let by_name = |host: &Host| host.name.text(&self.texts).cmp(name);
        let host = &self.hosts[self.hosts.binary_search_by(by_name).ok()?];
        (host.addresses.length > 0).then_some(host)
    }

    fn addresses_of(&self, host: &Host) -> &[IpAddr] {
        let start = host.addresses.start as usize;
        &self.addresses[start..start + host.addresses.length as usize]
    }

    /// True if a name of this Service without its domain is `name`.
    fn is_short(&self, host: &Host, name: &str) -> bool {
        let [shortname, namespace] = [host.shortname, host.namespace].map(|s| s.text(&self.texts));
        let rest = name.strip_prefix(shortname);
        let rest = rest.map(|rest| rest.strip_suffix(".svc").unwrap_or(rest));
        self.registries[host.registry as usize] == KUBERNETES
            && rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('.') == Some(namespace))
    }
}

impl ServiceDomain {
    /// Returns the domain of a proxy: `NAMESPACE.svc.cluster.local`, or the same without the
    /// namespace, or without `svc` either.
    pub fn new(domain: &str, namespace: &str) -> Self {
        let domain = domain.trim_end_matches('.').to_ascii_lowercase();
        let namespace = namespace.to_ascii_lowercase();
        let rest = domain.strip_prefix(&namespace).and_then(|rest| rest.strip_prefix('.'));
        let rest = rest.unwrap_or(&domain);
        let is_of_services = rest.is_empty() || rest == "svc" || rest.starts_with("svc.");
        let services = if is_of_services { rest.to_owned() } else { format!("svc.{rest}") };
        Self { namespace, services }
    }

    /// Returns the full names that a name may be short for, in the order of a pod's search domains.
    fn full_names(&self, name: &str) -> Vec<String> {
        let Self { namespace, services } = self;
        if services.is_empty() {
            return Vec::new();
        }
        let mut names =
            vec![format!("{name}.{namespace}.{services}"), format!("{name}.{services}")];
        let without_svc = name.strip_suffix(".svc");
        names.extend(without_svc.map(|rest| format!("{rest}.{services}")));
        names
    }
}

impl Span {
    fn text(self, texts: &str) -> &str {
        let start = self.start as usize;
        &texts[start..start + self.length as usize]
    }
}

/// The shape of the control plane's message.
impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = serializer.serialize_struct("NameTable", 1)?;
        table.serialize_field("table", &Hosts(self))?;
        table.end()
    }
}

struct Hosts<'a>(&'a Table);

impl Serialize for Hosts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let table = self.0;
        let mut map = serializer.serialize_map(Some(table.hosts.len()))?;
        for host in &table.hosts {
            map.serialize_entry(host.name.text(&table.texts), &HostInfo { table, host })?;
        }
        map.end()
    }
}

struct HostInfo<'a> {
    table: &'a Table,
    host: &'a Host,
}

impl Serialize for HostInfo<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { table, host } = self;
        let mut info = serializer.serialize_struct("NameInfo", 4)?;
        info.serialize_field("ips", table.addresses_of(host))?;
        info.serialize_field("registry", &table.registries[host.registry as usize])?;
        for (key, span) in [("shortname", host.shortname), ("namespace", host.namespace)] {
            match span.text(&table.texts) {
                "" => info.skip_field(key)?,
                text => info.serialize_field(key, text)?,
            }
        }
        info.end()
    }
}

/// Returns a length as it is stored. A message of four gigabytes cannot arrive.
fn offset(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

const KUBERNETES: &str = "Kubernetes";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_written_in_the_form_of_the_message() {
        let ips = ["10.0.0.1", "fd00::1", "10.0.0.0/8"].map(str::to_owned);
        let service = Entry {
            host: "Web.shop.svc.cluster.local",
            ips: &ips,
            registry: "Kubernetes",
            shortname: "Web",
            namespace: "shop",
        };
        let other = Entry { host: "example.com", registry: "External", ..Entry::default() };
        let table = Table::new([service.clone(), other, Entry { ips: &ips[..1], ..service }]);
        assert_eq!(table.len(), 2);
        let expected = serde_json::json!({"table": {
            "example.com": {"ips": [], "registry": "External"},
            "web.shop.svc.cluster.local": {
                "ips": ["10.0.0.1"],
                "registry": "Kubernetes",
                "shortname": "web",
                "namespace": "shop",
            },
        }});
        assert_eq!(serde_json::to_value(&table).unwrap(), expected);
    }

    #[test]
    fn services_of_the_domain_have_short_names() {
        let ips = ["10.0.0.1".to_owned()];
        let entry = Entry {
            host: "web.shop.svc.cluster.local",
            ips: &ips,
            registry: KUBERNETES,
            shortname: "web",
            namespace: "shop",
        };
        let table = Table::new([entry]);
        for (domain, namespace, names, others) in [
            ("shop.svc.cluster.local", "shop", &["web", "web.shop", "web.shop.svc"][..], &[][..]),
            ("Shop.svc.cluster.local.", "Shop", &["web", "web.shop.svc"], &["web.svc"]),
            ("svc.cluster.local", "shop", &["web", "web.shop.svc"], &[]),
            ("cluster.local", "shop", &["web", "web.shop", "web.shop.svc"], &[]),
            ("data.svc.cluster.local", "data", &["web.shop", "web.shop.svc"], &["web", "web.data"]),
            ("shop.svc.other", "shop", &[], &["web", "web.shop", "web.shop.svc"]),
            ("", "shop", &[], &["web", "web.shop", "web.shop.svc"]),
        ] {
            let domain = ServiceDomain::new(domain, namespace);
            let knows = |name: &&str| table.name(name, &domain).is_some();
            assert!(names.iter().all(knows) && !others.iter().any(knows), "{domain:?}");
            assert!(knows(&"web.shop.svc.cluster.local"));
        }
    }

    #[test]
    fn ten_thousand_services_take_about_a_megabyte() {
        let names: Vec<_> = (0..10_000)
            .map(|n| (format!("service-{n}"), format!("namespace-{}", n % 100)))
            .collect();
        let hosts: Vec<_> =
            names.iter().map(|(name, space)| format!("{name}.{space}.svc.cluster.local")).collect();
        let ips = ["10.96.123.123".to_owned()];
        let entries = names.iter().zip(&hosts).map(|((shortname, namespace), host)| Entry {
            host,
            ips: &ips,
            registry: KUBERNETES,
            shortname,
            namespace,
        });
        let table = Table::new(entries);
        let size = table.hosts.capacity() * size_of::<Host>()
            + table.texts.capacity()
            + table.addresses.capacity() * size_of::<IpAddr>();
        assert!(size < 1_100_000, "{size} bytes");
    }
}
