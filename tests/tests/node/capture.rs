//! istio-init and the proxy in pods that were not injected by the webhook.

use anyhow::Result;
use e2e::namespace::name_of;
use e2e::proxy::{Connections, connections};

use crate::fixture::Fixture;

pub(crate) fn manually_written_pod_is_captured(fixture: &Fixture) -> Result<()> {
    let captured = fixture.cluster().namespace("captured", &[])?;
    for (name, command) in [("server", SERVER), ("client", CLIENT)] {
        captured.apply(
            &include_str!("captured.yaml").replace("<pod>", name).replace("<command>", command),
        )?;
        captured.wait_for("condition=Ready", &format!("pod/{name}"))?;
    }
    captured.wait_until_service_answers("server", 80)?;
    let (server, client) = (captured.pod("app=server")?, captured.pod("app=client")?);
    let before = (connections(&client)?, connections(&server)?);

    let page = captured.exec("client", "app", &["wget", "-q", "-O", "-", "http://server/"])?;

    assert_eq!(page, "hello\n");
    let after = (connections(&client)?, connections(&server)?);
    assert_eq!(after.0, Connections { outbound: before.0.outbound + 1, ..before.0 });
    assert_eq!(after.1, Connections { inbound: before.1.inbound + 1, ..before.1 });
    let log = captured.logs(name_of(&server), "istio-init")?;
    assert!(!log.contains("error"), "{log}");
    captured.delete()
}

const SERVER: &str =
    "mkdir /tmp/www; echo hello >/tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www";
const CLIENT: &str = "trap exit TERM; sleep infinity & wait";
