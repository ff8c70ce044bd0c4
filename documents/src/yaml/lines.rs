//! Lines of values in a YAML text.

use granit_parser::{Event, Parser};

/// Returns the line, from 1, of the key at a path such as `global.proxy.statusPort` or `a.list[2]`,
/// or of its nearest parent in the text; `None` if the text has neither.
pub fn line_of(text: &str, path: &str) -> Option<usize> {
    let options = granit_parser::options! { emit_comments: false };
    let events = Parser::new_from_str_with_options(text, options);
    let events = events.map_while(|next| next.ok().map(|(event, span)| (event, span.start.line())));
    let mut search = Search { events, path, depth: 0, found: None };
    search.document();
    search.found.map(|(_, line)| line)
}

struct Search<'a, E> {
    events: E,
    path: &'a str,
    depth: usize,
    /// Length of the part of the path that has been found, and its line.
    found: Option<(usize, usize)>,
}

impl<'a, 'text, E: Iterator<Item = (Event<'text>, usize)>> Search<'a, E> {
    /// Searches the first document, up to its end or the first syntax error.
    fn document(&mut self) -> Option<()> {
        loop {
            let (event, _) = self.events.next()?;
            if !matches!(event, Event::StreamStart | Event::DocumentStart(..)) {
                return self.value(&event, Some(self.path));
            }
        }
    }

    /// Searches a value; `rest` is the part of the path within it, `None` off the path.
    fn value(&mut self, event: &Event<'text>, rest: Option<&'a str>) -> Option<()> {
        self.depth += 1;
        if self.depth > MOST_LEVELS {
            return None;
        }
        match event {
            Event::MappingStart(..) => loop {
                let rest = match self.events.next()? {
                    (Event::MappingEnd, _) => break,
                    (Event::Scalar(key, ..), line) => {
                        let key = rest.and_then(|rest| after(rest.trim_start_matches('.'), &key));
                        key.inspect(|rest| self.found(rest, line))
                    }
                    (key, _) => {
                        self.value(&key, None)?;
                        None
                    }
                };
                let (event, _) = self.events.next()?;
                self.value(&event, rest)?;
            },
            Event::SequenceStart(..) => {
                for index in 0_usize.. {
                    let (event, line) = self.events.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        break;
                    }
                    let rest = rest.and_then(|rest| rest.strip_prefix(&format!("[{index}]")));
                    let rest = rest.inspect(|rest| self.found(rest, line));
                    self.value(&event, rest)?;
                }
            }
            _ => {}
        }
        self.depth -= 1;
        Some(())
    }

    fn found(&mut self, rest: &str, line: usize) {
        let length = self.path.len() - rest.len();
        if self.found.is_none_or(|(longest, _)| length > longest) {
            self.found = Some((length, line));
        }
    }
}

/// Returns the rest of a path that begins with the key.
fn after<'a>(path: &'a str, key: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(key).filter(|_| !key.is_empty())?;
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}

/// More levels than any settings document has.
const MOST_LEVELS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_blocks_and_in_json() {
        let block = "# first\nglobal:\n  a.b: {c: 1}\n  proxy: &p\n    x: |\n      statusPort: 1\n\
                     \x20   statusPort: abc\n  list:\n  - 1\n  - d:\n      e: 2\nlast: 1\n";
        let json = "{\n  \"global\": {\n    \"proxy\": {\n      \"statusPort\": 1\n    }\n  }\n}";
        for (text, path, line) in [
            (block, "global", Some(2)),
            (block, "global.proxy.statusPort", Some(7)),
            (block, "global.proxy.missing", Some(4)),
            (block, "global.a.b.c", Some(3)),
            (block, "global.list[0]", Some(9)),
            (block, "global.list[1].d.e", Some(11)),
            (block, "last", Some(12)),
            (block, "glob", None),
            (block, "statusPort", None),
            (json, "global.proxy.statusPort", Some(4)),
            ("a: [1\nb: 2", "b", None),
            ("", "a", None),
        ] {
            assert_eq!(line_of(text, path), line, "{path}");
        }
    }

    #[test]
    fn no_depth_overflows_the_stack() {
        let text = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        assert_eq!(line_of(&text, "a"), None);
    }
}
