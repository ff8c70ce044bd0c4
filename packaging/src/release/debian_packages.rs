//! Debian packages of the programs that run on a command line.

use super::documentation::Documentation;
use super::folder::ReleaseFolder;
use super::{PlatformBuild, Release};
use crate::content::Content;
use crate::debian::DebianPackage;
use crate::error::{Error, Result};
use crate::file_tree::FileTree;
use crate::gzip;
use crate::programs::ISTIOCTL_LINKS;

/// A package of one program. The webhook and the agent run in containers alone.
struct Entry {
    name: &'static str,
    section: &'static str,
    program: &'static str,
    folder: &'static str,
    links: &'static [&'static str],
    summary: &'static str,
    description: &'static str,
}

const PACKAGES: [Entry; 4] = [
    Entry {
        name: "outrigger",
        section: "admin",
        program: "istioctl",
        folder: "/usr/bin",
        links: &ISTIOCTL_LINKS,
        summary: "sidecar injection for Kubernetes on a command line",
        description: "The program istioctl, with the second names outrigger and kubectl-outrigger,\n\
            injects Istio-compatible sidecars into Kubernetes manifests, removes\n\
            them, and reports on the pods and proxies of a cluster.",
    },
    Entry {
        name: "istio-init",
        section: "net",
        program: "istio-init",
        folder: "/usr/sbin",
        links: &[],
        summary: "traffic capture for the sidecar of a pod",
        description: "The program istio-init programs, explains, verifies and removes the rules\n\
            that redirect the traffic of a network namespace to a proxy, by nftables\n\
            or iptables.",
    },
    Entry {
        name: "pilot-discovery",
        section: "net",
        program: "pilot-discovery",
        folder: "/usr/bin",
        links: &[],
        summary: "control plane for Envoy proxies",
        description: "The program pilot-discovery configures Envoy proxies by xDS, from the\n\
            Services of a Kubernetes cluster or from a folder of YAML files.",
    },
    Entry {
        name: "webhook-certs",
        section: "admin",
        program: "webhook-certs",
        folder: "/usr/bin",
        links: &[],
        summary: "certificates of Kubernetes admission webhooks",
        description: "The program webhook-certs issues, publishes and rotates the certificate\n\
            of an admission webhook, and shows its state.",
    },
];

pub(super) fn write(
    release: &Release,
    documentation: &Documentation,
    folder: &mut ReleaseFolder,
) -> Result<()> {
    for build in &release.builds {
        for entry in &PACKAGES {
            let package = entry.package(release, build, documentation)?;
            let time = release.origin.file_time();
            folder.add_written(&package.file_name(), |path| package.write(time, path))?;
        }
    }
    Ok(())
}

impl Entry {
    fn package(
        &self,
        release: &Release,
        build: &PlatformBuild,
        documentation: &Documentation,
    ) -> Result<DebianPackage> {
        let mut files = FileTree::default();
        let content = Content::File(build.programs.join(self.program));
        files.add_executable(&format!("{}/{}", self.folder, self.program), content);
        for link in self.links {
            files.add_link(&format!("{}/{link}", self.folder), self.program);
        }
        for (name, page) in &documentation.manuals {
            if self.has_manual(name) {
                let page = gzip::compress(page).map_err(Error::pack(name))?;
                files.add(&format!("/usr/share/man/man1/{name}.gz"), Content::Bytes(page));
            }
        }
        for completion in &documentation.completions {
            if completion.command == self.program || self.links.contains(&completion.command) {
                let at = format!("{}/{}", completion.debian_folder(), completion.file_name());
                files.add(&at, completion.script.clone());
            }
        }
        let mut package = DebianPackage {
            name: self.name.to_owned(),
            version: release.origin.version.clone(),
            platform: build.platform,
            section: self.section,
            maintainer: release.origin.maintainer.clone(),
            homepage: release.origin.source.clone(),
            summary: self.summary,
            description: self.description,
            files,
        };
        package.add_documentation(&release.origin.date.unwrap_or_default().rfc2822())?;
        Ok(package)
    }

    /// True for the page of a command of the package (`istioctl.1`) or of a subcommand
    /// (`istioctl-analyze.1`).
    fn has_manual(&self, page: &str) -> bool {
        let mut commands = self.links.iter().chain([&self.program]);
        commands.any(|command| {
            page.strip_prefix(command).is_some_and(|rest| rest.starts_with(['.', '-']))
        })
    }
}
