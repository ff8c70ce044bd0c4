//! Memory of expensive templates: the allocated bytes stay within a multiple of the template's
//! budget.

use std::alloc::System;

use injector::budget::Budget;
use injector::inject::{Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use proptest::prelude::*;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A sixteenth of the budget of one rendering, which keeps the test short.
const UNITS: u64 = 4 << 20;

/// Copies that the engine and the functions make of a value that is charged once.
const COPIES: usize = 32;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn combined_functions_allocate_within_the_budget(body in body()) {
        let template = format!(
            "{{{{ define `t` }}}}{{{{ $x := . }}}}{{{{ $y := list }}}}{body}{{{{ end }}}}{{{{ $x := list `x` }}}}{{{{ $y := list }}}}{body}"
        );
        let config = json!({"templates": {"mine": template}}).to_string();
        let documents = Documents {
            inject_config: Some(Document { source: "the ConfigMap", text: &config }),
            ..Documents::default()
        };
        let settings = Settings::parse(&documents, Process::default()).unwrap();
        let pod = json!({
            "metadata": {"name": "web", "annotations": {"inject.istio.io/templates": "mine"}},
            "spec": {"containers": [{"name": "web", "image": "app:1"}]},
        });
        let region = Region::new(ALLOCATOR);
        let result =
            Budget::new(UNITS).enter(|| inject(&settings, Target::at_admission(pod, "shop")));
        let allocated = region.change().bytes_allocated;
        drop(result);
        let most = COPIES * usize::try_from(UNITS).unwrap();
        prop_assert!(allocated < most, "{} MiB for {template}", allocated >> 20);
    }
}

/// Generates actions that build values of `$x` and `$y`.
fn body() -> impl Strategy<Value = String> {
    let value = || {
        prop::sample::select(vec![
            "print $x $x",
            "list $x $x",
            "tuple $x $y",
            "dict `a` $x `b` $x",
            "concat (list $x $x) (list $y $x)",
            "append (list $x $x) $x",
            "prepend (list $x) $x",
            "repeat 50 (toString $x)",
            "toJson $x | indent 50",
            "nindent 1000 (repeat 1000 `\n`)",
            "splitList `` (toString $x)",
            "replace `x` (toString $x) (toString $x)",
            "printf `%v%[1]v%[1]v%10000v` $x",
            "until 10000",
            "quote (toString $x) (toString $x)",
            "squote $x $x | b64enc",
            "regexReplaceAll (print `[^x]` $x) (toString $x) (toString $x)",
            "regexFindAll `.` (toString $x) -1",
            "join (toString $x) (list $x $x $x)",
            "fromYaml (toYaml (list $x $x))",
            "fromJson (toPrettyJson (dict `a` $x `b` $x))",
            "merge (dict `a` $x) (dict `b` $x)",
            "deepCopy $x | default $y",
            "chunk 1 (list $x $x)",
            "html $x $x | js | urlquery",
            "(dict `a` (list $x $x)).a",
            "and $x $y (list $x $y)",
            "$y",
        ])
    };
    let leaf = prop_oneof![
        6 => value().prop_map(|value| format!("{{{{ $x = {value} }}}}")),
        2 => Just("{{ $y = append $y $x }}".to_owned()),
        1 => value().prop_map(|value| format!("{{{{ if {value} }}}}1{{{{ end }}}}")),
        1 => Just("{{ $x }}".to_owned()),
        1 => Just("{{ template `t` $x }}".to_owned()),
    ];
    let block = leaf.prop_recursive(3, 16, 5, move |inner| {
        let inner = prop::collection::vec(inner, 1..5).prop_map(|actions| actions.concat());
        prop_oneof![
            inner.clone(),
            inner.clone().prop_map(|inner| format!("{{{{ range 40 }}}}{inner}{{{{ end }}}}")),
            inner.clone().prop_map(|inner| format!("{{{{ range $x }}}}{inner}{{{{ end }}}}")),
            (value(), inner)
                .prop_map(|(value, inner)| format!("{{{{ with {value} }}}}{inner}{{{{ end }}}}")),
        ]
    });
    prop::collection::vec(block, 1..6).prop_map(|actions| actions.concat())
}
