//! Overlays that the configuration brings as Go templates.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use gtmpl_ng::{Limits, ParseError, Template, Value as Datum};
use serde_json::Value;

use super::asked::Asked;
use super::template_error::TemplateError;
use super::{chains, datum, fit, functions, guard, nesting, strings, typed};
use crate::yaml;

/// The templates of a configuration, parsed, with the values that they read.
#[derive(Clone)]
pub struct Templates {
    parsed: Arc<BTreeMap<String, Template>>,
    asked: Arc<Asked>,
    values: Arc<Datum>,
}

impl Templates {
    /// Parses all templates. An error names the template, the line and the column, and a function
    /// that there is not by its name.
    pub fn parse(texts: &BTreeMap<String, String>, values: &Value) -> Result<Self, TemplateError> {
        for (name, text) in texts {
            if let Some((place, problem)) = nesting::too_deep(text) {
                return Err(TemplateError::at(name, text, place, &problem));
            }
        }
        let written: Vec<_> =
            texts.values().map(|text| chains::written(&strings::rewritten(text))).collect();
        let parsed = texts.iter().zip(&written).map(|((name, text), written)| {
            let parsed = parse(written);
            let parsed = parsed.map_err(|error| TemplateError::of_parse(name, text, &error))?;
            Ok((name.clone(), parsed))
        });
        Ok(Self {
            parsed: Arc::new(parsed.collect::<Result<_, _>>()?),
            asked: Arc::new(Asked::by(&written)),
            values: Arc::new(datum::document(values)),
        })
    }

