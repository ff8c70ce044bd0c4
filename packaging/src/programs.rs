//! The release programs.

/// A program, and the package of the workspace that it is built from.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Name of the file.
    pub name: &'static str,
    /// Package of the workspace.
    pub package: &'static str,
}

/// Programs of one build (`packaging/build.sh`), which unites the features of their dependencies.
pub type Build = &'static [Program];

/// Every build.
pub const BUILDS: [Build; 4] = [
    &[
        Program { name: "istioctl", package: "istioctl" },
        Program { name: "pilot-discovery", package: "pilot-discovery" },
        Program { name: "sidecar-injector", package: "injector" },
        Program { name: "webhook-certs", package: "webhook-certs" },
    ],
    &[
        Program { name: "istio-cni", package: "cni" },
        Program { name: "istio-init", package: "istio-init" },
    ],
    &[Program { name: "install-cni", package: "install-cni" }],
    &[Program { name: "pilot-agent", package: "pilot-agent" }],
];

/// Returns every program.
pub fn all() -> impl Iterator<Item = Program> {
    BUILDS.into_iter().flatten().copied()
}

/// Other names of `istioctl`: a plugin of kubectl, its completion, and one beside Istio's program.
pub const ISTIOCTL_LINKS: [&str; 3] =
    ["kubectl-outrigger", "kubectl_complete-outrigger", "outrigger"];
