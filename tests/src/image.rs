//! Container images without a builder: docker archives written from files.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use crate::tool::run;

/// Content and configuration of an image.
#[derive(Debug, Clone)]
pub struct Image {
    name: String,
    entrypoint: Vec<String>,
    user: String,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
enum Entry {
    File { at: String, from: PathBuf, mode: u32 },
    Link { at: String, to: String },
}

impl Image {
    /// Returns an empty image with a full name (`docker.io/library/busybox:1.37`), run by root.
    pub fn new(name: &str, entrypoint: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            entrypoint: entrypoint.iter().map(|word| (*word).to_owned()).collect(),
            user: "0".to_owned(),
            entries: Vec::new(),
        }
    }

    /// Returns the full name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the user.
    #[must_use]
    pub fn user(mut self, user: u32) -> Self {
        self.user = user.to_string();
        self
    }

    /// Adds a file of this machine, executable if it is so here.
    pub fn file(mut self, at: &str, from: &Path) -> Result<Self> {
        let metadata = from.metadata().with_context(|| format!("reading {}", from.display()))?;
        let mode = if metadata.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 };
        self.entries.push(Entry::File { at: at.to_owned(), from: from.to_owned(), mode });
        Ok(self)
    }

    /// Adds a program and the shared libraries that it needs.
    pub fn program(mut self, at: &str, from: &Path) -> Result<Self> {
        for library in shared_libraries(from) {
            let library_at = library.to_string_lossy().into_owned();
            if !self.has(&library_at) {
                self = self.file(&library_at, &library)?;
            }
        }
        self.file(at, from)
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn link(mut self, at: &str, to: &str) -> Self {
        self.entries.push(Entry::Link { at: at.to_owned(), to: to.to_owned() });
        self
    }

    /// Writes an archive for `ctr images import` and `docker load`.
    pub fn write_archive(&self, path: &Path) -> Result<()> {
        let layer = path.with_extension("layer");
        self.write_layer(&layer).with_context(|| format!("writing {}", layer.display()))?;
        let config = self.config(&digest(&layer)?).to_string();
        let manifest = json!([{
            "Config": "config.json",
            "RepoTags": [self.name],
            "Layers": ["layer.tar"],
        }])
        .to_string();
        let write = || -> Result<()> {
            let mut archive = tar::Builder::new(BufWriter::new(File::create(path)?));
            append_bytes(&mut archive, "manifest.json", manifest.as_bytes())?;
            append_bytes(&mut archive, "config.json", config.as_bytes())?;
            append_file(&mut archive, "layer.tar", &layer, 0o644)?;
            archive.into_inner()?.flush()?;
            Ok(())
        };
        write().with_context(|| format!("writing {}", path.display()))?;
        fs::remove_file(&layer).with_context(|| format!("removing {}", layer.display()))
    }

    fn write_layer(&self, path: &Path) -> Result<()> {
        let mut layer = tar::Builder::new(BufWriter::new(File::create(path)?));
        for entry in &self.entries {
            match entry {
                Entry::File { at, from, mode } => {
                    append_file(&mut layer, relative(at), from, *mode)?;
                }
                Entry::Link { at, to } => {
                    let mut header = header(0, 0o777);
                    header.set_entry_type(tar::EntryType::Symlink);
                    layer.append_link(&mut header, relative(at), to)?;
                }
            }
        }
        layer.into_inner()?.flush()?;
        Ok(())
    }

    fn config(&self, layer_digest: &str) -> serde_json::Value {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        json!({
            "architecture": architecture,
            "os": "linux",
            "config": {
                "Entrypoint": self.entrypoint,
                "User": self.user,
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer_digest}")] },
        })
    }

    fn has(&self, path: &str) -> bool {
        self.entries.iter().any(|entry| match entry {
            Entry::File { at, .. } | Entry::Link { at, .. } => at == path,
        })
    }
}

/// Returns the libraries that the loader would open for a program; none for a static one.
fn shared_libraries(program: &Path) -> Vec<PathBuf> {
    // `ldd` fails for a program that is not dynamic, and prints that on standard error.
    run("ldd", [program]).map_or_else(|_| Vec::new(), |listing| libraries_in(&listing))
}

fn libraries_in(listing: &str) -> Vec<PathBuf> {
    let path_of =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    listing.lines().filter_map(path_of).collect()
}

fn append_bytes(archive: &mut tar::Builder<impl Write>, name: &str, bytes: &[u8]) -> Result<()> {
    let mut header = header(u64::try_from(bytes.len())?, 0o644);
    archive.append_data(&mut header, name, bytes)?;
    Ok(())
}

/// Appends a file without its owner and its time, so that equal files give equal archives.
fn append_file(
    archive: &mut tar::Builder<impl Write>,
    name: &str,
    from: &Path,
    mode: u32,
) -> Result<()> {
    let file = File::open(from)?;
    let mut header = header(file.metadata()?.len(), mode);
    archive.append_data(&mut header, name, file)?;
    Ok(())
}

fn header(size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn digest(path: &Path) -> Result<String> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut reader = BufReader::with_capacity(BUFFER, file);
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    let mut buffer = vec![0; BUFFER];
    loop {
        let length =
            reader.read(&mut buffer).with_context(|| format!("reading {}", path.display()))?;
        if length == 0 {
            break;
        }
        context.update(&buffer[..length]);
    }
    Ok(hex(context.finish().as_ref()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

const BUFFER: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_parsed_from_the_loader_listing() {
        let listing = "\tlinux-vdso.so.1 (0x00007f8bf6c15000)\n\
            \tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f8bf6b24000)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f8bf6c17000)\n";
        let expected = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(libraries_in(listing), expected.map(PathBuf::from));
    }

    #[test]
    fn same_files_make_the_same_archive() {
        let folder = tempfile::tempdir().unwrap();
        let archives = ["a", "b"].map(|name| {
            let file = folder.path().join(format!("hello-{name}"));
            fs::write(&file, "hello").unwrap();
            let image =
                Image::new("docker.io/library/hello:1", &["/hello"]).file("/hello", &file).unwrap();
            let archive = folder.path().join(name);
            image.write_archive(&archive).unwrap();
            fs::read(archive).unwrap()
        });
        assert!(archives[0] == archives[1]);
    }
}
