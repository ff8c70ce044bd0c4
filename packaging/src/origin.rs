//! Origin of a release: version, revision, source, time.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;

use crate::oci::Labels;

/// Version and source of a release.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Version of the workspace.
    pub version: String,
    /// Revision of the source code; none for a work tree with changes.
    pub revision: Option<Revision>,
    /// URL of the source code.
    pub source: Option<String>,
    /// Time of the revision.
    pub date: Option<SourceDate>,
    /// Name and address of the maintainer of Debian packages.
    pub maintainer: String,
}

impl Origin {
    /// Returns the labels of images.
    pub fn labels(&self) -> Labels {
        Labels {
            created: self.date.map(SourceDate::rfc3339),
            licenses: Some(LICENSE.to_owned()),
            revision: self.revision.clone().map(|revision| revision.0),
            source: self.source.clone(),
            version: Some(self.version.clone()),
        }
    }

    /// Returns the time of files; 1970 if the revision has none.
    pub fn file_time(&self) -> u64 {
        self.date.unwrap_or_default().seconds()
    }
}

/// Licence of this project.
pub(crate) const LICENSE: &str = "Apache-2.0";

/// Commit of git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision(String);

impl Revision {
    /// Returns the hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Revision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if digits && matches!(text.len(), 40 | 64) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("`{text}` is not a commit: expected 40 or 64 hexadecimal digits"))
    }
}

/// Time of a revision, as `SOURCE_DATE_EPOCH` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceDate(Timestamp);

impl SourceDate {
    fn seconds(self) -> u64 {
        self.0.as_second().unsigned_abs()
    }

    pub(crate) fn rfc3339(self) -> String {
        self.0.to_string()
    }

    /// Returns the time in the form of mail, for change logs of Debian.
    #[expect(clippy::expect_used, reason = "the message states the invariant")]
    pub(crate) fn rfc2822(self) -> String {
        let time = self.0.to_zoned(TimeZone::UTC);
        rfc2822::to_string(&time).expect("times after 1970 have a form in mail")
    }
}

impl Default for SourceDate {
    fn default() -> Self {
        Self(Timestamp::UNIX_EPOCH)
    }
}

impl FromStr for SourceDate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = text.parse().ok().filter(|seconds| *seconds >= 0);
        let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        time.map(Self).ok_or_else(|| {
            format!(
                "`{text}` is not a time: expected seconds since 1970, as of git log --format=%ct"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_date_has_the_forms_of_images_and_mail() {
        let date: SourceDate = "1764000000".parse().unwrap();
        assert_eq!(date.rfc3339(), "2025-11-24T16:00:00Z");
        assert_eq!(date.rfc2822(), "Mon, 24 Nov 2025 16:00:00 +0000");
        assert!("-1".parse::<SourceDate>().is_err());
    }

    #[test]
    fn abbreviated_revision_is_rejected() {
        assert!("0123456789abcdef0123456789abcdef01234567".parse::<Revision>().is_ok());
        assert!("0123456".parse::<Revision>().unwrap_err().contains("`0123456`"));
    }
}
