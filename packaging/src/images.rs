//! Images of the release programs.

use std::path::Path;

use crate::error::{Error, Result};
use crate::image::{Image, ImageName};
use crate::platform::Platform;

/// Image of a program.
#[derive(Debug, Clone, Copy)]
pub struct ProgramImage {
    /// Title of the image, and name of its program.
    pub name: &'static str,
    /// User of the process.
    pub user: u32,
    /// Program that the first one installs on a node.
    pub installed: Option<&'static str>,
}

impl ProgramImage {
    /// Returns the programs in the image.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.installed)
    }
}

/// Images without Envoy.
pub const PROGRAM_IMAGES: [ProgramImage; 6] = [
    ProgramImage { name: "install-cni", user: 0, installed: Some("istio-cni") },
    // Of the injected pod's user, which needs NET_ADMIN.
    ProgramImage { name: "istio-init", user: 0, installed: None },
    ProgramImage { name: "istioctl", user: NONROOT, installed: None },
    ProgramImage { name: "pilot-discovery", user: NONROOT, installed: None },
    ProgramImage { name: "sidecar-injector", user: NONROOT, installed: None },
    ProgramImage { name: "webhook-certs", user: NONROOT, installed: None },
];

/// Title of the image with Envoy and its agent.
pub const PROXY: &str = "proxyv2";

/// Programs of [`PROXY`] beside Envoy.
pub const PROXY_PROGRAMS: [&str; 2] = ["istio-init", "pilot-agent"];

/// Inputs of the images of one platform.
#[derive(Debug, Clone, Copy)]
pub struct ImageInputs<'a> {
    /// Repository without the last part: `localhost/outrigger`.
    pub repository: &'a str,
    /// Tag.
    pub tag: &'a str,
    /// Platform of the programs.
    pub platform: Platform,
    /// Folder of the release programs.
    pub programs: &'a Path,
    /// Root certificates, for programs that trust those of the system.
    pub certificates: &'a Path,
}

impl ImageInputs<'_> {
    /// Returns the name of an image.
    pub fn name(&self, title: &str) -> ImageName {
        ImageName::new(&format!("{}/{title}", self.repository), self.tag)
    }

    /// Returns the image of a program, one of [`PROGRAM_IMAGES`].
    pub fn program(&self, of: ProgramImage) -> Result<Image> {
        let name = of.name;
        let entrypoint = format!("/{name}");
        let image = Image::new(self.name(name), self.platform, &[&entrypoint]).user(of.user);
        let image = of.programs().try_fold(image, |image, program| {
            image.program(&format!("/{program}"), &self.programs.join(program))
        })?;
        // A kubeconfig without a CA means those of the system. In a cluster, a Pod has its CA.
        if name == "istioctl" { self.with_certificates(image) } else { Ok(image) }
    }

    /// Returns the image of the container `istio-proxy`: the agent, the program of its subcommand
    /// `istio-iptables`, Envoy with its libraries, and root certificates.
    pub fn proxy(&self, envoy: &Path) -> Result<Image> {
        let folder = "/usr/local/bin";
        let entrypoint = format!("{folder}/pilot-agent");
        let mut image = Image::new(self.name(PROXY), self.platform, &[&entrypoint]).user(1337);
        for program in PROXY_PROGRAMS {
            image = image.program(&format!("{folder}/{program}"), &self.programs.join(program))?;
        }
        self.with_certificates(image.program(&format!("{folder}/envoy"), envoy)?)
    }

    fn with_certificates(&self, image: Image) -> Result<Image> {
        if !self.certificates.exists() {
            return Err(Error::NoCertificates(self.certificates.to_owned()));
        }
        image.file(CERTIFICATES, self.certificates)
    }
}

/// Root certificates of Debian, which Envoy and our programs look for.
pub const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
const NONROOT: u32 = 65532;
