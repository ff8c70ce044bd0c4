//! Readiness with a real Envoy.

use e2e::wait;
use pilot_agent::health::Part;

use crate::agent::{Agent, Settings};
use crate::client::get;
use crate::envoy::Envoy;

#[test]
fn rejected_configuration_is_the_reason_until_accepted() {
    let envoy = Envoy::start();
    let agent = Agent::start(Settings { admin: Some(envoy.admin), ..Settings::default() });
    let ready = || get(agent.address(), "/healthz/ready", "");
    let rejected = "Envoy received configuration and rejected it (CDS; ";
    wait::until("the rejection is reported", || {
        let answer = ready();
        let found = answer.status == 503 && answer.body.contains(rejected);
        if found { Ok(()) } else { Err(answer.body) }
    })
    .unwrap();
    envoy.accept_clusters();
    wait::until("the agent is ready", || {
        let answer = ready();
        if answer.status == 200 { Ok(()) } else { Err(answer.body) }
    })
    .unwrap();

    agent.health.set(Part::ControlPlane, "disconnected from istiod.istio-system.svc:15012");
    let answer = ready();
    assert_eq!(answer.status, 200);
    let expected = "ready\ncontrol plane: disconnected from istiod.istio-system.svc:15012\n";
    assert_eq!(answer.body, expected);

    // A hot restart, after which Envoy is asked again.
    agent.epoch.send_replace(None);
    assert_eq!(ready().status, 503);
    agent.epoch.send_replace(Some(1));
    assert_eq!(ready().status, 200);
    drop(envoy);
    assert_eq!(ready().status, 200, "met conditions hold while the epoch serves");
    agent.epoch.send_replace(Some(2));
    let answer = ready();
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("does not accept connections"), "{}", answer.body);
}

#[test]
fn missing_name_table_is_the_reason_beside_envoy() {
    let envoy = Envoy::start();
    envoy.accept_clusters();
    let admin = Some(envoy.admin);
    for (names, status) in [(Some(true), 200), (Some(false), 503), (None, 200)] {
        let agent = Agent::start(Settings { admin, names, ..Settings::default() });
        wait::until("Envoy is ready", || {
            let answer = get(agent.address(), "/healthz/ready", "");
            let names_alone = answer.body.contains("waits for the first name table");
            let found = answer.status == status && (status == 200 || names_alone);
            if found { Ok(()) } else { Err(answer.body) }
        })
        .unwrap();
        let agent = Agent::start(Settings { names, ..Settings::default() });
        assert_eq!(get(agent.address(), "/healthz/ready", "").status, 200);
    }
}
