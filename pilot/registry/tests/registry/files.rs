//! Directories of files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use pilot_registry::event::{Event, Update};
use pilot_registry::files::{self, Directory, DirectoryUpdate};
use pilot_registry::index::Index;
use pilot_registry::manifest::ObjectDefaults;
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::fixture::{WEB, host, node, pod, service};

fn update(directory: &mut Directory, files: &[(&str, &str)]) -> DirectoryUpdate {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
    directory.update(&files.collect::<BTreeMap<_, _>>())
}

fn names(events: &[Event]) -> Vec<String> {
    let names = events.iter().flat_map(|event| match event {
        Event::Services(Update::Replace(all)) => {
            all.iter().map(|it| format!("service {}", it.name)).collect()
        }
        Event::Pods(Update::Replace(all)) => {
            all.iter().map(|it| format!("pod {}", it.workload.name)).collect()
        }
        Event::Nodes(Update::Replace(all)) => {
            all.iter().map(|it| format!("node {}", it.name)).collect()
        }
        _ => Vec::new(),
    });
    names.collect()
}

#[test]
fn first_update_lists_each_kind_and_later_ones_what_changed() {
    let mut directory = Directory::new(ObjectDefaults::default());
    let mut index = Index::default();
    for event in update(&mut directory, &[]).events {
        assert!(!index.is_listed());
        index.apply(event);
    }
    assert!(index.is_listed());
    let first = update(&mut directory, &[("a.yaml", WEB), ("b.yaml", &pod("p", "", "", ""))]);
    assert_eq!(names(&first.events), ["pod p", "service web"]);
    let second = update(&mut directory, &[("a.yaml", WEB), ("b.yaml", &node("n1", ""))]);
    assert_eq!(names(&second.events), ["node n1"]);
    assert_eq!(second.events.len(), 2, "nodes and pods");
    assert_eq!(update(&mut directory, &[("a.yaml", WEB), ("b.yaml", &node("n1", ""))]).events, []);
}

#[test]
fn broken_file_keeps_its_last_good_content_and_names_the_line() {
    let two = format!("# shop\n{WEB}{}", service("db", "", ""));
    for (broken, expected) in [
        ("---\na: [1\n", "a.yaml:2: "),
        ("---\na: 1\n---\nb: {x: 1, x: 2}\n", "a.yaml:4: "),
        (
            "\n---\n\n# c\napiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: x}",
            "a.yaml:5: Service: spec.ports: string \"x\" where a list is expected",
        ),
        (
            "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 70000}]}}",
            "a.yaml:1: Service: spec.ports[0].port: ",
        ),
        (
            "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{name: x}]}}",
            "a.yaml:1: Service default/a: a port without a number: expected 1–65535",
        ),
        ("{apiVersion: v1, kind: Pod}", "a.yaml:1: Pod without metadata.name"),
        ("{apiVersion: v1, kind: Pod, metadata: x}", "a.yaml:1: Pod: metadata: "),
        (
            "{apiVersion: v1, kind: Service, metadata: {name: '-a'}}",
            "a.yaml:1: Service default/-a: invalid hostname",
        ),
        ("\n[1]", ""),
        ("\u{feff}a: [", "a.yaml:1: "),
    ] {
        let mut directory = Directory::new(ObjectDefaults::default());
        update(&mut directory, &[("a.yaml", &two)]);
        let broken = update(&mut directory, &[("a.yaml", broken)]);
        if expected.is_empty() {
            assert_eq!(broken.warnings.len(), 1, "{broken:?}");
            continue;
        }
        assert_eq!(broken.events, [], "{expected}");
        let [warning] = &*broken.warnings else { panic!("{broken:?}") };
        assert!(warning.starts_with(expected), "{warning}");
        assert!(warning.ends_with("the file's last good content stays"), "{warning}");
    }
}

#[test]
fn text_that_is_not_utf8_is_reported_with_its_line() {
    let mut directory = Directory::new(ObjectDefaults::default());
    let files = BTreeMap::from([("a.yaml".to_owned(), b"a: 1\nb: \xff\n".to_vec())]);
    let warnings = directory.update(&files).warnings;
    assert_eq!(warnings, ["a.yaml:2: not UTF-8; the file's last good content stays"]);
}

