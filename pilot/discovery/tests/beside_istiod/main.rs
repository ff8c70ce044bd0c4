//! The program and Istio's own control plane, from the directory in `ISTIO_PROGRAMS`, on one API
//! server: what both send to the same proxies.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod client;
mod differences;
mod facts;
mod fixture;
mod objects;

use std::collections::BTreeSet;

use differences::{DIFFERENCES, Sender};
use fixture::Fixture;

#[test]
fn proxies_get_what_istiod_sends() {
    let Some(fixture) = Fixture::start().unwrap() else { return };
    let mut stated = BTreeSet::new();
    for proxy in &client::proxies() {
        fixture.compare(proxy, "cluster BlackHoleCluster: Static RoundRobin", &mut stated);
    }
    fixture.settings(OTHER_SETTINGS);
    for proxy in &client::proxies()[..1] {
        fixture.compare(proxy, "listener virtualInbound: logs rejections", &mut stated);
    }
    let is_seen = |sender: Sender, what: &str| stated.contains(&(sender, what.to_owned()));
    let unseen = DIFFERENCES.iter().filter(|it| !is_seen(it.sender, it.what));
    let unseen: Vec<_> = unseen.map(|it| (it.sender, it.what)).collect();
    assert!(unseen.is_empty(), "stated, but not seen: {unseen:?}");
}

const OTHER_SETTINGS: &str = "defaultConfig: {discoveryAddress: 'istiod.istio-system.svc:15012'}\n\
    outboundTrafficPolicy: {mode: REGISTRY_ONLY}\naccessLogFile: /dev/stdout\n\
    trustDomainAliases: [old.example]\ninboundTrafficPolicy: {mode: LOCALHOST}\n";
