use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn any_template_text_is_rendered_or_rejected(pieces in prop::collection::vec(piece(), 0..24)) {
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
    let data = TemplateValue::Map([("Values".to_owned(), templates.values().clone())].into());
    templates.render("t", data)
}

#[test]
fn rendering_has_go_semantics() {
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
        ("a: '{{ with .Values.none }}1{{ else with .Values.a }}{{ .b }}{{ end }}'", "1"),
        ("a: '{{ with $x := 0 }}1{{ else with $y := 2 }}{{ $x }}{{ . }}{{ $y }}{{ end }}'", "022"),
        (
            "a: '{{ with 0 }}1{{ else with .Values.null }}2{{ else }}{{ .Values.a.b }}x{{ end }}-'",
            "1x-",
        ),
        (
            "a: '{{ range .Values.list }}{{ with 0 }}{{ else with . }}{{ . }}{{ break }}{{ end }}{{ end }}'",
            "1",
        ),
        ("a: '{{ with 1 }}{{ . }} {{- else with 2 -}} 3 {{- end -}} '", "1"),
    ] {
        let rendered = render(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(rendered["a"], expected, "{text}");
    }
}

#[test]
fn lists_appended_in_place_stay_values() {
    for (text, expected) in [
        ("$x := list }}{{ $x = append $x 1 }}{{ $x = append $x 2 }}{{ $x", "[1 2]"),
        ("$x := list }}{{ $x = append $x 1 }}{{ $y := $x }}{{ $x = append $x 2 }}{{ $y", "[1]"),
        ("$x := list 1 }}{{ $y := append $x 2 }}{{ $x = append $x 3 }}{{ $x }}{{ $y", "[1 3][1 2]"),
        ("$x := list }}{{ $x = append $x $x }}{{ $x = append $x (len $x) }}{{ $x", "[[] 1]"),
        ("$x := .Values.list }}{{ $x = append $x 3 }}{{ $x }}{{ .Values.list", "[1 2 3][1 2]"),
        (
            "$x := list }}{{ range .Values.list }}{{ $x = append $x . }}{{ end }}{{ len $x }}{{ index $x 1",
            "22",
        ),
        (
            "$x := list }}{{ $x = append $x 1 }}{{ if 1 }}{{ $x := list 5 }}{{ $x = append $x 6 }}{{ $x }}{{ end }}{{ $x",
            "[5 6][1]",
        ),
        (
            "$x := list }}{{ $x = append $x 1 }}{{ range $x }}{{ $x = append $x . }}{{ end }}{{ join `,` $x",
            "1,1",
        ),
        (
            "$x := .Values.null }}{{ $x = mustPush $x 1 }}{{ with $x }}{{ . }}{{ end }}{{ if $x }}y{{ end",
            "[1]y",
        ),
        (
            "define `d` }}{{ $x := . }}{{ $x = append $x 2 }}{{ $x }}{{ end }}{{ $x := list 1 }}{{ $x = append $x 9 }}{{ template `d` $x }}{{ $x",
            "[1 9 2][1 9]",
        ),
    ] {
        let text = format!("{{{{- $none := 0 -}}}}a: '{{{{ {text} }}}}'");
        let rendered = render(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(rendered["a"], expected, "{text}");
    }
    let problem = render("{{ $x := 1 }}{{ $x = append $x 1 }}").unwrap_err().to_string();
    assert_eq!(problem, "template \"t\", line 1, column 17: the number 1 where a list is expected");
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
        "{{ if .Values.a }}{{ print `\\a\nb` }}\n{{ if .Values }}{{ fail `here` }}{{ end }}{{ end }}",
        "{{ if .Values.a }}{{ else with .Values }}{{ end }}",
        "{{ with .Values.a }}{{ else with .Values }}{{ noSuch }}{{ end }}",
        "a: {{ if .Values.a.b.c }}{{ end }}",
    ]
    .into_iter()
    .map(|text| render(text).unwrap_err().to_string())
    .collect();
    insta::assert_snapshot!(errors.join("\n"), @r#"
    template "t", line 2, column 7: function noSuch not defined: "b: {{ noSuch 1 }}"
    template "t", line 1, column 10: missing value for if: "a: {{ if }}"
    template "t", line 2, column 7: on purpose
    template "t": its output is not YAML: line 2, column 2: illegal placement of ':' indicator: "b: 1"
    template "t": its output is not a mapping
    template "t", line 1, column 7: it prints a whole semver.Version: name one of its fields; range does not accept it
    template "t": it prints a whole semver.Version: name one of its fields; range does not accept it
    template "t", line 3, column 20: here
    template "t", line 1, column 27: unexpected with in else: "{{ if .Values.a }}{{ else with .Values }}{{ end }}"
    template "t", line 1, column 47: function noSuch not defined: "{{ with .Values.a }}{{ else with .Values }}{{ noSuch }}{{ end }}"
    template "t", line 1, column 10: the value has no fields: it is nil, a text, a number, true or false, or a list; test it with `if` or `with` first
    "#);
}

#[test]
fn excessive_nesting_is_rejected() {
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

/// Templates that keep to the engine's limits on steps and output, and yet took gigabytes or a
/// minute each.
const ATTACKS: [(&str, &str); 16] = [
    ("indented", r#"{{ indent 1000000 (repeat 1000000 "\n") }}"#),
    ("list", "{{ $x := list 1 }}{{ range 30 }}{{ $x = list $x $x }}{{ end }}"),
    ("concat", "{{ $x := list 1 }}{{ range 30 }}{{ $x = concat $x $x }}{{ end }}"),
    ("dict", "{{ $x := 1 }}{{ range 30 }}{{ $x = dict `a` $x `b` $x }}{{ end }}"),
    (
        "prints",
        "{{ $x := repeat 500000 `x` }}{{ range 10000 }}{{ $y := print $x $x $x $x }}{{ end }}",
    ),
    ("characters", "{{ $x := splitList `` (repeat 1000000 `x`) }}"),
    ("reads", "{{ $x := repeat 1000000 `x` }}{{ range 100000 }}{{ if $x }}{{ end }}{{ end }}"),
    ("conditions", "{{ $x := until 20000 }}{{ range 100000 }}{{ if and $x $x }}{{ end }}{{ end }}"),
    (
        "calls",
        "{{ define `t` }}{{ if lt (len .) 60 }}{{ template `t` (append . (repeat 100000 `x`)) }}\
         {{ template `t` (append . 1) }}{{ end }}{{ end }}{{ template `t` (list) }}",
    ),
    (
        "pattern",
        "{{ range $i := until 9999 }}{{ $y := regexMatch (print `(\\w{9}){2}` $i) `a` }}{{ end }}",
    ),
    ("matches", "{{ $y := regexFindAll `x*y|x` (repeat 500000 `x`) -1 }}"),
    ("set", "{{ $y := trimAll (print (repeat 1000000 `y`) `é`) (repeat 500000 `é`) }}"),
    ("unique", "{{ $y := uniq (until 30000) }}"),
    ("replaced", "{{ $y := replace `x` (repeat 100000 `y`) (repeat 10000 `x`) }}"),
    ("document", "{{ $y := fromYaml (print `[` (repeat 500000 `a,`) `]`) }}"),
    (
        "merges",
        "{{ $d := dict }}{{ range $i := until 20000 }}{{ $d = merge $d (dict (print $i) $i) }}{{ end }}",
    ),
];

#[test]
fn rendered_bytes_and_items_are_limited() {
    let repeated = |code: &str| code.repeat(3_000);
    let many = [
        (
            "steps",
            format!(
                "{{{{ range 999 }}}}{{{{ range 999 }}}}{}{{{{ end }}}}{{{{ end }}}}",
                repeated("{{ if 1 }}{{ end }}")
            ),
        ),
        (
            "variables",
            format!(
                "{{{{ $x := repeat 500000 `x` }}}}{{{{ $y := 0 }}}}{}",
                repeated("{{ $y = $x }}")
            ),
        ),
        (
            "arguments",
            format!("{{{{ $x := repeat 500000 `x` }}}}{{{{ len (list {}) }}}}", repeated(" $x")),
        ),
        ("widths", format!("{{{{ len (printf `{}` 1) }}}}", repeated("%100000d"))),
        ("indices", format!("{{{{ len (printf `{}` (repeat 100000 `x`)) }}}}", repeated("%[1]s"))),
    ];
    let attacks = ATTACKS.iter().map(|(name, text)| (*name, (*text).to_owned()));
    for (name, text) in attacks.chain(many) {
        // A sixteenth of the limit for one rendering.
        let problem = budget::Budget::new(4 << 20).enter(|| render(&text).unwrap_err());
        let problem = problem.to_string();
        assert!(
            problem.starts_with("template \"t\", line 1, column ")
                && problem.ends_with(" allowed; this limit is fixed"),
            "{name}: {problem}"
        );
    }
}

#[test]
fn spent_budget_ends_rendering_with_its_position() {
    let text = "a: 1\nb: {{ range 100 }}{{ if $.Values.a }}1{{ end }}{{ end }}";
    let render = || render(text).map_err(|error| error.to_string());
    let problem = budget::Budget::new(1_000).enter(render).unwrap_err();
    assert!(
        problem.starts_with("template \"t\", line 2, column ")
            && problem.ends_with("more than the 1000 units of work allowed; this limit is fixed"),
        "{problem}"
    );
    let cancelled = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let problem = budget::Budget::new(9_999_999).cancelled_by(cancelled).enter(render).unwrap_err();
    assert!(problem.ends_with(": the injection did not end in time"), "{problem}");
}

#[test]
fn template_limits_are_enforced() {
    let errors: Vec<_> = [
        "{{ range 1000000000 }}x{{ end }}",
        "{{ define `r` }}{{ template `r` . }}{{ end }}{{ template `r` . }}",
        "{{ $s := `x` }}{{ range 100 }}{{ $s = print $s $s }}{{ end }}",
        "{{ $l := list }}{{ range 1000 }}{{ $l = list $l }}{{ end }}",
        "{{ range 1000 }}{{ $s := repeat 1000000 `x` }}{{ end }}",
    ]
    .into_iter()
    .map(|text| render(text).unwrap_err().to_string())
    .collect();
    insta::assert_snapshot!(errors.join("\n"), @r#"
    template "t", line 1, column 10: range over 1000000000 is more than the 100000 iterations allowed; this limit is fixed
    template "t", line 1, column 29: exceeded the maximum template nesting depth of 100; this limit is fixed
    template "t", line 1, column 34: a function produced a value larger than the 2097152 allowed; this limit is fixed
    template "t", line 1, column 36: a function produced a value nested deeper than the 128 levels allowed; this limit is fixed
    template "t", line 1, column 20: the template creates more than the 67108864 bytes of values allowed; this limit is fixed
    "#);
}
