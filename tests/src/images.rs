//! Images of the tests.

use std::path::Path;

use anyhow::Result;

use crate::image::Image;
use crate::programs::Programs;

/// Returns the images of our programs, of the proxy, and of the applications of the examples.
///
/// `app` is the application of the tests. Cargo passes its path only to test binaries.
pub fn all(programs: &Programs, app: &Path) -> Result<Vec<Image>> {
    let mut images = ours(programs)?;
    // The name that the settings of `manifests/install.yaml` give it, and a shell for the tests.
    let proxy = proxy(programs, "docker.io/istio/proxyv2:1.28.0")?
        .program("/bin/busybox", &programs.system("busybox")?)?;
    images.extend([proxy, busybox(programs)?, self::app(programs, app)?]);
    Ok(images)
}

/// Returns the images of our static programs, as `manifests/install.yaml` and injected pods name
/// them.
pub fn ours(programs: &Programs) -> Result<Vec<Image>> {
    Ok(vec![
        own(programs, "sidecar-injector")?.user(65532),
        own(programs, "pilot-discovery")?.user(65532),
        own(programs, "webhook-certs")?.user(65532),
        own(programs, "istio-init")?,
    ])
}

/// Returns the image of one of our static programs.
pub fn own(programs: &Programs, name: &str) -> Result<Image> {
    let at = format!("/{name}");
    let image = Image::new(&format!("docker.io/outrigger/{name}:0.1.0"), &[&at]);
    image.file(&at, &programs.own(name)?)
}

/// Returns the image of the container `istio-proxy`: the agent, the program of its subcommand
/// `istio-iptables`, and the Envoy of `make setup` with its libraries.
pub fn proxy(programs: &Programs, name: &str) -> Result<Image> {
    let entrypoint = "/usr/local/bin/pilot-agent";
    Image::new(name, &[entrypoint])
        .user(1337)
        .file(entrypoint, &programs.own("pilot-agent")?)?
        .file("/usr/local/bin/istio-init", &programs.own("istio-init")?)?
        .program("/usr/local/bin/envoy", &programs.envoy()?)
}

/// The name of [`proxy`] that `make images` gives it.
pub const PROXY: &str = "docker.io/outrigger/proxyv2:0.1.0";

/// Returns the application of the examples.
pub fn busybox(programs: &Programs) -> Result<Image> {
    let mut image = Image::new("docker.io/library/busybox:1.37", &[])
        .program("/bin/busybox", &programs.system("busybox")?)?;
    for applet in ["cat", "echo", "env", "httpd", "id", "ls", "mkdir", "nc", "sh", "sleep", "wget"]
    {
        image = image.link(&format!("/bin/{applet}"), "busybox");
    }
    Ok(image)
}

/// Returns the application that fails on demand, with busybox to control it.
pub fn app(programs: &Programs, app: &Path) -> Result<Image> {
    Image::new("docker.io/outrigger/app:0.1.0", &["/app"])
        .program("/app", app)?
        .program("/bin/busybox", &programs.system("busybox")?)
}

/// Returns the image of the container that holds a pod's namespaces open.
pub(crate) fn pause(programs: &Programs) -> Result<Image> {
    let wait = "trap 'exit 0' TERM INT; sleep 2147483647 & wait";
    Image::new(PAUSE, &["/bin/busybox", "sh", "-c", wait])
        .program("/bin/busybox", &programs.system("busybox")?)
}

/// The name of [`pause`].
pub(crate) const PAUSE: &str = "docker.io/outrigger/pause:0.1.0";
