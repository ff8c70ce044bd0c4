//! Tables of valid and invalid values.

use super::*;

#[test]
fn each_kind_accepts_what_istio_accepts() {
    for (kind, good, bad) in [
        (
            AnnotationKind::Cidrs,
            &["", "10.1.2.3/8", "fd00::/8,10.0.0.0/8"][..],
            &[
                "*",
                "10.1.2.3",
                "10.0.0.0/33",
                " 10.0.0.0/8",
                "10.0.0.0/08",
                "a/8",
                "10.0.0.0/8,",
                "fe80::%eth0/64",
            ][..],
        ),
        (AnnotationKind::CidrsOrAll, &["*", ""], &["*,10.0.0.0/8"]),
        (
            AnnotationKind::Ports,
            &["", " ", "80", "80, 90", " 080 ", "0"],
            &["*", "70000", "http", "-1", "+1", "80-90", "80,", "80,,90", ","],
        ),
        (
            AnnotationKind::PortRanges,
            &["", "80,,90", "80, 90,", ",", "8000-8010", "8000:8010,80"],
            &["*", "80,http", "90-80", "80-", "-80", "80-70000", "80-90-100"],
        ),
        (AnnotationKind::PortRangesOrAll, &["*", "", "80,8000-8010"], &["*,80"]),
        (AnnotationKind::PortsOrAll, &["*", "80"], &["*,80"]),
        (AnnotationKind::Port, &["0", " 15020 "], &["", "x", "65536"]),
        (
            AnnotationKind::Quantity,
            &["100m", "2", "128Mi", "1.5", "1e3", ".5", "+1", "0", "1E-18", ".", "Mi", "+", "-0"],
            &["", "100 m", "1.2.3", "5x", "1\n", "-1", "-100m", "1e1000", &"9".repeat(31)],
        ),
        (AnnotationKind::Seconds, &["0", "2147483647"], &["", "2147483648", "-1", "1s", "010"]),
        (
            AnnotationKind::Interfaces,
            &["", "eth0", "net1,eth-0.5"],
            &["0eth", "a b", "abcdefghijklmnop"],
        ),
        (AnnotationKind::InterceptionMode, &["NONE"], &["redirect", ""]),
        (
            AnnotationKind::Environment,
            &["{}", r#"{"A":"x","B c":1}"#],
            &["[]", "", "{", r#"{"":"x"}"#, r#"{"A=B":"x"}"#],
        ),
        (
            AnnotationKind::Volumes,
            &[
                "{}",
                "[]",
                "null",
                r#"{"v":{"emptyDir":{}}}"#,
                r#"{"v":{"name":"w","emptyDir":{}}}"#,
                r#"[{"name":"v","emptyDir":{}}]"#,
                r#"[{"emptyDir":{}}]"#,
                r#"[{"name":"v","configMap":{"name":"c","ofALaterVersion":1}}]"#,
            ],
            &[
                "",
                "5",
                r#""v""#,
                "[{}]",
                "[null]",
                "[[]]",
                r#"["v"]"#,
                r#"[{"name":"V_","emptyDir":{}}]"#,
                r#"{"v":5}"#,
                r#"{"v":null}"#,
                r#"{"v":{}}"#,
                r#"{"V_":{"emptyDir":{}}}"#,
                r#"{"":{"emptyDir":{}}}"#,
                r#"{"v-":{"emptyDir":{}}}"#,
                r#"{"v":{"name":"W_","emptyDir":{}}}"#,
                r#"{"v":{"name":null,"emptyDir":{}}}"#,
                r#"{"v":{"$patch":"delete"}}"#,
                r#"[{"name":"v","emptyDir":{},"HostPath":{"path":"/"}}]"#,
                // Kubernetes turns a volume without a source into an emptyDir.
                r#"[{"name":"v"}]"#,
                r#"{"v":{"emptyDir":null}}"#,
                r#"{"v":{"comfigMap":{"name":"c"}}}"#,
                r#"{"v":{"emptyDir":{},"mountPath":"/v"}}"#,
                r#"{"v":{"configMap":{"nmae":"c"}}}"#,
                r#"{"v":{"configMap":{"items":[{"key":"k","paht":"p"}]}}}"#,
            ],
        ),
        (
            AnnotationKind::VolumeMounts,
            &[
                "{}",
                "[]",
                "null",
                r#"{"v":{"mountPath":"/v","readOnly":true}}"#,
                r#"[{"name":"certs","mountPath":"/etc/certs","readonly":true}]"#,
                r#"[{"NAME":"v","mountpath":"/v"}]"#,
            ],
            &[
                r#"{"v":{}}"#,
                r#"{"v":{"mountPath":""}}"#,
                r#"{"v":{"mountPath":5}}"#,
                r#"[{"name":"v"}]"#,
                r#"[{"name":"v","mountPath":"/v","readonly":"true"}]"#,
                r#"[{"name":"v","mountPath":"/v","redOnly":true}]"#,
                r#"[{"name":"v","mountPath":"/v","other":true}]"#,
            ],
        ),
        (AnnotationKind::Tag, &["", "debug", "a_b.c-d"], &["a b", "a:b", "a/b", "debug ", "ü"]),
        (AnnotationKind::ConfigMap, &["c", "any thing"], &[""]),
        (AnnotationKind::Templates, &["", "a", "a, b"], &[&",".repeat(32)]),
        (
            AnnotationKind::Overrides,
            &["{}", "null", r#"{"containers":null}"#, r#"{"containers":[{"name":"c"}]}"#],
            &["[]", r#"{"containers":5}"#, r#"{"initContainers":["c"]}"#],
        ),
        (AnnotationKind::Switch, &["true", "FALSE", "1", "f"], &["", "yes", "tRUE", "on"]),
        (
            AnnotationKind::ProxyConfig,
            &["concurrency: 2", "concurrency: 2\nconcurrency: 3", "{}\n---\n{}", "{}", ""],
            &["concurrency: x", "[", "text"],
        ),
        (
            AnnotationKind::Image,
            &["a/b:c", "no-slash", "r.example:5000/a:1"],
            &["a/b c", "a/b\n", "a b", " ", "", "a/B"],
        ),
        (
            AnnotationKind::LogLevel,
            &["debug", "warning", "off"],
            &["", "Debug", "loud", "misc:debug"],
        ),
        (
            AnnotationKind::ComponentLogLevels,
            &["", "misc:error", "misc:error,http:trace"],
            &["debug", "misc:loud", "misc:info,"],
        ),
        (
            AnnotationKind::AgentLogLevels,
            &["info", "default:debug", "default:info,xdsproxy:debug"],
            &["", "warning", "default", "default:trace"],
        ),
        (
            AnnotationKind::HistogramBuckets,
            &[r#"{"cluster.x": [1, 10]}"#, "{}"],
            &["", "[1]", r#"{"cluster.x": [10, 1]}"#],
        ),
        (AnnotationKind::StatTags, &["", "a_b,c.d", "a, b,"], &["a b", "ü"]),
        (AnnotationKind::StatsInterval, &["", "5s", "100ms"], &["5", "0s", "10m"]),
        (AnnotationKind::Address, &["istiod.mesh.svc:15012"], &["", "istiod", "https://a:1"]),
    ] {
        for value in good {
            assert_eq!(kind.check(value), Ok(()), "{kind:?} {value:?}");
        }
        for value in bad {
            assert!(kind.check(value).is_err(), "{kind:?} {value:?}");
        }
    }
}

#[test]
fn invalid_word_gets_a_suggestion() {
    assert_eq!(
        AnnotationKind::InterceptionMode.check("tproxy").unwrap_err(),
        "is not REDIRECT, TPROXY or NONE; did you mean TPROXY?"
    );
    assert_eq!(
        AnnotationKind::Switch.check("ture").unwrap_err(),
        "is not true or false; did you mean true?"
    );
    assert_eq!(AnnotationKind::Switch.check("maybe").unwrap_err(), "is not true or false");
}

#[test]
fn invalid_list_item_is_named() {
    assert_eq!(
        AnnotationKind::Ports.check("80,,81").unwrap_err(),
        "is not a list of ports such as 80,8080: an item is empty"
    );
    assert_eq!(
        AnnotationKind::Ports.check("80,http").unwrap_err(),
        "is not a list of ports such as 80,8080: the item \"http\" is invalid"
    );
}
