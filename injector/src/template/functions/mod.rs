//! Template functions: Go's built-ins, Istio's own, and those of sprig that read no clock, file,
//! network, environment or random number.
//!
//! Each file has one table of names and functions. Istio's functions replace sprig's of the same
//! name.

mod arguments;
mod builtins;
mod dicts;
mod digests;
mod durations;
mod encoding;
mod istio;
mod lists;
mod logic;
mod metering;
mod numbers;
mod patterns;
mod text;
mod versions;
mod words;

use gtmpl_ng::{Func, FuncError, Template, Value as TemplateValue};

use super::escape;

/// Adds all functions to a template.
pub(super) fn add_to(template: &mut Template) {
    for table in TABLES {
        template.add_funcs(table);
    }
    template.add_funcs(metering::TABLE);
}

/// Returns the names of all functions, without the internal ones for metering.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.into_iter().flatten().map(|(name, _)| *name)
}

/// Returns the reason why a sprig function is left out.
pub(super) fn left_out(name: &str) -> Option<&'static str> {
    LEFT_OUT.iter().find(|(names, _)| names.contains(&name)).map(|(_, why)| *why)
}

/// Result of a function.
type FunctionResult = Result<TemplateValue, FuncError>;

/// Table of functions by name.
type Table = &'static [(&'static str, Func)];

/// Builds a table of functions that charge for their arguments and results.
macro_rules! table {
    ($(($name:expr, $function:expr)),* $(,)?) => {
        &[$(($name, |arguments| super::metering::charged(arguments, $function))),*]
    };
}
use table;

/// Calls a function with the pod's original text and guards its result.
///
/// Required for functions that inspect or change text. Functions that only pass text on can take it
/// guarded.
fn on_plain(arguments: &[TemplateValue], function: Func) -> FunctionResult {
    if !arguments.iter().any(escape::holds) {
        return function(arguments);
    }
    let arguments: Vec<_> =
        arguments.iter().map(|argument| escape::rewrite(argument, escape::plain)).collect();
    function(&arguments).map(|result| escape::rewrite(&result, escape::guarded))
}

fn error(problem: impl Into<String>) -> FuncError {
    FuncError::Generic(problem.into())
}

/// Renders one expression, for tests against known results of Go.
#[cfg(test)]
fn shown(expression: &str, dot: TemplateValue) -> String {
    let mut template = Template::default();
    add_to(&mut template);
    if let Err(error) = template.parse(format!("{{{{ {expression} }}}}")) {
        return format!("error: {error}");
    }
    match template.render(&gtmpl_ng::Context::from(dot)) {
        Ok(text) => text,
        Err(error) => match error.as_structured() {
            Some(error) => format!("error: {}", error.message),
            None => format!("error: {error}"),
        },
    }
}

/// Checks expressions against the results of Go.
#[cfg(test)]
fn check(cases: &[(&str, &str)]) {
    for (expression, expected) in cases {
        assert_eq!(shown(expression, TemplateValue::Nil), *expected, "{expression}");
    }
}

const LEFT_OUT: [(&[&str], &str); 6] = [
    (
        &[
            "ago",
            "date",
            "dateInZone",
            "dateModify",
            "date_in_zone",
            "date_modify",
            "htmlDate",
            "htmlDateInZone",
            "mustDateModify",
            "mustToDate",
            "must_date_modify",
            "now",
            "toDate",
            "unixEpoch",
        ],
        "it reads the clock or a time zone, and the same pod must get the same result",
    ),
    (
        &[
            "randAlpha",
            "randAlphaNum",
            "randAscii",
            "randBytes",
            "randInt",
            "randNumeric",
            "shuffle",
            "uuidv4",
        ],
        "it is random, and the same pod must get the same result",
    ),
    (
        &[
            "bcrypt",
            "buildCustomCert",
            "decryptAES",
            "derivePassword",
            "encryptAES",
            "genCA",
            "genCAWithKey",
            "genPrivateKey",
            "genSelfSignedCert",
            "genSelfSignedCertWithKey",
            "genSignedCert",
            "genSignedCertWithKey",
            "htpasswd",
        ],
        "it creates keys or certificates or encrypts, which pod templates do not need",
    ),
    (&["set", "unset"], "it changes a mapping in place; `merge` gives its result"),
    (&["expandenv"], "a template does not see the environment of the injector"),
    (&["getHostByName"], "a template does not see the network"),
];

/// Tables in ascending precedence.
const TABLES: [Table; 13] = [
    builtins::TABLE,
    logic::TABLE,
    text::TABLE,
    numbers::TABLE,
    lists::TABLE,
    dicts::TABLE,
    digests::TABLE,
    durations::TABLE,
    encoding::TABLE,
    patterns::TABLE,
    versions::TABLE,
    words::TABLE,
    istio::TABLE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_page_names_every_function() {
        let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/templates.md"));
        let functions =
            page.split("## Functions").nth(1).unwrap().split("Left out").next().unwrap();
        let mut template = Template::default();
        add_to(&mut template);
        let known: std::collections::BTreeSet<_> = template
            .funcs
            .keys()
            .map(String::as_str)
            .filter(|name| !name.starts_with('_'))
            .collect();
        let named = functions.split('`').skip(1).step_by(2).collect();
        assert_eq!(known, named);
    }
}
