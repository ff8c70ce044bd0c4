//! Part of a program or an image.

use std::fmt;

use serde::Serialize;

use crate::digest::Digest;

/// Kind of a component, in the words of CycloneDX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ComponentKind {
    /// A program.
    Application,
    /// An image.
    Container,
    /// Data, such as root certificates.
    Data,
    /// A library.
    Library,
}

impl ComponentKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Container => "container",
            Self::Data => "data",
            Self::Library => "library",
        }
    }
}

/// A program, an image, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Component {
    #[serde(rename = "type")]
    kind: ComponentKind,
    #[serde(rename = "bom-ref")]
    pub(super) reference: String,
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hashes: Vec<Hash>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    licenses: Vec<License>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpe: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purl: Option<String>,
}

impl Component {
    /// Returns a component of this project. It has no package URL: scanners would look it up in
    /// the registry of Rust, where a stranger's package may have its name.
    pub fn own(kind: ComponentKind, name: &str, version: &str) -> Self {
        Self {
            kind,
            reference: format!("{}/{name}@{version}", kind.word()),
            name: name.to_owned(),
            version: version.to_owned(),
            hashes: Vec::new(),
            licenses: Vec::new(),
            cpe: None,
            purl: None,
        }
    }

    /// Returns a component that scanners find by its package URL.
    pub fn packaged(kind: ComponentKind, url: &PackageUrl<'_>) -> Self {
        let purl = url.to_string();
        let component = Self::own(kind, url.name, url.version);
        Self { reference: purl.clone(), purl: Some(purl), ..component }
    }

    /// Sets the digest of the file.
    #[must_use]
    pub fn sha256(self, digest: Digest) -> Self {
        self.checksum(digest.to_string())
    }

    /// Sets the hexadecimal SHA-256 digest of the file.
    #[must_use]
    pub fn checksum(mut self, content: String) -> Self {
        self.hashes = vec![Hash { alg: "SHA-256", content }];
        self
    }

    /// Sets the licence expression.
    #[must_use]
    pub fn license(mut self, expression: &str) -> Self {
        // Old packages write `/` for `OR`.
        let canonical = spdx::Expression::canonicalize(expression).ok().flatten();
        let expression = canonical.unwrap_or_else(|| expression.to_owned());
        self.licenses = vec![License { expression }];
        self
    }

    /// Sets the name that vulnerability databases have for the component.
    #[must_use]
    pub fn cpe(mut self, vendor: &str, product: &str) -> Self {
        self.cpe = Some(format!("cpe:2.3:a:{vendor}:{product}:{}:*:*:*:*:*:*:*", self.version));
        self
    }
}

/// Package URL.
#[derive(Debug, Clone, Copy)]
pub struct PackageUrl<'a> {
    /// Type of the package, and its namespace if there is one: `cargo`, `deb/debian`.
    pub kind: &'a str,
    /// Name of the package.
    pub name: &'a str,
    /// Version of the package.
    pub version: &'a str,
    /// Qualifiers (`arch=amd64`), or an empty text.
    pub qualifiers: &'a str,
}

impl fmt::Display for PackageUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, version] = [self.name, self.version].map(|text| text.replace('+', "%2B"));
        write!(f, "pkg:{}/{name}@{version}", self.kind)?;
        if self.qualifiers.is_empty() { Ok(()) } else { write!(f, "?{}", self.qualifiers) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Hash {
    alg: &'static str,
    content: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct License {
    expression: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_url_encodes_plus() {
        let url = PackageUrl {
            kind: "deb/debian",
            name: "libstdc++6",
            version: "12.2.0-14+deb12u1",
            qualifiers: "arch=amd64",
        };
        let expected = "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64";
        assert_eq!(url.to_string(), expected);
    }

    #[test]
    fn old_licence_is_written_as_expression() {
        let component = Component::own(ComponentKind::Library, "a", "1").license("MIT/Apache-2.0");
        assert_eq!(component.licenses[0].expression, "MIT OR Apache-2.0");
    }
}
