//! Names with which kustomize renders, and their expressions in the chart.

/// The revision while rendering. It cannot be part of another text.
pub(crate) const REVISION: &str = "tHeReViSiOn";
/// The tag while rendering.
pub(crate) const TAG: &str = "tHeTaG";

/// Definitions at the start of each template.
pub(crate) const DEFINITIONS: &str = "\
{{- $namespace := $.Release.Namespace }}
{{- $suffix := include \"outrigger.suffix\" $ }}
{{- $revision := include \"outrigger.revision\" $ }}
";

/// Texts that values decide, the longer ones first.
const EXPRESSIONS: [(&str, &str); 7] = [
    ("-tHeReViSiOn", "{{ $suffix }}"),
    (REVISION, "{{ $revision }}"),
    (TAG, "{{ $tag }}"),
    // Of the cluster, whichever is the namespace of the installation.
    ("istio-system", "{{ $namespace }}"),
    ("example.com/serving", "{{ $.Values.injector.certificates.signerName }}"),
    (
        "--client-allowed-names=kube-apiserver",
        "--client-allowed-names={{ join \",\" $.Values.injector.clientCertificates.allowedNames }}",
    ),
    ("https://outrigger.example/alerts.html", "{{ $.Values.prometheus.runbookUrl }}"),
];

/// Returns a text as the default revision has it.
pub(crate) fn without_revision(text: &str) -> String {
    text.replace(&format!("-{REVISION}"), "").replace(REVISION, "default")
}

/// Returns a text with the expressions of the chart in place of names, and the pieces between them
/// escaped.
pub(crate) fn expressed(text: &str, escape: impl Fn(&str) -> String) -> String {
    let mut result = String::new();
    let mut rest = text;
    loop {
        let found = EXPRESSIONS
            .iter()
            .chain(&[("{{", "{{ \"{{\" }}")])
            .filter_map(|(name, expression)| Some((rest.find(name)?, *name, *expression)))
            .min_by_key(|(place, ..)| *place);
        let Some((place, name, expression)) = found else { break };
        result.push_str(&escape(&rest[..place]));
        result.push_str(expression);
        rest = &rest[place + name.len()..];
    }
    result + &escape(rest)
}
