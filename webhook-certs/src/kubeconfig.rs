//! Whether the names in a kubeconfig lead anywhere, told in the words of whoever has typed them.
//!
//! A client of a name that leads nowhere would be refused without saying which, and of a user that
//! is not there it would ask as nobody.

use kube::config::Kubeconfig;

/// Follows the context to its cluster and user. `origin` says in messages which kubeconfig it is,
/// for example ``--kubeconfig `FILE` ``; `context` is what --context gives.
pub fn check(
    kubeconfig: &Kubeconfig,
    origin: &str,
    context: Option<&str>,
) -> Result<(), KubeconfigNameError> {
    let Kubeconfig { contexts, clusters, auth_infos, current_context, .. } = kubeconfig;
    let current = current_context.as_deref().filter(|name| !name.is_empty());
    let known = || listed(contexts.iter().map(|context| &context.name));
    let Some(name) = context.or(current) else {
        let (origin, known) = (origin.to_owned(), known());
        return Err(KubeconfigNameError::NoCurrentContext { origin, known });
    };
    let found = contexts.iter().find(|one| one.name == name);
    let Some(found) = found.and_then(|found| found.context.as_ref()) else {
        let (origin, name, known) = (origin.to_owned(), name.to_owned(), known());
        return Err(match context {
            Some(_) => KubeconfigNameError::Context { origin, name, known },
            None => KubeconfigNameError::CurrentContext { origin, name, known },
        });
    };
    let lacks = |what, wanted: &str, known| KubeconfigNameError::Lacks {
        origin: origin.to_owned(),
        context: name.to_owned(),
        what,
        name: wanted.to_owned(),
        known,
    };
    if !clusters.iter().any(|one| one.name == found.cluster && one.cluster.is_some()) {
        let known = listed(clusters.iter().map(|cluster| &cluster.name));
        return Err(lacks("cluster", &found.cluster, known));
    }
    let is_user = |user: &str| auth_infos.iter().any(|one| one.name == user);
    match found.user.as_deref() {
        // Without a user, one asks as nobody, as by way of `kubectl proxy`.
        None | Some("") => Ok(()),
        Some(user) if is_user(user) => Ok(()),
        Some(user) => Err(lacks("user", user, listed(auth_infos.iter().map(|user| &user.name)))),
    }
}

/// A name of a kubeconfig leads nowhere.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigNameError {
    /// It has no current context, and none is named.
    #[error("{origin}: it has no current-context\nhint: set it; its contexts are: {known}")]
    NoCurrentContext {
        /// Which kubeconfig.
        origin: String,
        /// Its contexts.
        known: String,
    },
    /// The context of the flag is not there.
    #[error("--context `{name}`: no such context in {origin}\nhint: its contexts are: {known}")]
    Context {
        /// Which kubeconfig.
        origin: String,
        /// What was given.
        name: String,
        /// Its contexts.
        known: String,
    },
    /// The current context is not there.
    #[error(
        "{origin}: its current-context `{name}` is none of its contexts\nhint: these are: {known}"
    )]
    CurrentContext {
        /// Which kubeconfig.
        origin: String,
        /// The current context.
        name: String,
        /// Its contexts.
        known: String,
    },
    /// The context names a cluster or a user that is not there.
    #[error(
        "{origin}: the context `{context}` names the {what} `{name}`, which is not there\n\
         hint: its {what}s are: {known}"
    )]
    Lacks {
        /// Which kubeconfig.
        origin: String,
        /// The context.
        context: String,
        /// `cluster` or `user`.
        what: &'static str,
        /// Its name.
        name: String,
        /// Those that are there.
        known: String,
    },
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_nowhere_is_told_with_whoever_gave_it() {
        let kubeconfig = |current: &str| {
            let text = format!(
                r#"{{"current-context": "{current}",
                    "clusters": [{{"name": "c", "cluster": {{"server": "https://127.0.0.1:1"}}}}],
                    "users": [{{"name": "u", "user": {{}}}}],
                    "contexts": [{{"name": "good", "context": {{"cluster": "c", "user": "u"}}}},
                                 {{"name": "anybody", "context": {{"cluster": "c"}}}},
                                 {{"name": "far", "context": {{"cluster": "d", "user": "u"}}}},
                                 {{"name": "who", "context": {{"cluster": "c", "user": "v"}}}}]}}"#
            );
            Kubeconfig::from_yaml(&text).unwrap()
        };
        let contexts = "`good`, `anybody`, `far`, `who`";
        for (current, context, expected) in [
            ("good", None, Ok(())),
            ("gone", Some("anybody"), Ok(())),
            (
                "",
                None,
                Err(format!(
                    "f: it has no current-context\nhint: set it; its contexts are: {contexts}"
                )),
            ),
            (
                "good",
                Some("nope"),
                Err(format!(
                    "--context `nope`: no such context in f\nhint: its contexts are: {contexts}"
                )),
            ),
            (
                "gone",
                None,
                Err(format!(
                    "f: its current-context `gone` is none of its contexts\nhint: these are: {contexts}"
                )),
            ),
            (
                "far",
                None,
                Err("f: the context `far` names the cluster `d`, which is not there\n\
                     hint: its clusters are: `c`"
                    .to_owned()),
            ),
            (
                "good",
                Some("who"),
                Err("f: the context `who` names the user `v`, which is not there\n\
                     hint: its users are: `u`"
                    .to_owned()),
            ),
        ] {
            let found =
                check(&kubeconfig(current), "f", context).map_err(|error| error.to_string());
            assert_eq!(found, expected);
        }
    }
}
