//! Pages of the documentation: their headings, links and blocks of code.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::programs::repository;
use crate::tool;

/// A page in Markdown.
#[derive(Debug)]
pub struct Page {
    /// Path from the root of the repository.
    pub path: String,
    /// Headings and blocks of code, in order.
    pub parts: Vec<Part>,
    /// Targets of links and images.
    pub links: Vec<String>,
}

/// A part of a page.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// The anchor of a heading, as Git hosts and mdBook make it.
    Heading(String),
    /// A fenced block.
    Code {
        /// First word after the fence.
        language: String,
        /// Number of the block's first line in the page.
        line: usize,
        /// Content.
        text: String,
    },
}

impl Page {
    /// Reads a page of the repository.
    pub fn read(path: &str) -> Result<Self> {
        let text = fs::read_to_string(repository().join(path));
        Ok(Self::parse(path, &text.with_context(|| format!("reading {path}"))?))
    }

    fn parse(path: &str, text: &str) -> Self {
        let mut page = Self { path: path.to_owned(), parts: Vec::new(), links: Vec::new() };
        let mut anchors = Anchors::default();
        // Text of the open heading or fenced block.
        let mut open = None::<String>;
        let mut line = 0;
        let events = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
        for (event, range) in events {
            match event {
                Event::Start(Tag::Heading { .. }) => open = Some(String::new()),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                    open = Some(String::new());
                    // The line after the fence.
                    line = text[..range.start].matches('\n').count() + 2;
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Text(part) | Event::Code(part) => {
                    if let Some(open) = &mut open {
                        open.push_str(&part);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let title = open.take().unwrap_or_default();
                    page.parts.push(Part::Heading(anchors.next(&title)));
                }
                Event::End(TagEnd::CodeBlock) => {
                    let fence = text[range].lines().next().unwrap_or_default();
                    let language = fence.trim_matches(['`', ' ']).split(' ').next();
                    let language = language.unwrap_or_default().to_owned();
                    if let Some(text) = open.take() {
                        page.parts.push(Part::Code { language, line, text });
                    }
                }
                _ => {}
            }
        }
        page
    }

    /// True if a heading of the page has the anchor.
    pub fn has_anchor(&self, anchor: &str) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Heading(own) if own == anchor))
    }
}

/// True if a file's name ends with the extension.
pub fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// Returns the paths of the tracked files of the repository below these, without deleted ones.
pub fn tracked(below: &[&str]) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "--"]).args(below);
    let listed = tool::output(git.current_dir(repository()), "")?;
    ensure!(listed.status.success(), "git ls-files: {}", listed.status);
    let listed = String::from_utf8(listed.stdout).context("git ls-files writes UTF-8")?;
    let exists = |path: &&str| repository().join(path).exists();
    let mut paths: Vec<_> = listed.lines().filter(exists).map(str::to_owned).collect();
    paths.sort();
    Ok(paths)
}

/// Anchors of the headings of a page, which are unique.
#[derive(Default)]
struct Anchors(HashMap<String, usize>);

impl Anchors {
    fn next(&mut self, title: &str) -> String {
        let kept = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        };
        let anchor: String = title.to_lowercase().chars().filter_map(kept).collect();
        let count = self.0.entry(anchor.clone()).or_default();
        *count += 1;
        if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_headings_blocks_and_links() {
        let text =
            "# A `b`, c\n\n1. [x](y.md#z)\n\n   ```sh\n   one \\\n     two\n   ```\n\n# A b c\n";
        let page = Page::parse("p.md", text);
        let code = Part::Code { language: "sh".into(), line: 6, text: "one \\\n  two\n".into() };
        let heading = |anchor: &str| Part::Heading(anchor.to_owned());
        assert_eq!(page.parts, [heading("a-b-c"), code, heading("a-b-c-1")]);
        assert_eq!(page.links, ["y.md#z"]);
    }
}
