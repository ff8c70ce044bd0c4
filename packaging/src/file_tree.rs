//! Files of an image, an archive or a package.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::content::Content;
use crate::error::{Error, Result};

/// Files and links by path, in the order of their paths.
#[derive(Debug, Clone, Default)]
pub struct FileTree {
    nodes: BTreeMap<String, Node>,
}

#[derive(Debug, Clone)]
enum Node {
    File { content: Content, mode: u32 },
    Link { to: String },
}

impl FileTree {
    /// Adds a file that is not executable.
    pub fn add(&mut self, at: &str, content: impl Into<Content>) {
        self.insert(at, Node::File { content: content.into(), mode: 0o644 });
    }

    /// Adds an executable file.
    pub fn add_executable(&mut self, at: &str, content: Content) {
        self.insert(at, Node::File { content, mode: 0o755 });
    }

    /// Adds a file of this machine, executable if it is so here.
    pub fn add_file(&mut self, at: &str, from: &Path) -> Result<()> {
        let metadata = from.metadata().map_err(Error::read(from))?;
        let mode = if metadata.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 };
        self.insert(at, Node::File { content: Content::File(from.to_owned()), mode });
        Ok(())
    }

    /// Adds the files below a folder of this machine.
    pub fn add_folder(&mut self, at: &str, from: &Path) -> Result<()> {
        for path in files_below(from)? {
            let relative = path.strip_prefix(from).unwrap_or(&path).to_string_lossy();
            self.add_file(&format!("{at}/{relative}"), &path)?;
        }
        Ok(())
    }

    /// Adds a symbolic link.
    pub fn add_link(&mut self, at: &str, to: &str) {
        self.insert(at, Node::Link { to: to.to_owned() });
    }

    fn insert(&mut self, at: &str, node: Node) {
        self.nodes.insert(at.trim_start_matches('/').to_owned(), node);
    }

    /// Returns the sum of the sizes of all files.
    pub(crate) fn size(&self) -> Result<u64> {
        let sizes = self.nodes.values().map(|node| match node {
            Node::File { content, .. } => content.size(),
            Node::Link { .. } => Ok(0),
        });
        sizes.sum()
    }

    /// Writes a tar archive: every folder before its files, all of root, and of one time.
    pub(crate) fn write_tar(&self, time: u64, output: impl Write) -> Result<()> {
        let mut archive = tar::Builder::new(output);
        let mut folders = BTreeSet::new();
        for (path, node) in &self.nodes {
            for folder in folders_of(path) {
                if folders.insert(folder) {
                    let mut header = header(tar::EntryType::Directory, 0, 0o755, time);
                    let written =
                        archive.append_data(&mut header, format!("{folder}/"), [].as_slice());
                    written.map_err(Error::pack(folder))?;
                }
            }
            let written = match node {
                Node::File { content, mode } => {
                    let mut header = header(tar::EntryType::Regular, content.size()?, *mode, time);
                    archive.append_data(&mut header, path, content.reader()?)
                }
                Node::Link { to } => {
                    let mut header = header(tar::EntryType::Symlink, 0, 0o777, time);
                    archive.append_link(&mut header, path, to)
                }
            };
            written.map_err(Error::pack(path))?;
        }
        archive.into_inner().and_then(|mut output| output.flush()).map_err(Error::pack("a tar"))
    }
}

/// Returns the folders above a path, the outermost first.
fn folders_of(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(end, _)| &path[..end])
}

fn header(kind: tar::EntryType, size: u64, mode: u32, time: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(time);
    header
}

/// Returns the files below a folder at any depth, sorted.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::read(folder))? {
        let path = entry.map_err(Error::read(folder))?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_is_sorted_with_each_folder_once() {
        let mut tree = FileTree::default();
        tree.add("/usr/share/doc", "c".to_owned());
        tree.add_executable("/usr/bin/a", Content::Bytes(b"aa".to_vec()));
        tree.add_link("/usr/bin/b", "a");
        let mut bytes = Vec::new();
        tree.write_tar(7, &mut bytes).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let lines = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let (header, path) = (entry.header(), entry.path().unwrap().display().to_string());
            let (mode, time) = (header.mode().unwrap(), header.mtime().unwrap());
            format!("{path} {mode:o} {time} {}", header.size().unwrap())
        });
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "usr/ 755 7 0",
                "usr/bin/ 755 7 0",
                "usr/bin/a 755 7 2",
                "usr/bin/b 777 7 0",
                "usr/share/ 755 7 0",
                "usr/share/doc 644 7 1"
            ]
        );
    }
}
