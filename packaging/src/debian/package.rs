//! Debian package as a file.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::content::Content;
use crate::error::{Error, Result};
use crate::file_tree::FileTree;
use crate::gzip;
use crate::platform::Platform;

/// A package: its control fields and its files.
#[derive(Debug, Clone)]
pub struct DebianPackage {
    /// Name.
    pub name: String,
    /// Version of the software; the package's own revision is not part of it.
    pub version: String,
    /// Platform of its programs.
    pub platform: Platform,
    /// Section of the archive.
    pub section: &'static str,
    /// Name and address of the maintainer.
    pub maintainer: String,
    /// Web page of the software.
    pub homepage: Option<String>,
    /// One line, without an article.
    pub summary: &'static str,
    /// Sentences below the summary.
    pub description: &'static str,
    /// Files, by their paths on the machine.
    pub files: FileTree,
}

impl DebianPackage {
    /// Returns the name of the file.
    pub fn file_name(&self) -> String {
        format!("{}_{}_{}.deb", self.name, self.version, self.platform.architecture())
    }

    /// Adds the licence, the change log and the override for static programs. `date` is in the form
    /// of mail (RFC 2822).
    pub fn add_documentation(&mut self, date: &str) -> Result<()> {
        let folder = format!("/usr/share/doc/{}", self.name);
        self.files.add(&format!("{folder}/copyright"), COPYRIGHT.to_owned());
        let entry = format!(
            "{} ({}) unstable; urgency=medium\n\n  * Release {}. CHANGELOG.md of the source code \
             has the changes.\n\n -- {}  {date}\n",
            self.name, self.version, self.version, self.maintainer
        );
        let compressed = gzip::compress(entry.as_bytes()).map_err(Error::pack("changelog.gz"))?;
        self.files.add(&format!("{folder}/changelog.gz"), Content::Bytes(compressed));
        let overrides = format!("{}: statically-linked-binary\n", self.name);
        self.files.add(&format!("/usr/share/lintian/overrides/{}", self.name), overrides);
        Ok(())
    }

    /// Writes the package. All its files have the time of the release.
    pub fn write(&self, time: u64, path: &Path) -> Result<()> {
        let mut control = FileTree::default();
        control.add("control", self.control()?);
        let file = BufWriter::new(File::create(path).map_err(Error::write(path))?);
        let mut package = ar::Builder::new(file);
        let members = [
            ("debian-binary", b"2.0\n".to_vec()),
            ("control.tar.gz", compressed_tar(&control, time)?),
            ("data.tar.gz", compressed_tar(&self.files, time)?),
        ];
        for (name, bytes) in members {
            let mut header = ar::Header::new(name.as_bytes().to_vec(), bytes.len() as u64);
            header.set_mode(0o100_644);
            header.set_mtime(time);
            package.append(&header, bytes.as_slice()).map_err(Error::write(path))?;
        }
        let mut file = package.into_inner().map_err(Error::write(path))?;
        file.flush().map_err(Error::write(path))
    }

    fn control(&self) -> Result<String> {
        let kibibytes = self.files.size()?.div_ceil(1024);
        let mut control = format!(
            "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: {}\n\
             Installed-Size: {kibibytes}\nSection: {}\nPriority: optional\n",
            self.name,
            self.version,
            self.platform.architecture(),
            self.maintainer,
            self.section
        );
        if let Some(homepage) = &self.homepage {
            let _ = writeln!(control, "Homepage: {homepage}");
        }
        let _ = writeln!(control, "Description: {}", self.summary);
        for line in self.description.lines() {
            let _ = writeln!(control, " {line}");
        }
        Ok(control)
    }
}

fn compressed_tar(files: &FileTree, time: u64) -> Result<Vec<u8>> {
    let mut encoder = gzip::encoder(Vec::new());
    files.write_tar(time, &mut encoder)?;
    encoder.finish().map_err(Error::pack("a package"))
}

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Outrigger

Files: *
Copyright: 2026 The authors of Outrigger
License: Apache-2.0
 On Debian systems, the text of the licence is in
 /usr/share/common-licenses/Apache-2.0.
Comment:
 The programs contain crates of other authors under permissive licences. The
 bill of materials of each program, which is published beside this package,
 names them with their licences.
";
