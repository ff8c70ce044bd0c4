//! State of the mesh and of the connected proxies.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use pilot_registry::changes::Changes;
use pilot_registry::event::{Event, ObjectKey};
use pilot_registry::index::Index;
use pilot_routing::authorization_policy::{AuthorizationPolicies, AuthorizationPolicy};
use pilot_routing::peer_authentication::{
    Ineffective, PeerAuthentication, PeerAuthentications, without_effect,
};
use pilot_routing::view::{MeshView, ProxyView};

use super::cause::Cause;
use super::view_key::{ViewKey, is_by_place};
use crate::resources::{EncodedResources, MeshState, Outbound, OwnResources, Published};

/// Change of the mesh.
#[derive(Clone, Debug)]
pub enum Input {
    /// Objects of the registry.
    Registry(Box<Event>),
    /// All policies of mutual TLS.
    PeerAuthentications(Vec<PeerAuthentication>),
    /// All policies about callers that are not enforced.
    AuthorizationPolicies(Vec<AuthorizationPolicy>),
    /// Settings of the mesh.
    Mesh(MeshView),
}

/// Number of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxyId(pub u64);

/// State of the mesh and of the connected proxies. Inputs are collected until
/// [`Publisher::publish`].
#[derive(Debug)]
pub struct Publisher {
    index: Index,
    mesh: Option<Arc<MeshView>>,
    policies: Option<Vec<PeerAuthentication>>,
    authorization: Option<Arc<AuthorizationPolicies>>,
    /// The last published state; `None` until everything was listed.
    state: Option<MeshState>,
    pending: Pending,
    by_place: bool,
    entries: EncodedResources,
    views: HashMap<ViewKey, View>,
    last_view: u64,
    proxies: BTreeMap<ProxyId, Proxy>,
}

#[derive(Debug, Default)]
struct Pending {
    registry: Changes,
    policies: bool,
    authorization: bool,
    mesh: bool,
}

#[derive(Debug)]
struct View {
    number: u64,
    outbound: Arc<Outbound>,
}

#[derive(Debug)]
struct Proxy {
    view: ProxyView,
    /// Key of its view; `None` until everything was listed.
    key: Option<ViewKey>,
    published: Published,
}

impl Publisher {
    /// Creates the state before any input.
    pub fn new() -> Self {
        Self {
            index: Index::default(),
            mesh: None,
            policies: None,
            authorization: None,
            state: None,
            pending: Pending::default(),
            by_place: false,
            entries: EncodedResources::default(),
            views: HashMap::new(),
            last_view: 0,
            proxies: BTreeMap::new(),
        }
    }

    /// Takes a change.
    pub fn apply(&mut self, input: Input) {
        match input {
            Input::Registry(event) => {
                let changes = self.index.apply(*event);
                self.pending.registry.extend(changes);
            }
            Input::PeerAuthentications(policies) => {
                self.pending.policies |= self.policies.as_ref() != Some(&policies);
                self.policies = Some(policies);
            }
            Input::AuthorizationPolicies(policies) => {
                let policies = AuthorizationPolicies::new(policies);
                self.pending.authorization |= self.authorization.as_deref() != Some(&policies);
                self.authorization = Some(Arc::new(policies));
            }
            Input::Mesh(mesh) => {
                self.pending.mesh |= self.mesh.as_deref() != Some(&mesh);
                self.mesh = Some(Arc::new(mesh));
            }
        }
    }

    /// The published state of the mesh; `None` until objects and settings were listed.
    pub fn state(&self) -> Option<&MeshState> {
        self.state.as_ref()
    }

    /// Objects of the registry.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Policies of mutual TLS.
    pub fn policies(&self) -> &[PeerAuthentication] {
        self.policies.as_deref().unwrap_or_default()
    }

    /// Policies, and parts of them, that decide nothing in the published state.
    pub fn ineffective_policies(&self) -> Vec<Ineffective> {
        let Some(state) = &self.state else { return Vec::new() };
        let root_namespace = &state.mesh.root_namespace;
        without_effect(self.policies(), &state.policies, root_namespace, &state.snapshot)
    }

    /// Changes that the next publication will have.
    pub fn pending(&self) -> Cause {
        let Pending { registry, policies, authorization, mesh } = &self.pending;
        let settings = [
            ("PeerAuthentications", "config", *policies),
            ("AuthorizationPolicies", "config", *authorization),
            ("MeshConfig", "global", *mesh),
        ];
        Cause::new(registry, &settings)
    }

    /// Publishes the changes. Returns the new states of the proxies that they concern.
    pub fn publish(&mut self) -> Vec<(ProxyId, Published)> {
        let (Some(mesh), Some(policies), Some(authorization)) =
            (&self.mesh, &self.policies, &self.authorization)
        else {
            return Vec::new();
        };
        if !self.index.is_listed() {
            return Vec::new();
        }
        let Pending {
            registry,
            policies: changed_policies,
            authorization: changed_authorization,
            mesh: changed_mesh,
        } = std::mem::take(&mut self.pending);
        let settings = changed_policies || changed_mesh;
        let before = self.state.take();
        let policies = match &before {
            Some(before) if !settings => Arc::clone(&before.policies),
            _ => Arc::new(PeerAuthentications::new(&mesh.root_namespace, policies.clone())),
        };
        let state = MeshState {
            snapshot: self.index.snapshot(),
            mesh: Arc::clone(mesh),
            policies,
            authorization: Arc::clone(authorization),
        };
        let mut all = settings || changed_authorization || before.is_none();
        if before.is_none() || !registry.services.is_empty() {
            let by_place = is_by_place(&state.snapshot);
            all |= std::mem::replace(&mut self.by_place, by_place) != by_place;
        }
        for (key, view) in &mut self.views {
            let mut outbound = Outbound::clone(&view.outbound);
            if settings {
                outbound.rebuild(&state, &key.proxy, &mut self.entries);
            } else {
                outbound.update(&state, &key.proxy, &registry, &mut self.entries);
            }
            if !outbound.is_same(&view.outbound) {
                view.outbound = Arc::new(outbound);
            }
        }
        let affected = Affected::new(before.as_ref(), &state, &registry, all);
        self.state = Some(state);
        self.refresh(&affected)
    }

