//! Client configurations from kubeconfigs.
//!
//! A client for an unknown context fails without naming it, and a client for an unknown user sends
//! anonymous requests. So every name in a kubeconfig is resolved before a client is made.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::with_causes;

/// Loads the client configuration of a context in a kubeconfig file.
///
/// `origin` names the kubeconfig in messages, for example ``--kubeconfig `FILE` ``. Without
/// `context`, the current context applies.
pub async fn from_file(
    path: &Path,
    origin: &str,
    context: Option<&str>,
) -> Result<Config, KubeconfigError> {
    let kubeconfig =
        Kubeconfig::read_from(path).map_err(|source| KubeconfigError::load(origin, source))?;
    resolve(kubeconfig, origin, context).await
}

/// Loads the client configuration that the environment selects: by the kubeconfig of `KUBECONFIG`, or
/// of `~/.kube/config`, else by the pod's service account. Returns it with its name in messages.
///
/// A context needs a kubeconfig.
pub async fn from_environment(context: Option<&str>) -> Result<(Config, String), KubeconfigError> {
    let usual = UsualKubeconfig::by(env::var_os("KUBECONFIG"), env::home_dir());
    match Kubeconfig::read() {
        Ok(kubeconfig) => Ok((resolve(kubeconfig, &usual.name, context).await?, usual.name)),
        Err(error) => match Config::incluster() {
            Ok(config) if context.is_none() => Ok((config, SERVICE_ACCOUNT.to_owned())),
            _ => Err(usual.unreadable(context, &error)),
        },
    }
}

/// Kubeconfig that the environment selects.
#[derive(Debug)]
struct UsualKubeconfig {
    /// Name in messages, with the path.
    name: String,
    /// Flags and variables that would select another one.
    unset: &'static str,
}

impl UsualKubeconfig {
    fn by(variable: Option<OsString>, home: Option<PathBuf>) -> Self {
        let paths = variable.unwrap_or_default();
        if env::split_paths(&paths).any(|path| !path.as_os_str().is_empty()) {
            let name = format!("KUBECONFIG {}", paths.to_string_lossy());
            return Self { name, unset: "--kubeconfig is" };
        }
        let folder = home.unwrap_or_else(|| "~".into());
        let name = folder.join(".kube/config").display().to_string();
        Self { name, unset: "--kubeconfig and KUBECONFIG are" }
    }

    fn unreadable(
        self,
        context: Option<&str>,
        error: &kube::config::KubeconfigError,
    ) -> KubeconfigError {
        let name = match error {
            // `KUBECONFIG` may have several paths.
            kube::config::KubeconfigError::ReadConfig(_, path) => path.display().to_string(),
            _ => self.name,
        };
        KubeconfigError::NoCluster {
            context: context.map(|name| format!("--context {name}: ")).unwrap_or_default(),
            unset: self.unset,
            name,
            cause: with_causes(error),
        }
    }
}

/// Loads the client configuration of a context in a kubeconfig.
pub async fn resolve(
    kubeconfig: Kubeconfig,
    origin: &str,
    context: Option<&str>,
) -> Result<Config, KubeconfigError> {
    check(&kubeconfig, origin, context)?;
    let flag = context.map(|context| format!(", --context {context}")).unwrap_or_default();
    let options =
        KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|source| KubeconfigError::load(&format!("{origin}{flag}"), source))
}

/// Resolves a context to its cluster and user.
fn check(
    kubeconfig: &Kubeconfig,
    origin: &str,
    context: Option<&str>,
) -> Result<(), KubeconfigError> {
    let Kubeconfig { contexts, clusters, auth_infos, current_context, .. } = kubeconfig;
    let current = current_context.as_deref().filter(|name| !name.is_empty());
    let known = || listed(contexts.iter().map(|context| &context.name));
    let Some(name) = context.or(current) else {
        let (origin, known) = (origin.to_owned(), known());
        return Err(KubeconfigError::NoCurrentContext { origin, known });
    };
    let found = contexts.iter().find(|one| one.name == name);
    let Some(found) = found.and_then(|found| found.context.as_ref()) else {
        let (origin, name, known) = (origin.to_owned(), name.to_owned(), known());
        return Err(match context {
            Some(_) => KubeconfigError::Context { origin, name, known },
            None => KubeconfigError::CurrentContext { origin, name, known },
        });
    };
    let missing = |what, wanted: &str, known| KubeconfigError::Reference {
        origin: origin.to_owned(),
        context: name.to_owned(),
        what,
        name: wanted.to_owned(),
        known,
    };
    if !clusters.iter().any(|one| one.name == found.cluster && one.cluster.is_some()) {
        let known = listed(clusters.iter().map(|cluster| &cluster.name));
        return Err(missing("cluster", &found.cluster, known));
    }
    let is_user = |user: &str| auth_infos.iter().any(|one| one.name == user);
    match found.user.as_deref() {
        // Without a user, requests are anonymous, as through `kubectl proxy`.
        None | Some("") => Ok(()),
        Some(user) if is_user(user) => Ok(()),
        Some(user) => Err(missing("user", user, listed(auth_infos.iter().map(|user| &user.name)))),
    }
}

