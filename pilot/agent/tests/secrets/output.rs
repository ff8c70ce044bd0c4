//! Copies of key and certificates, `OUTPUT_CERTS`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use e2e::wait;
use pilot_agent::secrets::certificate::WorkloadCertificate;

use crate::fixture::TestPod;
use crate::service::CertificateService;

/// A file system of 32 KiB.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: PathBuf) -> Self {
        fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=32k", "tmpfs"]).arg(&path);
        assert!(mount.status().unwrap().success());
        Self(path)
    }

    fn fill(&self) {
        let mut count = 0;
        while fs::write(self.0.join(format!("fill-{count}")), [0; 4096]).is_ok() {
            count += 1;
        }
        // The last one may be there without content.
        let _ = fs::remove_file(self.0.join(format!("fill-{count}")));
    }

    fn empty(&self) {
        for entry in fs::read_dir(&self.0).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("fill-") {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Reads the copies, which must belong together.
fn copies(folder: &Path) -> Result<(String, String), String> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).map_err(|it| it.to_string());
    let (chain, key) = (read("cert-chain.pem")?, read("key.pem")?);
    read("root-cert.pem")?;
    WorkloadCertificate::from_pem(chain.as_bytes(), key.clone().into(), SystemTime::now())
        .map_err(|error| error.to_string())?;
    Ok((chain, key))
}

#[tokio::test]
async fn copies_follow_the_certificate() {
    let service = CertificateService::start(&["web"], Duration::from_secs(4)).await;
    let mut pod = TestPod::new("web", Some(&service));
    let folder = pod.path("output");
    pod.settings.options.output = Some(folder.clone());
    pod.start();
    let first = wait::until_async("copies", async || copies(&folder)).await.unwrap();
    assert_eq!(fs::metadata(folder.join("key.pem")).unwrap().mode() & 0o777, 0o600);
    wait::until_async("new copies", async || match copies(&folder) {
        Ok(next) if next == first => Err("the first ones".to_owned()),
        next => next,
    })
    .await
    .unwrap();
    assert_eq!(fs::metadata(folder.join("key.pem")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
}

#[tokio::test]
async fn full_disk_keeps_the_old_pair_and_heals() {
    let service = CertificateService::start(&["web"], Duration::from_secs(4)).await;
    let mut pod = TestPod::new("web", Some(&service));
    let disk = SmallDisk::mount(pod.path("disk"));
    pod.settings.options.output = Some(disk.0.clone());
    pod.start();
    let first = wait::until_async("copies", async || copies(&disk.0)).await.unwrap();
    disk.fill();
    let condition = pod.condition_with("OUTPUT_CERTS").await;
    assert!(condition.contains("No space left on device"), "{condition}");
    copies(&disk.0).unwrap();
    // Envoy is served all the same.
    pod.sds().await.stream(&["default"]).next().await.unwrap();
    disk.empty();
    pod.condition_is_cleared().await;
    assert_ne!(copies(&disk.0).unwrap(), first);
}

#[tokio::test]
async fn keys_are_never_written_without_output() {
    let service = CertificateService::start(&["web"], Duration::from_secs(4)).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.start();
    let mut stream = pod.sds().await.stream(&["default"]);
    stream.next().await.unwrap();
    stream.next().await.unwrap();
    let mut found = Vec::new();
    let mut folders = vec![pod.folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|path| !fs::read_to_string(path).unwrap().contains("PRIVATE")));
}
