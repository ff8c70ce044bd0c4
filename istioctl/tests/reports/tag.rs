//! `istioctl tag` with the API server.

use std::fmt::Write;

use e2e::api_servers::ApiServers;
use e2e::wait;
use serde_json::{Value, json};

use crate::command::istioctl;
use crate::shop::Shop;

pub(crate) fn is_set_moved_and_removed(server: &ApiServers) {
    let shop = Shop::open(server, "tags");
    let injector = shop.fixture.start(&["--enable-native-sidecars", "true"]);
    shop.hook(&injector);
    shop.hook_canary(&injector);
    shop.namespace("tagged", &json!({"istio.io/rev": "prod"}));
    shop.namespace("enabled", &json!({"istio-injection": "enabled"}));
    let mut session = Session { shop: &shop, shown: String::new() };
    session.run("list", "");
    session.run("generate prod --revision canary", "");
    session.run("list", "");
    assert_eq!(injecting(&shop, "tagged"), [""; 0]);

    session.run("set prod --revision canary", "");
    assert_eq!(injecting(&shop, "tagged"), ["istio-revision-tag-prod-control-tags"]);
    assert_eq!(revision_of_new_pod(&shop, "tagged"), "default");
    session.run("set prod --revision default", "");
    session.run("set prod --revision default --overwrite --webhook-name other", "");
    session.run("set canary --revision default", "");
    session.run("set prod --revision gone --overwrite", "");
    session.run("set Prod_1 --revision canary", "");
    session.run("set prod", "");
    session.run("set other --revision canary --webhook-name hooks-tags", "");
    session.run("list", "");
    session.run("set prod --revision default --overwrite", "");
    session.run("list -o json", "");

    rejection_changes_nothing(&shop);

    // The tag `default` replaces the default revision, so that one webhook injects.
    session.run("set default --revision canary", "");
    assert_eq!(injecting(&shop, "enabled"), ["istio-revision-tag-default-control-tags"]);
    assert_eq!(revision_of_new_pod(&shop, "enabled"), "default");
    // Other stories leave namespaces with this label.
    let tags: Value = serde_json::from_str(&shop.output(&["tag", "list", "-o", "json"])).unwrap();
    assert_eq!((&tags[0]["tag"], &tags[0]["revision"]), (&json!("default"), &json!("canary")));
    assert!(tags[0]["namespaces"].as_array().unwrap().contains(&json!("enabled")), "{tags}");
    session.run("remove default -y", "");
    assert_eq!(injecting(&shop, "enabled"), ["hooks-tags"]);

    // The second webhook calls the default revision for the label of the tag `both`.
    let mut second = shop.get(&["mutatingwebhookconfiguration", "hooks-tags"]);
    second["metadata"] = json!({"name": "second", "labels": {"istio.io/rev": "second"}});
    let entries = second["webhooks"].as_array_mut().unwrap();
    entries.truncate(1);
    entries[0]["namespaceSelector"] = json!({"matchLabels": {"istio.io/rev": "both"}});
    entries[0]["clientConfig"].as_object_mut().unwrap().remove("caBundle");
    shop.fixture.apply(&second);
    session.run("set both --revision canary", "n\n");
    session.run("set both --revision canary -y", "");
    session.run("remove both -y", "");
    session.run("set bare --revision second", "");
    session.run("remove bare -y", "");
    shop.kubectl(&["delete", "mutatingwebhookconfiguration", "second"], "");

    session.run("remove prod", "n\n");
    session.run("remove prod", "y\n");
    session.run("remove prod", "");
    assert_eq!(injecting(&shop, "tagged"), [""; 0]);

    shop.kubectl(&["delete", "mutatingwebhookconfiguration", "hooks-tags"], "");
    shop.fixture.apply(&{
        let mut second = shop.get(&["mutatingwebhookconfiguration", "hooks-tags-canary"]);
        let metadata = json!({"name": "hooks-tags", "labels": second["metadata"]["labels"]});
        second["metadata"] = metadata;
        second
    });
    session.run("generate prod --revision canary", "");
    insta::assert_snapshot!("tag", session.shown);
}

/// Sets the tag `default` as a user who may create it, but not deactivate the default revision.
fn rejection_changes_nothing(shop: &Shop<'_>) {
    let hooks = |verbs: &[&str]| {
        json!({"apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations"], "verbs": verbs})
    };
    let mut tag_alone = hooks(&["patch"]);
    tag_alone["resourceNames"] = json!(["istio-revision-tag-default-control-tags"]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "tagger"},
        "rules": [
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]},
            hooks(&["list", "create"]),
            tag_alone,
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "tagger"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tagger"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tagger"}],
    });
    shop.fixture.apply(&role);
    shop.fixture.apply(&binding);
    let tag = |args: &[&str]| shop.istioctl(&[&["--as", "tagger", "tag"], args].concat());
    // The authorizer learns of the binding by a watch.
    wait::until("the rights apply", || match tag(&["list"]) {
        (Some(0), ..) => Ok(()),
        (_, _, messages) => Err(messages),
    })
    .unwrap();
    let (code, _, messages) = tag(&["set", "default", "--revision", "canary"]);
    assert_eq!(code, Some(1), "{messages}");
    let rejected = "MutatingWebhookConfiguration hooks-tags: rejected by the API server";
    assert!(messages.contains(rejected), "{messages}");
    let tags = shop.output(&["tag", "list"]);
    assert!(!tags.lines().any(|line| line.starts_with("default ")), "{tags}");
}

struct Session<'a> {
    shop: &'a Shop<'a>,
    shown: String,
}

impl Session<'_> {
    fn run(&mut self, args: &str, input: &str) {
        let kubeconfig = self.shop.server.admin_kubeconfig();
        let kubeconfig = kubeconfig.to_str().unwrap();
        let flags = ["-c", kubeconfig, "-i", &self.shop.fixture.namespace, "tag"];
        let args_of: Vec<_> = flags.into_iter().chain(args.split(' ')).collect();
        let (code, output, messages) = istioctl(&args_of, input);
        let text = format!("{output}{}", Shop::shown(&messages, kubeconfig));
        let ca = regex::Regex::new("caBundle: .*").unwrap();
        let url = regex::Regex::new("https://[0-9.:]+/inject").unwrap();
        let text = url.replace_all(&text, "https://INJECTOR/inject");
        let text = ca.replace_all(&text, "caBundle: CA");
        writeln!(self.shown, "$ tag {args}\n{input}{text}exit {}\n", code.unwrap()).unwrap();
    }
}

/// Returns the names of the webhook configurations that inject a pod without labels.
fn injecting(shop: &Shop<'_>, namespace: &str) -> Vec<String> {
    let args = ["x", "check-inject", "-n", namespace, "-l", "app=web", "-o", "json"];
    let (code, output, messages) = shop.istioctl(&args);
    assert_eq!(code, Some(0), "{messages}");
    let report: Value = serde_json::from_str(&output).unwrap();
    let webhooks = report[0]["webhooks"].as_array().unwrap().iter();
    let injecting = webhooks.filter(|one| one["injected"] == true);
    injecting.map(|one| one["webhook"].as_str().unwrap().to_owned()).collect()
}

/// Returns the revision of the program that injects a new pod.
fn revision_of_new_pod(shop: &Shop<'_>, namespace: &str) -> String {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "serviceAccountName": "default", "containers": [{"name": "app", "image": "app"}],
        },
    });
    let args = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
    let created: Value = serde_json::from_str(&shop.kubectl(&args, &pod.to_string())).unwrap();
    created["metadata"]["annotations"]["istio.io/rev"].as_str().unwrap_or_default().to_owned()
}
