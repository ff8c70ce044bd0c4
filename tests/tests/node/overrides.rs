//! User settings of the proxy: in a user-supplied container, and by annotations.

use anyhow::Result;
use e2e::namespace::Namespace;
use serde_json::{Value, json};

use crate::app_pod::{app, auto_proxy, pod, proxy_of, variable};
use crate::fixture::Fixture;

pub(crate) fn user_supplied_proxy_fields_take_effect(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let shop = cluster.namespace("overrides", &["istio-injection=enabled"])?;
    let classic = json!({ "sidecar.istio.io/nativeSidecar": "false" });
    let pods = [
        pod("classic", &classic, &json!({ "containers": [application(), own_proxy()] })),
        // Users also write the proxy here when it becomes an init container.
        pod("native", &json!({}), &json!({ "containers": [application(), own_proxy()] })),
        pod(
            "init",
            &json!({}),
            &json!({ "initContainers": [own_proxy()], "containers": [application()] }),
        ),
        pod("annotated", &annotations(), &json!({ "containers": [application()] })),
    ];
    for pod in &pods {
        shop.apply(&pod.to_string())?;
    }
    for pod in ["classic", "native", "init", "annotated"] {
        shop.wait_for("condition=Ready", &format!("pod/{pod}"))?;
    }
    for (name, list) in
        [("classic", "containers"), ("native", "initContainers"), ("init", "initContainers")]
    {
        expect_own_proxy(&shop, name, list)?;
    }
    expect_annotated(&shop)?;
    shop.delete()
}

fn application() -> Value {
    app("app", &["--http=8080"])
}

pub(crate) fn own_proxy() -> Value {
    let mut proxy = auto_proxy();
    proxy["args"] =
        json!(["proxy", "sidecar", "--proxyLogLevel=info", "--log_output_level=default:debug"]);
    proxy["env"] =
        json!([{ "name": "MINE", "value": "yes" }, { "name": "TRUST_DOMAIN", "value": "mine" }]);
    proxy["resources"] = json!({ "requests": { "cpu": "7m" }, "limits": { "cpu": "1500m" } });
    proxy
}

fn expect_own_proxy(shop: &Namespace<'_>, name: &str, list: &str) -> Result<()> {
    let injected = shop.get(&format!("pod/{name}"))?;
    let proxies = ["containers", "initContainers"].map(|list| {
        let containers = injected["spec"][list].as_array().into_iter().flatten();
        containers.filter(|container| container["name"] == "istio-proxy").count()
    });
    let expected = if list == "containers" { [1, 0] } else { [0, 1] };
    assert_eq!(proxies, expected, "{name}");
    let proxy = proxy_of(&injected)?;
    assert_eq!(proxy["image"], "docker.io/istio/proxyv2:1.28.0", "{name}");
    assert_eq!(proxy["resources"]["requests"], json!({ "cpu": "7m", "memory": "128Mi" }), "{name}");
    assert_eq!(proxy["resources"]["limits"], json!({ "cpu": "1500m", "memory": "1Gi" }), "{name}");
    assert_eq!(variable(proxy, "TRUST_DOMAIN")?, "mine", "{name}");

    let environment = in_proxy(shop, name, &["env"])?;
    assert!(environment.lines().any(|line| line == "MINE=yes"), "{name}: {environment}");
    let command = in_proxy(shop, name, &["cat", "/proc/1/cmdline"])?;
    let command: Vec<_> = command.split_terminator('\0').collect();
    assert_eq!(
        command[1..],
        ["proxy", "sidecar", "--proxyLogLevel=info", "--log_output_level=default:debug"]
    );
    Ok(())
}

fn annotations() -> Value {
    let items = json!([{ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }]);
    // In Istio's documented form, with field names in any letter case, as Go accepts them.
    let volumes = json!([
        { "name": "mine", "downwardapi": { "items": items } },
        { "name": "fixed", "emptyDir": {} },
    ]);
    let mounts = json!([
        { "name": "mine", "mountPath": "/etc/mine", "readOnly": true },
        { "name": "fixed", "mountPath": "/etc/fixed", "readonly": true },
    ]);
    json!({
        "proxy.istio.io/config": "concurrency: 1\nproxyMetadata:\n  MINE: \"yes\"\n",
        "sidecar.istio.io/proxyCPU": "11m",
        "sidecar.istio.io/proxyCPULimit": "700m",
        "sidecar.istio.io/proxyMemory": "70Mi",
        "sidecar.istio.io/proxyMemoryLimit": "700Mi",
        "sidecar.istio.io/logLevel": "info",
        "sidecar.istio.io/agentLogLevel": "default:debug",
        "sidecar.istio.io/userVolume": volumes.to_string(),
        "sidecar.istio.io/userVolumeMount": mounts.to_string(),
        "status.sidecar.istio.io/port": "15030",
    })
}

fn expect_annotated(shop: &Namespace<'_>) -> Result<()> {
    let proxy = shop.get("pod/annotated")?;
    let proxy = proxy_of(&proxy)?;
    let resources = json!({
        "requests": { "cpu": "11m", "memory": "70Mi" },
        "limits": { "cpu": "700m", "memory": "700Mi" },
    });
    assert_eq!(proxy["resources"], resources);
    assert_eq!(in_proxy(shop, "annotated", &["cat", "/etc/mine/name"])?, "annotated");
    let mounts = in_proxy(shop, "annotated", &["cat", "/proc/mounts"])?;
    let fixed =
        mounts.lines().find_map(|line| line.split_once(" /etc/fixed ")).map(|(_, line)| line);
    let options = fixed.and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    assert!(options.split(',').any(|option| option == "ro"), "{mounts}");
    let environment = in_proxy(shop, "annotated", &["env"])?;
    assert!(environment.lines().any(|line| line == "MINE=yes"), "{environment}");
    // The agent has another port, and the drain hook uses it.
    let ready = "http://127.0.0.1:15030/healthz/ready";
    in_proxy(shop, "annotated", &["wget", "-q", "-O", "-", ready])?;
    let drain = &proxy["lifecycle"]["preStop"]["exec"]["command"];
    let drain: Vec<&str> =
        drain.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(shop.exec("annotated", "istio-proxy", &drain)?, "OK\n");
    Ok(())
}

fn in_proxy(shop: &Namespace<'_>, pod: &str, command: &[&str]) -> Result<String> {
    shop.exec(pod, "istio-proxy", &[&["/bin/busybox"], command].concat())
}