    /// Brings the proxies to the current state. Returns those that changed.
    fn refresh(&mut self, affected: &Affected<'_>) -> Vec<(ProxyId, Published)> {
        let ids: Vec<_> = self.proxies.keys().copied().collect();
        let mut changed = Vec::new();
        for id in ids {
            let Some(mut proxy) = self.proxies.remove(&id) else { continue };
            let is_affected = self.state.as_ref().is_some_and(|it| affected.includes(it, &proxy));
            let published = if is_affected {
                let (key, published) = self.resolve(&proxy.view, Some(&proxy.published));
                proxy.key = key;
                published
            } else {
                let view = proxy.key.as_ref().and_then(|key| self.views.get(key));
                let outbound = view.map(|view| Arc::clone(&view.outbound));
                let outbound = outbound.unwrap_or_default();
                Published { outbound, ..proxy.published.clone() }
            };
            if !published.is_same(&proxy.published) {
                proxy.published = published.clone();
                changed.push((id, published));
            }
            self.proxies.insert(id, proxy);
        }
        self.drop_unused_views();
        changed
    }

    /// Adds a proxy. Returns its state, which is empty before anything was listed.
    pub fn connect(&mut self, id: ProxyId, view: ProxyView) -> Published {
        let (key, published) = self.resolve(&view, None);
        self.proxies.insert(id, Proxy { view, key, published: published.clone() });
        published
    }

    /// Removes a proxy.
    pub fn disconnect(&mut self, id: ProxyId) {
        self.proxies.remove(&id);
        self.drop_unused_views();
    }

    /// View of a connected proxy.
    pub fn proxy(&self, id: ProxyId) -> Option<&ProxyView> {
        self.proxies.get(&id).map(|proxy| &proxy.view)
    }

    /// Views and published states of the connected proxies.
    pub fn proxies(&self) -> impl Iterator<Item = (ProxyId, &ProxyView, &Published)> {
        self.proxies.iter().map(|(id, proxy)| (*id, &proxy.view, &proxy.published))
    }

    /// Number of different views.
    pub fn views(&self) -> usize {
        self.views.len()
    }

    /// Finds or generates the resources of a proxy.
    fn resolve(
        &mut self,
        proxy: &ProxyView,
        before: Option<&Published>,
    ) -> (Option<ViewKey>, Published) {
        let Some(state) = &self.state else { return (None, Published::default()) };
        let key = ViewKey::new(state, proxy, self.by_place);
        let view = self.views.entry(key.clone()).or_insert_with(|| {
            let mut outbound = Outbound::default();
            outbound.rebuild(state, &key.proxy, &mut self.entries);
            self.last_view += 1;
            View { number: self.last_view, outbound: Arc::new(outbound) }
        });
        let own = OwnResources::new(state, proxy, &mut self.entries);
        let own = match before {
            Some(before) if before.own.is_same(&own) => Arc::clone(&before.own),
            _ => Arc::new(own),
        };
        let (outbound, view) = (Arc::clone(&view.outbound), view.number);
        (Some(key), Published { outbound, view, own })
    }

    fn drop_unused_views(&mut self) {
        let used: BTreeSet<u64> = self.proxies.values().map(|it| it.published.view).collect();
        self.views.retain(|_, view| used.contains(&view.number));
    }
}

impl Default for Publisher {
    fn default() -> Self {
        Self::new()
    }
}

/// Proxies whose own resources or whose view may have changed.
struct Affected<'a> {
    all: bool,
    changes: &'a Changes,
    /// Namespaces of changed services.
    namespaces: BTreeSet<Arc<str>>,
}

impl<'a> Affected<'a> {
    fn new(before: Option<&MeshState>, after: &MeshState, changes: &'a Changes, all: bool) -> Self {
        let states = before.into_iter().chain([after]);
        let services = states.flat_map(|state| {
            changes.services.iter().filter_map(|hostname| state.snapshot.service(hostname))
        });
        let namespaces = services.map(|service| service.namespace.clone()).collect();
        Self { all, changes, namespaces }
    }

    fn includes(&self, state: &MeshState, proxy: &Proxy) -> bool {
        let ProxyView { namespace, pod, .. } = &proxy.view;
        let workloads = &self.changes.workloads;
        // A pod that is not known by its name is found by its address, whoever had that before.
        let is_unknown = || state.snapshot.workload(namespace, pod).is_none();
        self.all
            || self.namespaces.contains(namespace)
            || workloads.contains(&ObjectKey::new(namespace.clone(), pod.clone()))
            || (!workloads.is_empty() && is_unknown())
    }
}
