//! Values for tests of decisions, shared with `tests/rotation`.

use jiff::{SignedDuration, Timestamp};

use crate::authority::{Authority, Entropy, Lifetime};
use crate::bundle::Bundle;
use crate::options::Parameters;
use crate::rotation::{Configuration, Entry};
use crate::server_names::ServerNames;

pub(crate) fn at(hour: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50 + hour)
}

pub(crate) fn authority(generation: u64, hour: i64) -> Authority {
    let lifetime = Lifetime::starting(at(hour), Parameters::default().authority_lifetime);
    Authority::create("test", generation, lifetime, Entropy::draw().unwrap()).unwrap()
}

pub(crate) fn names() -> ServerNames {
    ServerNames::parse(["test.test.svc"]).unwrap()
}

pub(crate) fn configuration(bundle: &Bundle) -> Configuration {
    Configuration {
        name: "hook".to_owned(),
        uid: "1".to_owned(),
        resource_version: "1".to_owned(),
        generation: 1,
        published_at: None,
        entries: ["one", "two"]
            .map(|name| Entry { name: name.to_owned(), bundle: bundle.clone() })
            .into(),
        others: Vec::new(),
    }
}
