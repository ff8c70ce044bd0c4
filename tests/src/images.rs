//! Images of the tests.

use std::path::Path;

use anyhow::Result;
use packaging::images::{CERTIFICATES, ImageInputs, PROGRAM_IMAGES, PROXY_PROGRAMS};
use packaging::{Image, ImageName, Platform};

use crate::programs::{Programs, own_programs};

/// Returns the images of our programs, of the proxy, and of the applications of the examples.
///
/// `app` is the application of the tests. Cargo passes its path only to test binaries.
pub fn all(programs: &Programs, app: &Path) -> Result<Vec<Image>> {
    let mut images = ours(programs)?;
    // The name that the settings of `manifests/install.yaml` give it, and a shell for the tests.
    let proxy = proxy_named(programs, "docker.io/istio", "1.28.0")?
        .program("/bin/busybox", &programs.system("busybox")?)?;
    images.extend([proxy, busybox(programs)?, self::app(programs, app)?]);
    Ok(images)
}

/// Returns the images of our programs, as `manifests/install.yaml` and injected pods name
/// them.
pub fn ours(programs: &Programs) -> Result<Vec<Image>> {
    let used = PROGRAM_IMAGES.into_iter().filter(|image| image.name != "istioctl");
    let images = used.map(|image| {
        for program in image.programs() {
            programs.own(program)?;
        }
        Ok(inputs(&own_programs()?, OURS, "0.1.0").program(image)?)
    });
    images.collect()
}

/// Returns the image of the container `istio-proxy` with our agent and the Envoy of `make setup`.
pub fn proxy(programs: &Programs) -> Result<Image> {
    proxy_named(programs, OURS, "0.1.0")
}

fn proxy_named(programs: &Programs, repository: &str, tag: &str) -> Result<Image> {
    for program in PROXY_PROGRAMS {
        programs.own(program)?;
    }
    Ok(inputs(&own_programs()?, repository, tag).proxy(&programs.envoy()?)?)
}

fn inputs<'a>(programs: &'a Path, repository: &'a str, tag: &'a str) -> ImageInputs<'a> {
    let certificates = Path::new(CERTIFICATES);
    ImageInputs { repository, tag, platform: Platform::host(), programs, certificates }
}

fn image(repository: &str, tag: &str, entrypoint: &[&str]) -> Image {
    Image::new(ImageName::new(repository, tag), Platform::host(), entrypoint)
}

/// Returns the application of the examples.
pub fn busybox(programs: &Programs) -> Result<Image> {
    let mut image = image("docker.io/library/busybox", "1.37", &[])
        .program("/bin/busybox", &programs.system("busybox")?)?;
    for applet in ["cat", "echo", "env", "httpd", "id", "ls", "mkdir", "nc", "sh", "sleep", "wget"]
    {
        image = image.link(&format!("/bin/{applet}"), "busybox");
    }
    Ok(image)
}

/// Returns the application that fails on demand, with busybox to control it.
pub fn app(programs: &Programs, app: &Path) -> Result<Image> {
    let image = image(&format!("{OURS}/app"), "0.1.0", &["/app"]).program("/app", app)?;
    Ok(image.program("/bin/busybox", &programs.system("busybox")?)?)
}

/// Returns the image of the container that holds a pod's namespaces open.
pub(crate) fn pause(programs: &Programs) -> Result<Image> {
    let wait = "trap 'exit 0' TERM INT; sleep 2147483647 & wait";
    let image = image(&format!("{OURS}/pause"), "0.1.0", &["/bin/busybox", "sh", "-c", wait]);
    Ok(image.program("/bin/busybox", &programs.system("busybox")?)?)
}

/// The name of [`pause`].
pub(crate) const PAUSE: &str = "localhost/outrigger/pause:0.1.0";
const OURS: &str = "localhost/outrigger";
