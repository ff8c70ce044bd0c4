//! Release notes: the section of a version in `CHANGELOG.md`.

/// Returns the section `## [VERSION]` of a changelog without its title, or `None` if there is none.
pub fn release_notes(changelog: &str, version: &str) -> Option<String> {
    let title = format!("## [{version}]");
    let is_title = |line: &&str| line.starts_with(&title);
    let section = changelog.lines().skip_while(|line| !is_title(line)).skip(1);
    let section: Vec<_> = section.take_while(|line| !line.starts_with("## ")).collect();
    let text = section.join("\n");
    let text = text.trim();
    (!text.is_empty()).then(|| format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2027-01-01\n\n\
        ### Added\n\n- `a`\n\n## [0.1.0] - 2026-12-01\n\n- first\n";

    #[test]
    fn notes_are_the_section_of_the_version() {
        let notes = release_notes(CHANGELOG, "0.2.0").unwrap();
        assert_eq!(notes, "### Added\n\n- `a`\n");
        assert_eq!(release_notes(CHANGELOG, "0.1.0").unwrap(), "- first\n");
    }

    #[test]
    fn absent_or_empty_section_gives_no_notes() {
        for version in ["0.3.0", "0.2", "Unreleased"] {
            assert_eq!(release_notes(CHANGELOG, version), None, "{version}");
        }
    }
}
