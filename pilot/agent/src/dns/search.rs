//! Lookup of a queried name: short names, search domains, wildcards.

use std::net::IpAddr;

use super::table::{ServiceDomain, Table};

/// Rules that map names to hosts of the table.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NameRules {
    /// Domain of the proxy.
    pub domain: ServiceDomain,
    /// First search domain of the pod, in lower case, without a dot at its end.
    pub search: Option<String>,
}

/// Host that a name stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found<'a> {
    /// Addresses of both families.
    pub addresses: &'a [IpAddr],
    /// Number of leading labels that are the host's name, if the rest is the search domain.
    pub expanded_from: Option<usize>,
}

impl NameRules {
    /// Returns the host of a name. The name is in lower case, without a dot at its end.
    ///
    /// A resolver appends search domains to `example.com` before it tries the name itself, so
    /// `example.com.shop.svc.cluster.local` stands for `example.com`.
    pub fn find<'a>(&self, table: &'a Table, name: &str) -> Option<Found<'a>> {
        let direct = |addresses| Found { addresses, expanded_from: None };
        let unexpanded = self.without_search(name);
        let expanded = |addresses| Found { addresses, expanded_from: unexpanded.map(labels) };
        table
            .name(name, &self.domain)
            .map(direct)
            .or_else(|| unexpanded.and_then(|name| table.name(name, &self.domain)).map(expanded))
            .or_else(|| {
                parents(name).find_map(|parent| {
                    let wildcard = |parent| table.host(&format!("*.{parent}"));
                    let unexpanded = self.without_search(parent);
                    wildcard(parent)
                        .map(direct)
                        .or_else(|| unexpanded.and_then(wildcard).map(expanded))
                })
            })
    }

    fn without_search<'n>(&self, name: &'n str) -> Option<&'n str> {
        let search = self.search.as_deref()?;
        name.strip_suffix(search)?.strip_suffix('.').filter(|rest| !rest.is_empty())
    }
}

/// Returns the name without its first label, without its first two, and so on.
fn parents(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| name.split_once('.').map(|(_, parent)| parent)).skip(1)
}

fn labels(name: &str) -> usize {
    name.split('.').count()
}
