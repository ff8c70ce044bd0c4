//! Identities in the cluster: a token and a kubeconfig for each client of the API server.

use std::fs::File;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::run_folder::RunFolder;

/// A client of the API server, with its usual permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    Admin,
    ControllerManager,
    KubeProxy,
    Kubelet,
    Scheduler,
}

impl Identity {
    /// Writes the kubeconfig of this client.
    pub(crate) fn kubeconfig(self, folder: &RunFolder, server: &Server) -> Result<PathBuf> {
        let name = self.user().replace(':', "-");
        let config = server.kubeconfig(&name, &self.token(&server.secret));
        folder.write(&format!("kubeconfig/{name}-{}", server.port), config.to_string())
    }

    /// Returns the API server's `--token-auth-file` with all clients.
    pub(crate) fn token_file(secret: &str) -> String {
        let lines = ALL.map(|identity| {
            let (token, user, group) = (identity.token(secret), identity.user(), identity.group());
            format!("{token},{user},{user},{group}\n")
        });
        lines.concat()
    }

    pub(crate) fn token(self, secret: &str) -> String {
        format!("{}-{secret}", self.user().replace(':', "-"))
    }

    fn user(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::ControllerManager => "system:kube-controller-manager",
            Self::KubeProxy => "system:kube-proxy",
            Self::Kubelet => "system:node:outrigger-e2e",
            Self::Scheduler => "system:kube-scheduler",
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::Admin => "system:masters",
            Self::Kubelet => "system:nodes",
            Self::ControllerManager | Self::KubeProxy | Self::Scheduler => "system:authenticated",
        }
    }
}

/// Returns a secret that only the programs of this run know.
pub(crate) fn new_secret() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("reading /dev/urandom")?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// Address and credentials of the API server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    /// The file with the CA of the API server's certificate.
    pub(crate) authority: PathBuf,
    /// The secret from which the clients' tokens are derived.
    pub(crate) secret: String,
}

impl Server {
    /// Returns the same server, reached through another port.
    pub(crate) fn with_port(&self, port: u16) -> Self {
        Self { port, ..self.clone() }
    }

    /// Returns the kubeconfig of a user with a token.
    pub(crate) fn kubeconfig(&self, user: &str, token: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "node",
                "cluster": {
                    "server": format!("https://{}:{}", self.address, self.port),
                    "certificate-authority": self.authority,
                },
            }],
            "users": [{ "name": user, "user": { "token": token } }],
            "contexts": [{ "name": "node", "context": { "cluster": "node", "user": user } }],
            "current-context": "node",
        })
    }
}

/// The node's name; the kubelet's identity contains it.
pub(crate) const NODE_NAME: &str = "outrigger-e2e";

const ALL: [Identity; 5] = [
    Identity::Admin,
    Identity::ControllerManager,
    Identity::KubeProxy,
    Identity::Kubelet,
    Identity::Scheduler,
];
