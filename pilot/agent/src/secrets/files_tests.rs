use std::os::unix::fs::symlink;
use std::sync::Mutex;

use rcgen::{CertificateParams, KeyPair};

use super::*;

fn signed() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// A folder in the layout in which the kubelet mounts a Secret.
struct Mount {
    folder: tempfile::TempDir,
}

impl Mount {
    fn new() -> Self {
        let mount = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["cert-chain.pem", "key.pem"] {
            symlink(Path::new(DATA).join(name), mount.path(name)).unwrap();
        }
        mount
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn swap(&self, generation: &str, (chain, key): &(String, String)) {
        let folder = self.path(generation);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("cert-chain.pem"), chain).unwrap();
        fs::write(folder.join("key.pem"), key).unwrap();
        symlink(generation, self.path("..data_tmp")).unwrap();
        fs::rename(self.path("..data_tmp"), self.path(DATA)).unwrap();
    }

    fn read(&self) -> Result<KeyPairFiles, FileError> {
        KeyPairFiles::read(&self.path("cert-chain.pem"), &self.path("key.pem"))
    }
}

#[test]
fn pair_comes_from_one_generation() {
    let mount = Mount::new();
    let mut current = signed();
    for generation in 0..20 {
        current = if generation % 2 == 0 { signed() } else { current };
        mount.swap(&format!("..{generation}"), &current);
        let pair = mount.read().unwrap();
        assert_eq!((&pair.chain, &*pair.key), (&current.0, &current.1));
    }
}

#[test]
fn swaps_during_a_read_never_mix_generations() {
    let mount = Mount::new();
    mount.swap("..0", &signed());
    std::thread::scope(|scope| {
        let swaps = scope.spawn(|| {
            for generation in 1..100 {
                mount.swap(&format!("..{generation}"), &signed());
                fs::remove_dir_all(mount.path(&format!("..{}", generation - 1))).unwrap();
            }
        });
        while !swaps.is_finished() {
            // A third swap during one call may remove the files, but never mixes them.
            if let Err(error) = mount.read() {
                assert!(matches!(error, FileError::Read { .. }), "{error}");
            }
        }
    });
}

#[test]
fn unusable_files_are_errors_that_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let ((chain, key), (other, _)) = (signed(), signed());
    for (name, text) in [("chain", &*chain), ("key", &key), ("other", &other), ("empty", "")] {
        fs::write(at(name), text).unwrap();
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::from_raw_mode(0o600))
        .unwrap();
    KeyPairFiles::read(&at("chain"), &at("key")).unwrap();
    read_roots(&at("chain")).unwrap();
    assert_eq!(read_revocations(&at("missing")).unwrap(), None);
    assert_eq!(read_revocations(&at("empty")).unwrap(), None);
    let pair = |chain, key| KeyPairFiles::read(&at(chain), &at(key)).map(drop).unwrap_err();
    let text = [
        pair("other", "key"),
        pair("chain", "missing"),
        pair("chain", "chain"),
        pair("pipe", "key"),
        pair("empty", "key"),
        read_roots(&at("key")).unwrap_err(),
        read_revocations(&at("key")).unwrap_err(),
    ]
    .map(|error| error.to_string().replace(folder.path().to_str().unwrap(), "/mount"));
    insta::assert_snapshot!(text.join("\n"), @r"
    the certificate in /mount/other with the key in /mount/key cannot be used: its private key belongs to another certificate
    cannot read /mount/missing: No such file or directory (os error 2)
    the certificate in /mount/chain with the key in /mount/chain cannot be used: its private key cannot be parsed: no PEM block of the expected kind
    cannot read /mount/pipe: not a regular file
    the certificate in /mount/empty with the key in /mount/key cannot be used: it has no certificate in PEM
    the root certificates in /mount/key cannot be used: no certificate in PEM
    /mount/key has no certificate revocation list in PEM
    ");
}

#[tokio::test(start_paused = true)]
async fn changes_are_offered_after_the_debounce() {
    let contents = Mutex::new(vec!["a", "a", "b", "c", "c", "c", "", "", "d", "d"].into_iter());
    let missing = || FileError::Revocations { path: PathBuf::from("/file") };
    let last = Mutex::new("d");
    let read = || {
        let mut last = last.lock().unwrap();
        *last = contents.lock().unwrap().next().unwrap_or(*last);
        if last.is_empty() { Err(missing()) } else { Ok(*last) }
    };
    let mut offered = Vec::new();
    let is_needed = || contents.lock().unwrap().len() > 0;
    let offer = |content: &Result<&str, String>| {
        offered.push(content.as_ref().map_or_else(Clone::clone, |text| (*text).to_owned()));
    };
    follow(Duration::from_millis(100), read, offer, is_needed).await;
    // `b` changed before its debounce was over.
    assert_eq!(offered, ["a", "c", &missing().to_string(), "d"]);
}
