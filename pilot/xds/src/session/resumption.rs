//! Clients that come back with the state of an earlier stream.

use std::collections::BTreeMap;

use super::held::{Entry, Held, Rest};
use super::name::{Name, NameKey, NameRef};
use super::resources::{OfType, Resources};
use super::version::Version;
use super::watch::{Resend, WILDCARD, Watch, state_version};
use crate::type_urls::{CLUSTER, ENDPOINT};

impl Watch {
    /// Takes over the state of an earlier stream if the client subscribes to most clusters or
    /// endpoints, and has most of them in their published version: only what differs costs memory
    /// then, from the start.
    pub(super) fn resume_most<R: Resources>(
        &mut self,
        of: OfType<'_, R>,
        subscribe: &[NameRef<'_>],
        initial: &[(NameRef<'_>, Version)],
    ) -> bool {
        let is_simple = match of.type_url {
            CLUSTER => self.wildcard,
            ENDPOINT => !subscribe.iter().any(|name| name.text() == WILDCARD),
            _ => false,
        };
        let published = of.count();
        if !is_simple || initial.is_empty() || initial.len() * 2 < published {
            return false;
        }
        let rest = Rest { explicit: !self.wildcard, complete: of.type_url != CLUSTER };
        let mut named: Vec<NameRef<'_>> = if self.wildcard {
            initial.iter().map(|(name, _)| *name).collect()
        } else {
            subscribe.to_vec()
        };
        named.sort_unstable();
        named.dedup();
        let mut versions = initial.iter().peekable();
        let (mut same, mut differing) = (0, BTreeMap::new());
        for name in &named {
            while versions.next_if(|(other, _)| other < name).is_some() {}
            let version = versions.next_if(|(other, _)| other == name).map(|(_, version)| *version);
            let entry = Entry { explicit: rest.explicit, ..Entry::default() };
            let entry = Some(entry.resumed(of.type_url, version));
            match of.find(name) {
                Some(found) if entry == rest.entry(found) => same += 1,
                found => {
                    let shared = found.map(|found| found.name.clone());
                    differing.insert(shared.unwrap_or_else(|| (*name).into()), entry);
                }
            }
        }
        if same * 2 < published {
            return false;
        }
        if same < published {
            let is_named = |name: &Name| named.binary_search(&name.as_name()).is_ok();
            let others = of.names().into_iter().filter(|name| !is_named(name));
            differing.extend(others.map(|name| (name, None)));
        }
        let wanted = differing.iter().filter(|(_, entry)| self.wildcard || entry.is_some());
        self.dirty = wanted.map(|(name, _)| (name.clone(), Resend::IfChanged)).collect();
        self.explicit = if self.wildcard { 0 } else { named.len() };
        self.held = Held::differing_from(rest, differing);
        true
    }

    /// Takes over the state of an earlier stream if the client has exactly the current one.
    pub(super) fn resume<R: Resources>(&mut self, of: OfType<'_, R>, version: Version) {
        let all = self.all(of).into_iter();
        let wanted = all.filter_map(|name| Some((name.clone(), self.wanted(of, &name)?)));
        let wanted: BTreeMap<_, _> = wanted.collect();
        if state_version(wanted.iter().map(|(name, found)| (name, found.version))) != version {
            return;
        }
        for (name, found) in wanted {
            self.held.accept(of, name, found.clone(), |entry| entry.told = true);
        }
        self.answered = true;
        self.dirty.clear();
    }
}
