//! `istioctl proxy-config` on dumps of a real Envoy.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn parts_are_shown_as_tables() {
    for part in ["cluster", "listener", "route", "secret"] {
        insta::assert_snapshot!(part, shown(&[part], "config_dump.json"));
    }
    insta::assert_snapshot!("endpoint", shown(&["endpoint"], "clusters.json"));
}

#[test]
fn flags_select_entries() {
    for (words, file, expected) in [
        (&["c", "--fqdn", "api.shop", "--port", "80"][..], "config_dump.json", &["api.shop"][..]),
        (&["c", "--direction", "inbound"], "config_dump.json", &["inbound"]),
        (&["l", "--port", "15001"], "config_dump.json", &["15001"]),
        (
            &["l", "--address", "10.96.0.1", "--type", "http"],
            "config_dump.json",
            &["10.96.0.1", "83"],
        ),
        (&["r", "--name", "81"], "config_dump.json", &["81"]),
        (
            &["ep", "--cluster", "outbound|81||web.shop.svc.cluster.local"],
            "clusters.json",
            &["|81|"],
        ),
        (&["ep", "--address", "10.0.0.2", "--port", "8090"], "clusters.json", &["10.0.0.2:8090"]),
    ] {
        let all = shown(&words[..1], file).lines().count();
        let selected = shown(words, file);
        let rows: Vec<_> = selected.lines().skip(1).collect();
        assert!(!rows.is_empty() && rows.len() + 1 < all, "{words:?}: {selected}");
        for row in rows {
            assert!(expected.iter().all(|text| row.contains(text)), "{words:?}: {row}");
        }
    }
    assert_eq!(shown(&["ep", "--status", "unhealthy"], "clusters.json").lines().count(), 1);
}

#[test]
fn json_is_what_envoy_has() {
    let json = |words: &[&str]| -> serde_json::Value {
        serde_json::from_str(&shown(words, "config_dump.json")).unwrap()
    };
    let clusters = json(&["cluster", "--fqdn", "api.other", "-o", "json"]);
    assert_eq!(clusters[0]["name"], "outbound|80||api.other.svc.cluster.local");
    assert_eq!(clusters[0]["type"], "EDS");
    assert_eq!(json(&["bootstrap"])[0]["node"]["cluster"], "web.shop");
    assert_eq!(json(&["all"]).as_array().unwrap().len(), 7);
}

#[test]
fn wrong_origin_is_named_with_a_hint() {
    let here = |name: &str| folder().join(name).display().to_string();
    for (words, code, said) in [
        (vec!["cluster".to_owned()], 2, "[TYPE/]NAME[.NAMESPACE]"),
        (vec!["cluster".to_owned(), "service/web".to_owned()], 2, "is not a kind with pods"),
        (vec!["c".to_owned(), "-f".to_owned(), here("none")], 1, "No such file"),
        (vec!["c".to_owned(), "-f".to_owned(), here("main.rs")], 1, "main.rs: not JSON"),
        (
            vec!["c".to_owned(), "-f".to_owned(), here("clusters.json")],
            1,
            "no list \"configs\", which Envoy's /config_dump?include_eds has",
        ),
        (
            vec!["ep".to_owned(), "-f".to_owned(), here("config_dump.json")],
            1,
            "GET '/clusters?format=json'",
        ),
    ] {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let (found, output, messages) = run(&words);
        assert_eq!((found, output.as_str()), (Some(code), ""), "{words:?}: {messages}");
        assert!(messages.contains(said), "{words:?}: {messages}");
    }
}

fn shown(words: &[&str], file: &str) -> String {
    let file = folder().join(file);
    let (code, output, messages) = run(&[words, &["--file", file.to_str().unwrap()]].concat());
    assert_eq!((code, messages.as_str()), (Some(0), ""), "{words:?}");
    output
}

fn run(words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_istioctl"));
    let output = command.arg("proxy-config").args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxy_config")
}