/// Reason for which a kubeconfig gives no client configuration.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The kubeconfig cannot be read or used.
    #[error("{origin}: {}", with_causes(source.as_ref()))]
    Load {
        /// Name of the kubeconfig in messages.
        origin: String,
        /// Error of the client library.
        source: Box<kube::config::KubeconfigError>,
    },
    /// The environment selects no readable kubeconfig, and no service account.
    #[error(
        "{context}no cluster: {unset} not set, and {name} cannot be read ({cause}); \
         hint: name a kubeconfig with --kubeconfig"
    )]
    NoCluster {
        /// Flag with the requested context, before the message; empty without one.
        context: String,
        /// Flags and variables that would select a kubeconfig.
        unset: &'static str,
        /// Name of the kubeconfig in messages.
        name: String,
        /// Error of the client library.
        cause: String,
    },
    /// The kubeconfig has no current context, and no context was requested.
    #[error("{origin}: it has no current-context; hint: set it to one of the contexts: {known}")]
    NoCurrentContext {
        /// Name of the kubeconfig in messages.
        origin: String,
        /// Contexts of the kubeconfig.
        known: String,
    },
    /// The requested context is missing.
    #[error(
        "--context `{name}`: no such context in {origin}; hint: use one of its contexts: {known}"
    )]
    Context {
        /// Name of the kubeconfig in messages.
        origin: String,
        /// The requested context.
        name: String,
        /// Contexts of the kubeconfig.
        known: String,
    },
    /// The current context is missing.
    #[error(
        "{origin}: it has no context `{name}`, which is its current-context; hint: use one of its contexts: \
         {known}"
    )]
    CurrentContext {
        /// Name of the kubeconfig in messages.
        origin: String,
        /// The current context.
        name: String,
        /// Contexts of the kubeconfig.
        known: String,
    },
    /// The context refers to a missing cluster or user.
    #[error(
        "{origin}: the context `{context}` names the {what} `{name}`, which is missing; \
         hint: use one of its {what}s: {known}"
    )]
    Reference {
        /// Name of the kubeconfig in messages.
        origin: String,
        /// The context.
        context: String,
        /// `cluster` or `user`.
        what: &'static str,
        /// Name of the missing cluster or user.
        name: String,
        /// Clusters or users of the kubeconfig.
        known: String,
    },
}

impl KubeconfigError {
    fn load(origin: &str, source: kube::config::KubeconfigError) -> Self {
        Self::Load { origin: origin.to_owned(), source: Box::new(source) }
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        "there are none, so use another file".to_owned()
    } else {
        names.join(", ")
    }
}

const SERVICE_ACCOUNT: &str = "the pod's service account";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubeconfig_of_the_environment_is_named_by_its_path() {
        let missing = |path: &str| {
            let source = std::io::ErrorKind::NotFound.into();
            kube::config::KubeconfigError::ReadConfig(source, path.into())
        };
        let named = "no cluster: --kubeconfig is not set, and";
        let default = "no cluster: --kubeconfig and KUBECONFIG are not set, and";
        for (variable, name, missing, start) in [
            ("/a", "KUBECONFIG /a", missing("/a"), format!("{named} /a cannot")),
            ("/a:/b", "KUBECONFIG /a:/b", missing("/b"), format!("{named} /b cannot")),
            ("", "/home/jane/.kube/config", missing("/c"), format!("{default} /c cannot")),
            (":", "/home/jane/.kube/config", missing("/c"), format!("{default} /c cannot")),
        ] {
            let usual = UsualKubeconfig::by(Some(variable.into()), Some("/home/jane".into()));
            assert_eq!(usual.name, name);
            let error = usual.unreadable(None, &missing).to_string();
            assert!(error.starts_with(&start), "{error}");
        }
    }

    #[test]
    fn missing_names_are_reported_with_known_ones() {
        let kubeconfig = |current: &str| {
            let text = format!(
                r#"{{"current-context": "{current}",
                    "clusters": [{{"name": "c", "cluster": {{"server": "https://127.0.0.1:1"}}}}],
                    "users": [{{"name": "u", "user": {{}}}}],
                    "contexts": [{{"name": "good", "context": {{"cluster": "c", "user": "u"}}}},
                                 {{"name": "anonymous", "context": {{"cluster": "c"}}}},
                                 {{"name": "no-cluster", "context": {{"cluster": "d", "user": "u"}}}},
                                 {{"name": "no-user", "context": {{"cluster": "c", "user": "v"}}}}]}}"#
            );
            Kubeconfig::from_yaml(&text).unwrap()
        };
        let contexts = "`good`, `anonymous`, `no-cluster`, `no-user`";
        for (current, context, expected) in [
            ("good", None, Ok(())),
            ("gone", Some("anonymous"), Ok(())),
            (
                "",
                None,
                Err(format!(
                    "f: it has no current-context; hint: set it to one of the contexts: {contexts}"
                )),
            ),
            (
                "good",
                Some("nope"),
                Err(format!(
                    "--context `nope`: no such context in f; hint: use one of its contexts: {contexts}"
                )),
            ),
            (
                "gone",
                None,
                Err(format!(
                    "f: it has no context `gone`, which is its current-context; hint: use one of its contexts: {contexts}"
                )),
            ),
            (
                "no-cluster",
                None,
                Err("f: the context `no-cluster` names the cluster `d`, which is missing; \
                     hint: use one of its clusters: `c`"
                    .to_owned()),
            ),
            (
                "good",
                Some("no-user"),
                Err("f: the context `no-user` names the user `v`, which is missing; \
                     hint: use one of its users: `u`"
                    .to_owned()),
            ),
        ] {
            let found =
                check(&kubeconfig(current), "f", context).map_err(|error| error.to_string());
            assert_eq!(found, expected);
        }
    }
}
