//! Reads of regular files with a limit: a pipe does not stall the program, and no file fills its
//! memory.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use zeroize::Zeroizing;

/// Reads a regular file of at most 4 MiB.
pub fn read_file(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    read_file_up_to(path, LARGEST)
}

/// Reads a regular file of at most this many bytes.
pub fn read_file_up_to(path: &Path, largest: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let kind = if metadata.is_dir() { ErrorKind::IsADirectory } else { ErrorKind::Other };
        return Err(io::Error::new(kind, "not a regular file"));
    }
    if metadata.len() > largest {
        return Err(io::Error::other(format!("larger than {largest} bytes")));
    }
    // Reserved once: growing would leave copies of a key in freed memory.
    let room = usize::try_from(metadata.len()).unwrap_or_default();
    let mut content = Zeroizing::new(Vec::with_capacity(room));
    file.take(metadata.len()).read_to_end(&mut content)?;
    Ok(content)
}

/// Reads a regular file of at most 4 MiB that is UTF-8 text.
pub fn read_text_file(path: &Path) -> io::Result<Zeroizing<String>> {
    let content = read_file(path)?;
    match std::str::from_utf8(&content) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(error) => {
            let line = content[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
            let problem = format!("line {line} is not UTF-8 text");
            Err(io::Error::new(ErrorKind::InvalidData, problem))
        }
    }
}

/// All annotations of a pod have 256 KiB, and escapes in their file up to four times that. Roots of
/// all public authorities have as much, and a ConfigMap has 1 MiB.
const LARGEST: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn pipe_device_folder_and_large_file_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name| folder.path().join(name);
        mkfifoat(CWD, at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        File::create(at("large")).unwrap().set_len(LARGEST + 1).unwrap();
        let error = |path: &Path| read_file(path).unwrap_err().to_string();
        for path in [&at("pipe"), folder.path(), Path::new("/dev/zero")] {
            assert_eq!(error(path), "not a regular file", "{}", path.display());
        }
        assert_eq!(error(&at("large")), "larger than 4194304 bytes");
        fs::write(at("small"), "ab").unwrap();
        assert_eq!(**read_file(&at("small")).unwrap(), *b"ab");
        let error = read_file_up_to(&at("small"), 1).unwrap_err().to_string();
        assert_eq!(error, "larger than 1 bytes");
    }

    #[test]
    fn line_that_is_not_text_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("annotations");
        fs::write(&file, b"a=\"b\"\nc=\"\xff\"\n").unwrap();
        assert_eq!(read_text_file(&file).unwrap_err().to_string(), "line 2 is not UTF-8 text");
    }
}
