//! Overlays rendered from the configuration's Go templates.

pub(crate) mod error;
pub(crate) mod escape;
mod functions;
mod rendering;
mod rewrite;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use documents::yaml;
use gtmpl_ng::{Limits, ParseError, Template, Value as TemplateValue};
use serde_json::Value;

use self::error::TemplateError;
use self::rewrite::edits::Rewritten;
use self::rewrite::{edits, metered, method_chains, nesting, string_literals};
use self::values::used_fields::UsedFields;
use self::values::{json, type_tag};
use crate::budget;
use crate::kubernetes::pod_schema;

/// Parsed templates of a configuration, with the values document that they read.
#[derive(Clone)]
pub struct Templates {
    parsed: Arc<BTreeMap<String, (Template, Source)>>,
    used_fields: Arc<UsedFields>,
    values: Arc<TemplateValue>,
}

impl Templates {
    /// Parses all templates. An error names the template, the line and the column, and an unknown
    /// function.
    pub fn parse(texts: &BTreeMap<String, String>, values: &Value) -> Result<Self, TemplateError> {
        for (name, text) in texts {
            if let Some((place, problem)) = nesting::too_deep(text) {
                return Err(TemplateError::at(name, text, place, &problem));
            }
        }
        let sources: Vec<_> = texts.values().map(|text| Source::new(text)).collect();
        let fields: Vec<_> = sources.iter().map(|source| source.fields.as_str()).collect();
        let used_fields = UsedFields::from_templates(&fields);
        let parsed = texts.iter().zip(sources).map(|((name, text), source)| {
            let parsed = parse(&source.metered.text).map_err(|error| {
                TemplateError::from_parse(name, text, &error, |place| source.place(place))
            });
            Ok((name.clone(), (parsed?, source)))
        });
        Ok(Self {
            parsed: Arc::new(parsed.collect::<Result<_, _>>()?),
            used_fields: Arc::new(used_fields),
            values: Arc::new(json::document(values)),
        })
    }

    /// True if there is a template of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.parsed.contains_key(name)
    }

    /// Returns the fields and methods that the templates name.
    pub(crate) fn used_fields(&self) -> &UsedFields {
        &self.used_fields
    }

    /// Returns the values document as template value.
    pub(crate) fn values(&self) -> &TemplateValue {
        &self.values
    }

    /// Renders a template and parses the resulting YAML.
    ///
    /// Iterations, nesting, output size and the size of all created values are limited. Rendering
    /// reads no clock.
    pub(crate) fn render(&self, name: &str, data: TemplateValue) -> Result<Value, TemplateError> {
        let failed = |problem: String| TemplateError::of_rendered(name, problem);
        let Some((template, source)) = self.parsed.get(name) else {
            return Err(failed("there is no such template".to_owned()));
        };
        let text = rendering::enter(|| template.render(&gtmpl_ng::Context::from(data)));
        let text = text
            .map_err(|error| TemplateError::of_render(name, &error, |place| source.place(place)))?;
        budget::spend(text.len() * rendering::YAML)
            .map_err(|exhausted| failed(exhausted.to_string()))?;
        if let Some(problem) = type_tag::problem(&text) {
            return Err(failed(problem));
        }
        // As in Istio, the last value of a repeated key counts.
        match yaml::parse_first(&text).map(|(document, _)| document) {
            Ok(document @ Value::Object(_)) => {
                let document = escape::release(document);
                match pod_schema::misfit(&document) {
                    None => Ok(document),
                    Some(misfit) => Err(failed(format!("its output is not a pod: {misfit}"))),
                }
            }
            Ok(Value::Null) => Ok(Value::Object(serde_json::Map::new())),
            Ok(_) => Err(failed("its output is not a mapping".to_owned())),
            Err(error) => {
                let line = text.lines().nth(error.line.saturating_sub(1)).unwrap_or_default();
                let line = escape::plain(line.trim());
                Err(failed(format!("its output is not YAML: {error}: {line:?}")))
            }
        }
    }
}

impl PartialEq for Templates {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.parsed, &other.parsed) && Arc::ptr_eq(&self.values, &other.values)
    }
}

impl fmt::Debug for Templates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.parsed.keys()).finish()
    }
}

/// Text of a template in the stages of its rewriting.
struct Source {
    strings: Rewritten,
    /// The text with rewritten field chains, byte for byte at the same positions.
    fields: String,
    metered: Rewritten,
    /// The text as written by the author.
    text: String,
}

impl Source {
    fn new(text: &str) -> Self {
        let strings = string_literals::rewritten(text);
        let fields = method_chains::written(&strings.text);
        let metered = metered::written(&fields);
        Self { strings, fields, metered, text: text.to_owned() }
    }

    /// Maps a line and column in the engine's text to those in the author's text.
    fn place(&self, place: (usize, usize)) -> (usize, usize) {
        let at = self.metered.origin(edits::byte_at(&self.metered.text, place));
        edits::place_of(&self.text, self.strings.origin(at))
    }
}

fn parse(text: &str) -> Result<Template, ParseError> {
    let mut template = Template::with_limits(limits());
    // A definition in the template may have any name, even that of the template.
    "\0".clone_into(&mut template.name);
    functions::add_to(&mut template);
    template.parse(text)?;
    Ok(template)
}

/// Returns the limits of one rendering, enough for the largest pod that a review can hold.
fn limits() -> Limits {
    Limits::default()
        .with_iterations(100_000)
        .with_function_output(MOST_BYTES)
        .with_output_bytes(MOST_BYTES)
}

const MOST_BYTES: usize = 2 << 20;
