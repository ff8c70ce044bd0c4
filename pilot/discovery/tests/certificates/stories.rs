//! Stories of certificates.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::wait;
use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use pilot_agent::secrets::client::RequestError;
use serde_json::json;

use crate::control_plane::ControlPlane;
use crate::pod::{DAY, TestPod, claims, forged};

pub(crate) async fn agent_gets_a_certificate_by_its_projected_token(
    control_plane: &ControlPlane,
) -> Result<()> {
    let pod = TestPod::create(control_plane, "web").await?;
    let chain = pod.sign(&pod.request(&[])?, DAY).await?;
    ensure!(chain.len() == 2, "the leaf and its root: {}", chain.len());
    ensure!(chain[1] == control_plane.roots, "the roots are those of the ConfigMap");
    let text = pod.verified(&chain[0], &chain[1])?;
    ensure!(text.contains("URI:spiffe://cluster.local/ns/shop/sa/web\n"), "{text}");
    let caller = pod.whoami(None).await?;
    ensure!(caller.contains(r#""shop""#) && caller.contains(r#"Some("web")"#), "{caller}");
    Ok(())
}

pub(crate) async fn certificate_authenticates_but_is_signed_for_tokens_only(
    control_plane: &ControlPlane,
) -> Result<()> {
    let pod = TestPod::create(control_plane, "by-certificate").await?;
    let chain = pod.sign(&pod.request(&[])?, DAY).await?;
    let identity = pod.identity(&chain)?;
    pod.set_token("an invalid token")?;
    let caller = pod.whoami(Some(identity.clone())).await?;
    ensure!(caller.contains(r#""by-certificate""#) && caller.contains("pod: None"), "{caller}");
    let error = pod.sign_by_certificate(&pod.request(&[])?, identity).await;
    unauthenticated(error, "no bearer token")
}

pub(crate) async fn debug_pages_are_for_the_control_planes_namespace(
    control_plane: &ControlPlane,
) -> Result<()> {
    let pod = TestPod::create(control_plane, "curious").await?;
    let page = async || pod.get("/debug/registry", None).await;
    let (status, text) = page().await?;
    ensure!(status == StatusCode::FORBIDDEN && text.contains("istio-system"), "{status} {text}");
    let identity = pod.identity(&pod.sign(&pod.request(&[])?, DAY).await?)?;
    let (status, _) = pod.get("/debug/pushes", Some(identity)).await?;
    ensure!(status == StatusCode::FORBIDDEN, "a certificate of the namespace: {status}");
    pod.set_token("an invalid token")?;
    let (status, text) = page().await?;
    ensure!(status == StatusCode::UNAUTHORIZED && text.contains("token"), "{status} {text}");

    let accounts = Api::<ServiceAccount>::namespaced(control_plane.admin.clone(), "istio-system");
    let account = serde_json::from_value(json!({"metadata": {"name": "operator"}}))?;
    accounts.create(&PostParams::default(), &account).await?;
    let request = serde_json::from_value(json!({"spec": {"audiences": ["istio-ca"]}}))?;
    let token = accounts.create_token_request("operator", &PostParams::default(), &request).await?;
    pod.set_token(&token.status.context("the request has no status")?.token)?;
    let (status, text) = page().await?;
    ensure!(status == StatusCode::OK && text == "[]", "{status} {text}");
    Ok(())
}

pub(crate) async fn requested_names_and_usages_are_ignored(
    control_plane: &ControlPlane,
) -> Result<()> {
    let pod = TestPod::create(control_plane, "greedy").await?;
    let request = pod.request(&[
        "-addext",
        "basicConstraints=critical,CA:TRUE",
        "-addext",
        "subjectAltName=URI:spiffe://cluster.local/ns/bank/sa/vault,DNS:istiod.istio-system.svc",
    ])?;
    let chain = pod.sign(&request, DAY).await?;
    let text = pod.verified(&chain[0], &chain[1])?;
    ensure!(text.contains("URI:spiffe://cluster.local/ns/shop/sa/greedy\n"), "{text}");
    ensure!(text.contains("CA:FALSE") && !text.contains("vault"), "{text}");
    ensure!(!text.contains("DNS:") && text.contains("Subject: \n"), "{text}");
    Ok(())
}

pub(crate) async fn unusable_signing_requests_are_invalid_arguments(
    control_plane: &ControlPlane,
) -> Result<()> {
    let pod = TestPod::create(control_plane, "clumsy").await?;
    let good = pod.request(&[])?;
    let lines: Vec<_> = good.lines().collect();
    // The last line of the encoding is within the signature.
    let last = lines[lines.len() - 2];
    let mut broken: String = last.chars().rev().collect();
    broken.retain(|digit| digit != '=');
    let padding = "=".repeat(last.len() - broken.len());
    let forged = good.replace(last, &format!("{broken}{padding}"));
    for (request, reason) in [
        (String::new(), "is not PEM"),
        ("x".repeat(1 << 20), "has 1048576 bytes"),
        (forged, "invalid"),
    ] {
        match pod.sign(&request, DAY).await {
            Err(RequestError::InvalidArgument { status, .. }) => {
                ensure!(status.message().contains(reason), "{status}");
            }
            other => anyhow::bail!("{reason}: {other:?}"),
        }
    }
    Ok(())
}

pub(crate) async fn tokens_of_others_are_unauthenticated(
    control_plane: &ControlPlane,
) -> Result<()> {
    let pod = TestPod::create(control_plane, "liar").await?;
    let request = pod.request(&[])?;
    let token = pod.token("istio-ca").await?;
    let mut expired = claims(&token)?;
    expired["exp"] = json!(Timestamp::now().as_second() - 10);
    let mut of_vault = claims(&token)?;
    of_vault["sub"] = json!("system:serviceaccount:bank:vault");
    for (token, reason) in [
        (pod.token("https://kubernetes.default.svc").await?, "rejects the token"),
        (pod.token("vault").await?, "rejects the token"),
        (forged(&token, &expired), "has expired"),
        (forged(&token, &of_vault), "rejects the token"),
        ("x".repeat(10_000), "10000 bytes"),
        ("secret".to_owned(), "not a JSON Web Token"),
    ] {
        pod.set_token(&token)?;
        unauthenticated(pod.sign(&request, DAY).await, reason)?;
    }
    pod.set_token(&token)?;
    pod.sign(&request, DAY).await?;
    Ok(())
}

pub(crate) async fn token_of_a_deleted_pod_is_rejected(control_plane: &ControlPlane) -> Result<()> {
    let pod = TestPod::create(control_plane, "deleted").await?;
    let request = pod.request(&[])?;
    pod.sign(&request, DAY).await?;
    let pods = Api::<Pod>::namespaced(control_plane.admin.clone(), "shop");
    pods.delete(pod.name, &DeleteParams::default().grace_period(0)).await?;
    // The server and the API server remember accepted tokens for a short time. An attempt costs a
    // signature, and half a second of delay little.
    let rejected = wait::until_async("the token is rejected", async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        match pod.sign(&request, DAY).await {
            Ok(_) => Err("it is still accepted"),
            rejected => Ok(rejected),
        }
    });
    unauthenticated(rejected.await?, "rejects the token")
}

pub(crate) async fn requested_lifetime_is_bounded(control_plane: &ControlPlane) -> Result<()> {
    let pod = TestPod::create(control_plane, "eternal").await?;
    let request = pod.request(&[])?;
    for (requested, hours) in [(3600, 1), (0, 24), (10 * 365 * 24 * 3600, 48)] {
        let chain = pod.sign(&request, Duration::from_secs(requested)).await?;
        let text = pod.verified(&chain[0], &chain[1])?;
        let end = text.split("Not After : ").nth(1).and_then(|rest| rest.split(" GMT").next());
        let end = jiff::fmt::strtime::parse(
            "%b %d %H:%M:%S %Y %z",
            format!("{} +0000", end.context("no end")?),
        )?;
        let left = end.to_timestamp()?.duration_since(Timestamp::now());
        let missing = hours * 3600 - left.as_secs();
        ensure!((0..600).contains(&missing), "{requested} s: {left:?}");
    }
    Ok(())
}

pub(crate) async fn stream_of_a_node_of_another_workload_is_refused(
    control_plane: &ControlPlane,
) -> Result<()> {
    let pod = TestPod::create(control_plane, "spy").await?;
    let chain = pod.sign(&pod.request(&[])?, DAY).await?;
    let by_certificate = Some(pod.identity(&chain)?);
    let node = |pod: &str, namespace: &str| {
        format!("sidecar~10.0.0.9~{pod}.{namespace}~{namespace}.svc.cluster.local")
    };
    for identity in [None, by_certificate.clone()] {
        pod.discover(identity.clone(), &node("spy", "shop"), "spy").await?;
        pod.discover(identity.clone(), &node("spy", "shop"), "").await?;
        for (claimed, account, reason) in [
            (node("spy", "bank"), "spy", "claims the namespace \"bank\""),
            (node("spy", "shop"), "vault", "claims the service account \"vault\""),
        ] {
            denied(pod.discover(identity.clone(), &claimed, account).await, reason)?;
        }
    }
    let neighbour = node("neighbour", "shop");
    denied(pod.discover(None, &neighbour, "spy").await, "claims the pod \"neighbour\"")?;
    let by_certificate = pod.discover(by_certificate, &neighbour, "spy").await;
    denied(by_certificate, "has another service account than spy")
}

fn denied(outcome: Result<(), tonic::Status>, reason: &str) -> Result<()> {
    match outcome {
        Err(status) if status.code() == tonic::Code::PermissionDenied => {
            ensure!(status.message().contains(reason), "{status}");
            Ok(())
        }
        other => anyhow::bail!("{reason}: {other:?}"),
    }
}

fn unauthenticated(outcome: Result<Vec<String>, RequestError>, reason: &str) -> Result<()> {
    match outcome {
        Err(RequestError::Unauthenticated { status, .. }) => {
            ensure!(status.message().contains(reason), "{status}");
            Ok(())
        }
        other => anyhow::bail!("{reason}: {other:?}"),
    }
}