#[test]
fn unknown_kinds_are_named_with_file_and_document() {
    let mut directory = Directory::new(ObjectDefaults::default());
    let text = format!("{WEB}---\napiVersion: apps/v1\nkind: Deployment\n");
    let update = update(&mut directory, &[("a.yaml", &text)]);
    assert_eq!(
        update.warnings,
        ["a.yaml:4: document 3 of kind \"Deployment\" and apiVersion \"apps/v1\" is ignored"]
    );
    assert_eq!(names(&update.events), ["service web"]);
}

#[test]
fn lists_are_taken_apart() {
    let list = "apiVersion: v1\nkind: List\nitems:\n\
                - {apiVersion: v1, kind: Pod, metadata: {name: a}}\n\
                - {apiVersion: v1, kind: Node, metadata: {name: b, namespace: x}}\n";
    let mut directory = Directory::new(ObjectDefaults::default());
    let update = update(&mut directory, &[("a.yaml", list)]);
    assert_eq!(
        (names(&update.events), update.warnings.len()),
        (vec!["node b".into(), "pod a".into()], 0)
    );
}

#[test]
fn first_file_counts_if_two_have_an_object() {
    let mut directory = Directory::new(ObjectDefaults::default());
    let update = update(&mut directory, &[("a.yaml", WEB), ("b.yaml", WEB)]);
    let expected = "b.yaml: Service shop/web is ignored: an earlier file has it";
    assert_eq!(
        (names(&update.events), update.warnings),
        (vec!["service web".into()], vec![expected.into()])
    );
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn watched_directory_follows_added_replaced_and_removed_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let place = folder.path().join("new");
        std::fs::write(&place, text).unwrap();
        std::fs::rename(place, folder.path().join(name)).unwrap();
    };
    let index = RefCell::new(Index::default());
    let offer = |update: DirectoryUpdate| {
        for event in update.events {
            index.borrow_mut().apply(event);
        }
    };
    let watch =
        files::watch(folder.path(), Duration::from_millis(10), ObjectDefaults::default(), offer);
    let known = |name: &str| index.borrow().snapshot().service(&host(name)).is_some();
    let script = async {
        write("README.md", "ignored");
        write("a.yaml", WEB);
        until(|| known("web")).await;
        write("a.yaml", &service("db", "", ""));
        until(|| known("db") && !known("web")).await;
        // Reading a pipe or a device would not end.
        mkfifoat(CWD, folder.path().join("b.yaml"), Mode::from_raw_mode(0o600)).unwrap();
        let error = files::read(folder.path()).unwrap_err().to_string();
        assert_eq!(error, "b.yaml: not a regular file");
        std::fs::remove_file(folder.path().join("b.yaml")).unwrap();
        std::fs::remove_file(folder.path().join("a.yaml")).unwrap();
        until(|| !known("db")).await;
    };
    tokio::select! { never = watch => match never {}, () = script => {} }
}

async fn until(condition: impl Fn() -> bool) {
    let probe = async || condition().then_some(()).ok_or("it does not hold");
    e2e::wait::until_async("the index follows the files", probe).await.unwrap();
}

#[test]
fn half_written_file_keeps_its_policies() {
    let policy = |name: &str| {
        format!(
            "kind: PeerAuthentication\napiVersion: security.istio.io/v1\nmetadata: {{name: {name}}}\n"
        )
    };
    let in_list = policy("c").replace('\n', ", ");
    let all =
        [policy("a"), policy("b"), format!("kind: List\napiVersion: v1\nitems: [{{{in_list}}}]")];
    let all = all.join("---\n");
    let mut directory = Directory::new(ObjectDefaults::default());
    let first = update(&mut directory, &[("a.yaml", &all)]);
    assert_eq!((first.istio.map(|all| all.len()), first.warnings), (Some(3), vec![]));
    for broken in [&all[..all.len() - 10], "", "kind: PeerAuth\n  x: ["] {
        let update = update(&mut directory, &[("a.yaml", &format!("{broken}{{"))]);
        assert_eq!(update.istio, None, "{broken}");
        assert!(update.warnings[0].ends_with("the file's last good content stays"), "{broken}");
    }
    let one = update(&mut directory, &[("a.yaml", &policy("a"))]);
    assert_eq!(one.istio.map(|all| all.len()), Some(1));
}
