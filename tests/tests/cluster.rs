//! The stories on a real cluster: one node for all of them, a namespace for each.

use std::process::ExitCode;

use anyhow::Result;
use e2e::cluster::Cluster;
use e2e::images;
use e2e::programs::Programs;

fn main() -> Result<ExitCode> {
    let programs = Programs::find()?;
    let cluster = Cluster::start(&programs, &[images::busybox(&programs)?])?;
    let shop = cluster.namespace("shop", &[])?;
    shop.apply(WEB)?;
    shop.wait_until_available("web")?;
    shop.apply(CLIENT)?;
    shop.wait_for("condition=Ready", "pod/client")?;
    let answer = shop.exec("client", "client", &["wget", "-q", "-O", "-", "http://web/index.html"])?;
    eprintln!("{answer}");
    cluster.stop()?;
    Ok(ExitCode::SUCCESS)
}

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: busybox:1.37
        command: [sh, -c, 'mkdir -p /www && echo hello > /www/index.html && exec httpd -f -p 8080 -h /www']
        readinessProbe: {httpGet: {path: /index.html, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
";
const CLIENT: &str = "
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: client
    image: busybox:1.37
    command: [sh, -c, 'trap exit TERM; sleep 100000 & wait']
";
