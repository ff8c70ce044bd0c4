//! Objects of files.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::event::ObjectKey;
use crate::namespace::Namespace;
use crate::node::Node;
use crate::pod::Pod;
use crate::service::Service;
use crate::slice::Slice;

/// Objects of a file or of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileObjects {
    /// Services.
    pub services: BTreeMap<ObjectKey, Service>,
    /// Slices.
    pub slices: BTreeMap<ObjectKey, Slice>,
    /// Pods.
    pub pods: BTreeMap<ObjectKey, Pod>,
    /// Nodes.
    pub nodes: BTreeMap<ObjectKey, Node>,
    /// Namespaces.
    pub namespaces: BTreeMap<ObjectKey, Namespace>,
    /// Objects of Istio by kind, which are no part of the services model.
    pub istio: BTreeMap<(String, ObjectKey), Value>,
}

impl FileObjects {
    /// Adds objects that are not yet there. Returns kind and name of those that are.
    pub(super) fn add(&mut self, other: &Self) -> Vec<(String, ObjectKey)> {
        let mut known = Vec::new();
        add("Service", &mut self.services, &other.services, &mut known);
        add("EndpointSlice", &mut self.slices, &other.slices, &mut known);
        add("Pod", &mut self.pods, &other.pods, &mut known);
        add("Node", &mut self.nodes, &other.nodes, &mut known);
        add("Namespace", &mut self.namespaces, &other.namespaces, &mut known);
        for (name, object) in &other.istio {
            if self.istio.contains_key(name) {
                known.push(name.clone());
            } else {
                self.istio.insert(name.clone(), object.clone());
            }
        }
        known
    }
}

fn add<T: Clone>(
    kind: &'static str,
    objects: &mut BTreeMap<ObjectKey, T>,
    others: &BTreeMap<ObjectKey, T>,
    known: &mut Vec<(String, ObjectKey)>,
) {
    for (key, object) in others {
        if objects.contains_key(key) {
            known.push((kind.to_owned(), key.clone()));
        } else {
            objects.insert(key.clone(), object.clone());
        }
    }
}
