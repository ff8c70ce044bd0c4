//! Messages about the webhook configurations of injectors.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::cluster_state::ClusterState;
use super::message::{Level, Message, MessageKind, MessageOrigin};
use super::overlaps::overlapping_entries;
use crate::kubernetes::webhook_configuration::Hook;

/// Returns the messages about webhooks that are invalid, overlap, or call a Service that does not
/// exist.
pub(super) fn overlaps_and_services(state: &ClusterState<'_>) -> Vec<Message> {
    let invalid = state.invalid_webhooks.iter();
    let invalid = invalid
        .map(|error| Message::new(&INVALID, &origin(state, &error.name), error.problem.clone()));
    let mut messages: Vec<_> = invalid.collect();
    messages.extend(overlaps(state));
    for configuration in state.injectors.configurations {
        let services: BTreeSet<_> = configuration.hooks.iter().filter_map(Hook::service).collect();
        let absent = services.into_iter().filter(|(namespace, name)| {
            !state.services.contains(&((*namespace).to_owned(), (*name).to_owned()))
        });
        messages.extend(absent.map(|(namespace, name)| {
            let text = format!(
                "Injector refers to a control plane service that does not exist: \
                 {name}.{namespace}."
            );
            Message::new(&INVALID, &origin(state, &configuration.name), text)
        }));
    }
    messages
}

/// Returns one message for each webhook configuration that overlaps with others.
fn overlaps(state: &ClusterState<'_>) -> Vec<Message> {
    let message = |(name, others): (&str, BTreeSet<String>)| {
        let others: Vec<_> = others.into_iter().collect();
        let text = format!(
            "Webhook overlaps with others: [{}]. This may cause injection to occur twice.",
            others.join(" ")
        );
        Message::new(&INVALID, &origin(state, name), text)
    };
    overlapping_entries(state.injectors.configurations).into_iter().map(message).collect()
}

/// Returns the messages about URLs of webhooks whose host is an address, absent, or unknown to DNS.
pub(super) fn urls(state: &ClusterState<'_>) -> Vec<Message> {
    let mut messages = Vec::new();
    for configuration in state.injectors.configurations {
        let hooks = configuration.hooks.iter().filter_map(|hook| Some((hook.url_host()?, hook)));
        // All entries of a configuration usually have one URL.
        let hosts: BTreeMap<_, _> = hooks.collect::<Vec<_>>().into_iter().rev().collect();
        for (host, Hook { name, .. }) in hosts {
            let origin = origin(state, &configuration.name);
            let invalid = |problem: &str| {
                format!(
                    "The hostname ({host}) that was provided for the webhook ({name}) to reach the \
                     ingress gateway on the external control plane cluster {problem}. Traffic may \
                     not flow properly."
                )
            };
            if host.is_empty() {
                messages.push(Message::new(&HOST, &origin, invalid("is blank")));
            } else if host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
                let text = format!(
                    "The address ({host}) that was provided for the webhook ({name}) to reach the \
                     ingress gateway on the external control plane cluster is not a hostname."
                );
                messages.push(Message::new(&ADDRESS, &origin, text));
            } else if let Some(error) = state.unresolved.get(host) {
                let problem = format!("cannot be resolved via a DNS lookup: {error}");
                messages.push(Message::new(&HOST, &origin, invalid(&problem)));
            }
        }
    }
    messages
}

fn origin(state: &ClusterState<'_>, name: &str) -> MessageOrigin {
    let of_cluster = || MessageOrigin {
        kind: "MutatingWebhookConfiguration".to_owned(),
        name: name.to_owned(),
        ..MessageOrigin::default()
    };
    state.webhooks.get(name).cloned().unwrap_or_else(of_cluster)
}

static INVALID: MessageKind = MessageKind { code: "IST0139", level: Level::Error };
static HOST: MessageKind = MessageKind { code: "IST0163", level: Level::Warning };
static ADDRESS: MessageKind = MessageKind { code: "IST0164", level: Level::Info };
