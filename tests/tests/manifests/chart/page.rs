//! Commands and the values file of `docs/helm.md`.

use std::fs;

use e2e::helm::chart;
use e2e::programs::repository;

use super::helm;

#[test]
fn commands_of_the_page_have_valid_values() {
    let page = page();
    let values = blocks(&page, "yaml").next().unwrap();
    let joined = blocks(&page, "sh").collect::<String>().replace("\\\n", "");
    let commands = joined.lines().filter(|line| line.contains(" manifests/chart "));
    let mut count = 0;
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        let ["helm", "install" | "upgrade", release, "manifests/chart", flags @ ..] = &words[..]
        else {
            panic!("{command}");
        };
        let chart = chart();
        let mut args = vec!["template", release, &chart, "--kube-version=1.35.0"];
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            match *flag {
                "--create-namespace" | "--wait" => {}
                "--namespace" => assert_eq!(flags.next(), Some(&"istio-system")),
                "--values" => {
                    assert_eq!(flags.next(), Some(&"values.yaml"));
                    args.push("--values=-");
                }
                "--set" => args.extend(["--set", flags.next().unwrap()]),
                flag => panic!("{command}: {flag}"),
            }
        }
        let rendered = helm().must(&args, values).unwrap();
        assert!(rendered.contains("kind: MutatingWebhookConfiguration"), "{command}");
        count += 1;
    }
    assert!(count >= 6, "{count} commands");
}

#[test]
fn error_of_the_page_is_what_helm_says() {
    let page = page();
    let session = blocks(&page, "console").next().unwrap();
    let (_, expected) = session.trim_end().split_once("INSTALLATION FAILED: ").unwrap();
    let args = ["template", "outrigger", &chart(), "--set", "global.hubb=registry.example.com"];
    let said = helm().must(&args, "").unwrap_err().to_string();
    assert!(said.contains(expected), "{said}");
}

fn page() -> String {
    fs::read_to_string(repository().join("docs/helm.md")).unwrap()
}

/// Blocks of code in a language.
fn blocks<'a>(page: &'a str, language: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!("```{language}\n");
    let pieces: Vec<&str> = page.split(&begin).skip(1).collect();
    pieces.into_iter().map(|piece| piece.split("```").next().unwrap())
}
