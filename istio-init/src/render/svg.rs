//! Minimal SVG writer: boxes, arrows and text, in colours for light and dark pages.

/// A drawing. Coordinates are pixels from the upper left corner.
#[derive(Clone, Debug, Default)]
pub struct Svg {
    body: String,
}

impl Svg {
    /// Adds a box with round corners: left, top, width, height.
    pub fn rect(&mut self, class: &str, [x, y, width, height]: [u32; 4]) {
        self.body.push_str("<rect");
        for (name, value) in [("x", x), ("y", y), ("width", width), ("height", height)] {
            self.attribute(name, &value.to_string());
        }
        self.attribute("rx", "8");
        self.attribute("class", class);
        self.body.push_str("/>\n");
    }

    /// Adds a line of text. The classes `m` and `e` place its middle or end at `x`.
    pub fn text(&mut self, class: &str, x: u32, y: u32, text: &str) {
        self.body.push_str("<text");
        self.attribute("x", &x.to_string());
        self.attribute("y", &y.to_string());
        self.attribute("class", class);
        self.body.push('>');
        escape(&mut self.body, text);
        self.body.push_str("</text>\n");
    }

    /// Adds a horizontal arrow.
    pub fn arrow(&mut self, class: &str, from: u32, to: u32, y: u32) {
        let head = if from < to { "m-8 -5 8 5-8 5" } else { "m8 -5-8 5 8 5" };
        let data = ["M", &from.to_string(), " ", &y.to_string(), "H", &to.to_string()].concat();
        // The head is no part of a dashed line.
        self.path(class, &data);
        let head = ["M", &to.to_string(), " ", &y.to_string(), head].concat();
        self.path(&[class, " h"].concat(), &head);
    }

    /// Adds a horizontal line that ends in a cross: a path that is barred.
    pub fn barred(&mut self, from: u32, to: u32, y: u32) {
        let (from, y) = (from.to_string(), y.to_string());
        let line = ["M", &from, " ", &y, "H", &to.to_string(), "m-6-6 12 12m0-12-12 12"];
        self.path("drop", &line.concat());
    }

    /// Adds a line by the commands of its path.
    pub fn path(&mut self, class: &str, data: &str) {
        self.body.push_str("<path");
        self.attribute("d", data);
        self.attribute("class", class);
        self.body.push_str("/>\n");
    }

    /// Returns the document. `title` and `description` are for readers that do not see it.
    pub fn finish(self, [width, height]: [u32; 2], title: &str, description: &str) -> String {
        let mut document = Self::default();
        let (width, height) = (width.to_string(), height.to_string());
        document.body.push_str("<svg xmlns=\"http://www.w3.org/2000/svg\"");
        document.attribute("viewBox", &["0 0 ", &width, " ", &height].concat());
        document.attribute("width", &width);
        document.attribute("height", &height);
        document.body.push_str(" role=\"img\">\n<title>");
        escape(&mut document.body, title);
        document.body.push_str("</title>\n<desc>");
        escape(&mut document.body, description);
        document.body.push_str("</desc>\n<style>");
        document.body.push_str(STYLE);
        document.body.push_str("</style>\n<rect width=\"100%\" height=\"100%\" class=\"page\"/>\n");
        document.body.push_str(&self.body);
        document.body.push_str("</svg>\n");
        document.body
    }

    fn attribute(&mut self, name: &str, value: &str) {
        self.body.push_str(&[" ", name, "=\""].concat());
        escape(&mut self.body, value);
        self.body.push('"');
    }
}

/// Returns a text of at most `most` characters, with an ellipsis if it is cut.
pub fn fitted(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// Divides a text into lines of at most `most` characters, at blanks, and within longer words.
pub fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        let line = lines.last_mut();
        if let Some(line) = line.filter(|line| line.chars().count() + word.len() < most) {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.extend(word);
            continue;
        }
        if lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        while word.len() > most {
            lines.push(word.drain(..most).collect());
        }
        lines.push(word.into_iter().collect());
    }
    lines
}

/// Appends text for XML; characters that XML excludes become U+FFFD.
fn escape(document: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => document.push_str("&amp;"),
            '<' => document.push_str("&lt;"),
            '>' => document.push_str("&gt;"),
            '"' => document.push_str("&quot;"),
            '\n' | '\t' => document.push(' '),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {
                document.push('\u{fffd}');
            }
            other => document.push(other),
        }
    }
}

/// Classes: `box` and `pod` for boxes; `in` for lines through the proxy, `past` for lines past it,
/// `drop`; `t` for titles, `s` for small text.
const STYLE: &str = "
.page{fill:#fff}
text{font:13px system-ui,Helvetica,Arial,sans-serif;fill:#1f2328}
.t{font-weight:600;font-size:15px}.s{font-size:11px;fill:#59636e}
.m{text-anchor:middle}.e{text-anchor:end}
.pod{fill:#f6f8fa;stroke:#8c959f}.box{fill:#fff;stroke:#59636e}.proxy{fill:#ddf4ff;stroke:#0969da}
path{fill:none;stroke-width:2}
.in{stroke:#0969da}.past{stroke:#9a6700;stroke-dasharray:6 4}
.drop{stroke:#d1242f}.h{stroke-dasharray:none}
@media(prefers-color-scheme:dark){
.page{fill:#0d1117}text{fill:#f0f6fc}.s{fill:#9198a1}
.pod{fill:#151b23;stroke:#656c76}.box{fill:#212830;stroke:#9198a1}
.proxy{fill:#0c2d6b;stroke:#4493f8}
.in{stroke:#4493f8}.past{stroke:#d29922}.drop{stroke:#f85149}}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_blanks_or_within_long_words() {
        assert_eq!(wrapped("a bc def", 4), ["a bc", "def"]);
        assert_eq!(
            wrapped("Deployment \"shop/gateway\"", 12),
            ["Deployment", "\"shop/gatewa", "y\""]
        );
        assert_eq!(wrapped("abcdef gh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrapped("", 3), [""]);
    }

    #[test]
    fn text_is_escaped_for_xml() {
        let mut svg = Svg::default();
        svg.text("t\"", 1, 2, "a<b>&\"c\"\u{1}\n\u{ffff}");
        let text = svg.finish([10, 20], "<t>", "&");
        let line = "<text x=\"1\" y=\"2\" class=\"t&quot;\">a&lt;b&gt;&amp;&quot;c&quot;\u{fffd} \
                    \u{fffd}</text>\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("<title>&lt;t&gt;</title>\n<desc>&amp;</desc>"), "{text}");
    }
}
