//! Errors of templates, with positions and names from the author's text.

use std::fmt;

use documents::{excerpt, suggest};
use go_types::Type;
use gtmpl_ng::{ExecError, ParseError};

use super::values::methods::Call;
use super::values::type_tag;
use super::{escape, functions};

/// Error in the parsing or rendering of a template.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TemplateError {
    name: String,
    /// Line and column, from 1, if known.
    place: Option<(usize, usize)>,
    problem: String,
}

impl TemplateError {
    /// Converts an error of the engine's parser. `of_text` maps positions to the author's text.
    pub(crate) fn from_parse(
        name: &str,
        text: &str,
        error: &ParseError,
        of_text: impl FnOnce((usize, usize)) -> (usize, usize),
    ) -> Self {
        let (place, problem) = match error {
            ParseError::WithContext(at, problem) => {
                (Some(of_text((at.line, at.col))), problem.clone())
            }
            other => (None, other.to_string()),
        };
        let problem = of_function(&problem).unwrap_or(problem);
        match place {
            Some(place) => Self::at(name, text, place, &problem),
            None => Self { name: name.to_owned(), place, problem },
        }
    }

    /// Returns an error at a line and column of the template's text.
    pub(crate) fn at(name: &str, text: &str, place: (usize, usize), problem: &str) -> Self {
        let line = text.lines().nth(place.0.saturating_sub(1));
        let problem = match line {
            Some(line) => format!("{problem}: {:?}", excerpt::shorten(line.trim())),
            None => problem.to_owned(),
        };
        Self { name: name.to_owned(), place: Some(place), problem }
    }

    /// Converts an error of a rendering. `of_text` maps positions to the author's text.
    pub(crate) fn of_render(
        name: &str,
        error: &ExecError,
        of_text: impl FnOnce((usize, usize)) -> (usize, usize),
    ) -> Self {
        let (place, problem) = match error.as_structured() {
            Some(error) => {
                let place = of_text((error.context.line, error.context.col));
                (Some(place), error.message.clone())
            }
            None => (None, error.to_string()),
        };
        Self { name: name.to_owned(), place, problem: reworded(&escape::plain(&problem)) }
    }

    /// Returns an error about the rendered output, without a position in the template.
    pub(crate) fn of_rendered(name: &str, problem: String) -> Self {
        Self { name: name.to_owned(), place: None, problem }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "template {:?}", self.name)?;
        if let Some((line, column)) = self.place {
            write!(f, ", line {line}, column {column}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for TemplateError {}

/// Rewrites the engine's message without the values in it, which come from a pod.
fn reworded(problem: &str) -> String {
    if let Some((field, value)) =
        problem.strip_prefix("no field `").and_then(|rest| rest.split_once("` in "))
    {
        return of_field(field, type_tag::printed_in(value));
    }
    if problem == "only maps and objects have fields" {
        return "the value has no fields: it is nil, a text, a number, true or false, or a list; \
                test it with `if` or `with` first"
            .to_owned();
    }
    if let Some(value) = problem.strip_prefix("range can't iterate over ") {
        let of = type_tag::printed_in(value).map_or("a single value", |of| of.name);
        return format!("range takes a list, a mapping or a whole number, not {of}");
    }
    if let Some((item, _)) =
        problem.strip_prefix("unable to get ").and_then(|rest| rest.split_once(" in "))
    {
        return format!("there is no item {item}");
    }
    let is_limit = problem.contains(" allowed") || problem.contains("maximum");
    if is_limit && !problem.ends_with("is fixed") {
        format!("{problem}; this limit is fixed")
    } else {
        problem.to_owned()
    }
}

fn of_field(field: &str, of: Option<&'static Type>) -> String {
    let called = of.is_some_and(|of| Call::parse(of, field).is_some());
    let field = &field.replace('_', ".");
    let Some(of) = of else { return format!("there is no field {field}") };
    if called {
        return format!("{field} of a {} is called on nil; test it with `if` first", of.name);
    }
    let names: Vec<_> = of.fields().map(|field| field.go).collect();
    let near = suggest::did_you_mean(field, &names);
    format!("a {} has no field {field}{near}", of.name)
}

/// Explains an unknown function: a sprig function that is left out, or a typing error.
fn of_function(problem: &str) -> Option<String> {
    let name = problem.strip_prefix("function ")?.strip_suffix(" not defined")?;
    if let Some(why) = functions::left_out(name) {
        return Some(format!("function {name} is not supported: {why}"));
    }
    let names: Vec<_> = functions::names().collect();
    let near = suggest::among(name, &names)?;
    Some(format!("{problem}; did you mean {near}?"))
}
