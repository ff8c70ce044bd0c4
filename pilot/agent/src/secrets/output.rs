//! Copies of key and certificates for other programs in the pod, `OUTPUT_CERTS`.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use local_files::{read_file, replace_regular_file};
use zeroize::Zeroizing;

/// Texts of the copies.
#[derive(Clone, Eq, PartialEq)]
pub struct Copies {
    /// `cert-chain.pem`.
    pub chain: String,
    /// `key.pem`.
    pub key: Zeroizing<String>,
    /// `root-cert.pem`.
    pub roots: String,
}

impl Copies {
    /// Replaces the three files in a folder, each by rename; the key is for its owner alone.
    ///
    /// After an error, the replaced ones get their former content, so that key and certificate
    /// belong together.
    pub fn write(&self, folder: &Path) -> Result<(), OutputError> {
        fs::create_dir_all(folder)
            .map_err(|cause| OutputError { path: folder.to_owned(), cause })?;
        let at = |name| folder.join(name);
        let files = [
            (at("root-cert.pem"), PUBLIC, self.roots.as_str()),
            (at("key.pem"), PRIVATE, self.key.as_str()),
            (at("cert-chain.pem"), PUBLIC, self.chain.as_str()),
        ];
        let mut former: Vec<(&Path, u32, Zeroizing<Vec<u8>>)> = Vec::new();
        for (path, mode, text) in &files {
            let content = read_file(path);
            if let Err(cause) = replace(path, *mode, text.as_bytes()) {
                for (path, mode, content) in former.into_iter().rev() {
                    // The first error is reported; the next attempt writes all files.
                    let _ = replace(path, mode, &content);
                }
                return Err(OutputError { path: path.clone(), cause });
            }
            if let Ok(content) = content {
                former.push((path, *mode, content));
            }
        }
        Ok(())
    }
}

/// Error of a copy.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {} (OUTPUT_CERTS): {cause}", path.display())]
pub struct OutputError {
    path: PathBuf,
    cause: io::Error,
}

fn replace(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    if mode == PRIVATE && path.is_file() {
        // A replaced file keeps its permissions.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    replace_regular_file(path, mode, &[content])
}

const PUBLIC: u32 = 0o644;
const PRIVATE: u32 = 0o600;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    fn copies(text: &str) -> Copies {
        let text = text.to_owned();
        Copies { chain: text.clone(), key: Zeroizing::new(text.clone()), roots: text }
    }

    fn texts(folder: &Path) -> Vec<String> {
        let names = ["cert-chain.pem", "key.pem", "root-cert.pem"];
        names.map(|name| fs::read_to_string(folder.join(name)).unwrap()).to_vec()
    }

    #[test]
    fn key_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key.pem");
        fs::write(&key, "old").unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
        for text in ["one", "two"] {
            copies(text).write(folder.path()).unwrap();
            assert_eq!(texts(folder.path()), [text; 3]);
            assert_eq!(fs::metadata(&key).unwrap().mode() & 0o777, PRIVATE);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn pipe_in_place_of_a_copy_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("key.pem");
        mkfifoat(CWD, &pipe, Mode::from_raw_mode(0o644)).unwrap();
        let error = copies("text").write(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("key.pem (OUTPUT_CERTS): not a regular file"), "{error}");
        assert_eq!(fs::metadata(&pipe).unwrap().mode() & 0o777, 0o644);
    }

    #[test]
    fn failure_keeps_the_former_pair() {
        let folder = tempfile::tempdir().unwrap();
        copies("old").write(folder.path()).unwrap();
        let chain = folder.path().join("cert-chain.pem");
        fs::remove_file(&chain).unwrap();
        fs::create_dir(&chain).unwrap();
        let error = copies("new").write(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.contains("OUTPUT_CERTS"), "{error}");
        assert_eq!(fs::read_to_string(folder.path().join("key.pem")).unwrap(), "old");
        fs::remove_dir(&chain).unwrap();
        copies("new").write(folder.path()).unwrap();
        assert_eq!(texts(folder.path()), ["new"; 3]);
    }
}
