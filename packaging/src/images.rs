//! Images of the release programs.

use std::path::Path;

use crate::error::{Error, Result};
use crate::image::{Image, ImageName};
use crate::platform::Platform;

/// Images of one program each, and their users.
pub const PROGRAM_IMAGES: [(&str, u32); 5] = [
    // Of the injected pod's user, which needs NET_ADMIN.
    ("istio-init", 0),
    ("istioctl", NONROOT),
    ("pilot-discovery", NONROOT),
    ("sidecar-injector", NONROOT),
    ("webhook-certs", NONROOT),
];

/// Title of the image with Envoy and its agent.
pub const PROXY: &str = "proxyv2";

/// Programs of [`PROXY`] beside Envoy.
pub const PROXY_PROGRAMS: [&str; 2] = ["istio-init", "pilot-agent"];

/// Inputs of the images of one platform.
#[derive(Debug, Clone, Copy)]
pub struct ImageInputs<'a> {
    /// Repository without the last part: `docker.io/outrigger`.
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
    pub fn program(&self, name: &str, user: u32) -> Result<Image> {
        let at = format!("/{name}");
        let image = Image::new(self.name(name), self.platform, &[&at]).user(user);
        let image = image.file(&at, &self.programs.join(name))?;
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
            image = image.file(&format!("{folder}/{program}"), &self.programs.join(program))?;
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