    /// Whether there is a template of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.parsed.contains_key(name)
    }

    /// What the templates ask for by name.
    pub(super) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// The values document as templates see it.
    pub(super) fn values(&self) -> &Datum {
        &self.values
    }

    /// Renders a template and reads the YAML that comes out.
    ///
    /// Limits hold for iterations, nesting and size; no clock is read.
    pub(super) fn render(&self, name: &str, data: Datum) -> Result<Value, TemplateError> {
        let failed = |problem: String| TemplateError::of_rendered(name, problem);
        let Some(template) = self.parsed.get(name) else {
            return Err(failed("there is no such template".to_owned()));
        };
        let text = template
            .render(&gtmpl_ng::Context::from(data))
            .map_err(|error| TemplateError::of_render(name, &error))?;
        if let Some(problem) = typed::problem(&text) {
            return Err(failed(problem));
        }
        // As in Istio, of a repeated key the last value counts.
        match yaml::parse_first(&text).map(|(document, _)| document) {
            Ok(document @ Value::Object(_)) => {
                let document = guard::release(document);
                match fit::misfit(&document) {
                    None => Ok(document),
                    Some(misfit) => Err(failed(format!("what it renders is no pod: {misfit}"))),
                }
            }
            Ok(Value::Null) => Ok(Value::Object(serde_json::Map::new())),
            Ok(_) => Err(failed("what it renders is not a mapping".to_owned())),
            Err(error) => {
                let line = text.lines().nth(error.line.saturating_sub(1)).unwrap_or_default();
                let line = guard::plain(line.trim());
                Err(failed(format!("what it renders is not YAML: {error}: {line:?}")))
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

fn parse(text: &str) -> Result<Template, ParseError> {
    let mut template = Template::with_limits(limits());
    // A definition in it may have any name, also its own.
    "\0".clone_into(&mut template.name);
    functions::add_to(&mut template);
    template.parse(text)?;
    Ok(template)
}

/// What one rendering may consume: room for the largest pod that a review can hold.
fn limits() -> Limits {
    Limits::default()
        .with_iterations(100_000)
        .with_function_output(MOST_BYTES)
        .with_output_bytes(MOST_BYTES)
}

const MOST_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_rendered_or_refused(pieces in prop::collection::vec(piece(), 0..24)) {
            let _ = render(&pieces.concat());
            let few = &pieces[..pieces.len().min(4)];
            let _ = render(&format!("{{{{ {} }}}}", few.join(" ")));
        }
    }

    fn piece() -> impl Strategy<Value = String> {
        let words = prop::sample::select(vec![
            "{{",
            "}}",
            "{{-",
            "-}}",
            " ",
            "\n",
            "if",
            "else",
            "end",
            "range",
            "with",
            "define",
            "template",
            "block",
            "break",
            "$x",
            ":=",
            "=",
            ",",
            "|",
            "(",
            ")",
            ".",
            ".Values",
            ".a",
            "nil",
            "`",
            "\"",
            "'",
            "\\",
            "/*",
            "*/",
            "1",
            "-1",
            "0x1p-2",
            "1e400",
            "'a'",
            "true",
            "a: ",
            "index",
            "slice",
            "printf",
            "\"%*d%[3]v\"",
            "trunc",
            "substr",
            "indent",
            "nindent",
            "repeat",
            "splitn",
            "list",
            "dict",
            "dig",
            "untilStep",
            "seq",
            "round",
            "toYaml",
            "fromYaml",
            "abbrevboth",
            "regexFind",
            "len",
            "html",
            "js",
        ]);
        prop_oneof![9 => words.prop_map(str::to_owned), 1 => "\\PC{0,3}"]
    }

    fn render(text: &str) -> Result<Value, TemplateError> {
        let texts = BTreeMap::from([("t".to_owned(), text.to_owned())]);
        let values = serde_json::json!({"a": {"b": 1}, "list": [1, 2], "empty": {}, "null": null});
        let templates = Templates::parse(&texts, &values)?;
        let data = Datum::Map([("Values".to_owned(), templates.values().clone())].into());
        templates.render("t", data)
    }

    #[test]
    fn go_semantics_hold() {
        for (text, expected) in [
            ("a: {{ `a\\d\"` | quote }}", "a\\d\""),
            (r#"a: '{{ print "\x41\u0042\101\u00e9" }}'"#, "ABAé"),
            ("a: '{{ if .Values.none }}1{{ else if .Values.a }}2{{ else }}3{{ end }}'", "2"),
            ("a: '{{ with .Values.a }}{{ .b }}{{ $.Values.a.b }}{{ else }}x{{ end }}'", "11"),
            ("{{ define `t` }}1{{ end }}a: '{{ template `t` . }}'", "1"),
            ("{{ define `d` }}{{ .b }}{{ end }}a: '{{ template `d` .Values.a }}'", "1"),
            ("a: '{{ range $k, $v := .Values.a }}{{ $k }}{{ $v }}{{ break }}{{ end }}'", "b1"),
            ("a: '{{ $x := 1 }}{{ range .Values.list }}{{ $x = . }}{{ end }}{{ $x }}'", "2"),
            ("a: '{{ range .Values.none }}1{{ else }}2{{ end }}'", "2"),
            ("a: '{{ .Values.none.deeper }}'", "<no value>"),
            ("a: '{{ (.Values.null).deeper }}'", "<no value>"),
            ("a: '{{ $x := .Values.null }}{{ if $x.y }}1{{ else }}2{{ end }}'", "2"),
            ("a: '{{ if (index .Values `null`).x }}1{{ else }}2{{ end }}'", "2"),
            ("a: '{{ if and false (fail `x`) }}1{{ end }}-'", "-"),
            ("a: '{{ printf \"%s-%d-%v-%t\" `s` 1 .Values.list true }}'", "s-1-[1 2]-true"),
            ("{{- /* c */ -}} a: '{{- `x` -}} '", "x"),
        ] {
            let rendered = render(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(rendered["a"], expected, "{text}");
        }
    }

    #[test]
    fn errors_name_template_line_and_column() {
        let errors: Vec<_> = [
            "a: 1\nb: {{ noSuch 1 }}\n",
            "a: {{ if }}\n",
            "a: 1\nb: {{ fail `on purpose` }}",
            "a: [{{ .Values.a.b }}\nb: 1",
            "- {{ .Values.a.b }}",
            "a: {{ print (semver `1.2.3`) | b64enc }}",
            "a: {{ semver `1.2.3` | quote }}",
        ]
        .into_iter()
        .map(|text| render(text).unwrap_err().to_string())
        .collect();
        insta::assert_snapshot!(errors.join("\n"), @r#"
        template "t", line 2, column 7: function noSuch not defined: "b: {{ noSuch 1 }}"
        template "t", line 1, column 10: missing value for if: "a: {{ if }}"
        template "t", line 2, column 7: on purpose
        template "t": what it renders is not YAML: line 2, column 2: illegal placement of ':' indicator: "b: 1"
        template "t": what it renders is not a mapping
        template "t", line 1, column 7: it prints a whole semver.Version: name one of its fields; range takes none
        template "t": it prints a whole semver.Version: name one of its fields; range takes none
        "#);
    }

    #[test]
    fn nesting_that_would_fill_the_stack_is_refused() {
        let deep = |n: usize| format!("a: {{{{ {}1{} }}}}", "(".repeat(n), ")".repeat(n));
        assert_eq!(render(&deep(90)).unwrap()["a"], 1);
        let long = |n: usize| {
            format!("{{{{ if 0 }}}}{}{{{{ else }}}}a: 1{{{{ end }}}}", "{{ else if 0 }}".repeat(n))
        };
        assert_eq!(render(&long(90)).unwrap()["a"], 1);
        let errors = [deep(5_000), long(20_000)].map(|text| render(&text).unwrap_err().to_string());
        assert!(
            errors[0].starts_with(
                "template \"t\", line 1, column 107: more than 100 parentheses in each other"
            ),
            "{}",
            errors[0]
        );
        assert!(errors[1].contains("more than 100 times `else if`"), "{}", errors[1]);
    }

    #[test]
    fn limits_hold() {
        let errors: Vec<_> = [
            "{{ range 1000000000 }}x{{ end }}",
            "{{ define `r` }}{{ template `r` . }}{{ end }}{{ template `r` . }}",
            "{{ $s := `x` }}{{ range 100 }}{{ $s = print $s $s }}{{ end }}",
            "{{ $l := list }}{{ range 1000 }}{{ $l = list $l }}{{ end }}",
        ]
        .into_iter()
        .map(|text| render(text).unwrap_err().to_string())
        .collect();
        insta::assert_snapshot!(errors.join("\n"), @r#"
        template "t", line 1, column 10: range over 1000000000 is more than the 100000 iterations allowed; this limit is fixed
        template "t", line 1, column 29: exceeded the maximum template nesting depth of 100; this limit is fixed
        template "t", line 1, column 34: a function produced a value larger than the 8388608 allowed; this limit is fixed
        template "t", line 1, column 36: a function produced a value nested deeper than the 128 levels allowed; this limit is fixed
        "#);
    }
}
