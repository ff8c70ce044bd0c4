use super::*;

const ENTRY: &str =
    r#"{"capabilities":{"io.kubernetes.cri.pod-annotations":true},"type":"istio-cni"}"#;
const SINGLE: &str = r#"{"name":"lab","type":"bridge"}"#;
const PRIMARY: &str = "{\"name\": \"lab\",\n \"plugins\": [{\"type\": \"bridge\"}]}\n";

fn places() -> [Place; 4] {
    [Place::DropIn, Place::Own, Place::Edit(None), Place::Standalone(STANDALONE.to_owned())]
}

fn installation(place: Place) -> Installation {
    let entry = serde_json::from_str(ENTRY).unwrap();
    Installation { place, own_file: "00-istio-cni.conflist".to_owned(), entry }
}

fn folder(files: &[(&str, &str)]) -> ConfDir {
    ConfDir(files.iter().map(|(name, text)| ((*name).to_owned(), Ok((*text).to_owned()))).collect())
}

fn apply(folder: &mut ConfDir, change: &FolderChange) {
    match change {
        FolderChange::Write { file, text } | FolderChange::Edit { file, text } => {
            folder.0.insert(file.clone(), Ok(text.clone()));
        }
        FolderChange::Remove(file) => {
            assert!(folder.0.remove(file).is_some(), "{file} is not there");
        }
    }
}

fn installed(folder: &ConfDir, place: Place) -> ConfDir {
    let mut folder = folder.clone();
    for change in installation(place).changes(&folder.clone()).unwrap() {
        apply(&mut folder, &change);
    }
    folder
}

/// Network and plugins of the configuration that a runtime uses, which reads the first file by name, and drop-ins.
fn used(folder: &ConfDir) -> (String, Vec<Value>) {
    let first = folder.primary(&[STANDALONE]).unwrap().unwrap();
    let list: Value = serde_json::from_str(first.list.text()).unwrap();
    let mut plugins = list["plugins"].as_array().unwrap().clone();
    let drop_in = folder.text(&format!("{}/{DROP_IN}", first.list.name));
    plugins.extend(drop_in.map(|text| serde_json::from_str(text).unwrap()));
    (first.list.name, plugins)
}

fn is_captured(folder: &ConfDir) -> bool {
    used(folder).1.iter().skip(1).any(is_ours)
}

#[test]
fn entry_is_in_force_after_an_installation_and_nothing_changes_then() {
    for place in places() {
        let folder = installed(&folder(&[("10-lab.conflist", PRIMARY)]), place.clone());
        match &place {
            Place::Standalone(file) => {
                let text: Value = serde_json::from_str(folder.text(file).unwrap()).unwrap();
                assert_eq!((&text["name"], &text["type"]), (&TYPE.into(), &TYPE.into()));
            }
            _ => assert!(is_captured(&folder), "{folder:?}"),
        }
        assert_eq!(used(&folder).0, "lab");
        assert_eq!(installation(place).changes(&folder), Ok(Vec::new()));
    }
}

#[test]
fn entry_stays_in_force_between_the_steps_from_each_place_to_each_other() {
    let chained = [Place::DropIn, Place::Own, Place::Edit(None)];
    for (from, to) in chained.iter().flat_map(|from| chained.iter().map(move |to| (from, to))) {
        let mut folder = installed(&folder(&[("10-lab.conflist", PRIMARY)]), from.clone());
        for change in installation(to.clone()).changes(&folder.clone()).unwrap() {
            apply(&mut folder, &change);
            assert!(is_captured(&folder), "{from:?} to {to:?}: after {change:?}: {folder:?}");
            // A killed agent goes on with a plan of its own.
            assert!(is_captured(&installed(&folder, to.clone())), "{from:?} to {to:?}");
        }
        let entries = used(&folder).1.iter().filter(|it| is_ours(it)).count();
        assert_eq!(entries, 1, "{from:?} to {to:?}: {folder:?}");
        let primary = folder.text("10-lab.conflist") == Some(PRIMARY);
        assert_eq!(primary, *to != Place::Edit(None), "{from:?} to {to:?}: {folder:?}");
    }
}

#[test]
fn removal_leaves_the_folder_as_it_was() {
    let before =
        folder(&[("10-lab.conflist", PRIMARY), ("20-other.conf", r#"{"name":"o","type":"x"}"#)]);
    for place in places() {
        let mut folder = installed(&before, place.clone());
        for change in removal(&folder.clone()) {
            apply(&mut folder, &change);
            used(&folder);
        }
        assert_eq!(folder, before);
    }
}

#[test]
fn own_copy_follows_the_primary() {
    let folder = installed(&folder(&[("10-lab.conflist", PRIMARY)]), Place::Own);
    let mut changed = folder.clone();
    let other = PRIMARY.replace("bridge", "ptp");
    changed.0.insert("10-lab.conflist".to_owned(), Ok(other));
    let changed = installed(&changed, Place::Own);
    assert_eq!(used(&changed).1[0]["type"], "ptp");
    // It survives a primary that is gone, or that is just being written.
    let mut gone = folder.clone();
    gone.0.remove("10-lab.conflist");
    assert_eq!(installation(Place::Own).changes(&gone), Ok(Vec::new()));
    // Without a primary it is brought up to date from itself, and is valid or none.
    let outdated = folder.text("00-istio-cni.conflist").unwrap().replace("true", "false");
    gone.0.insert("00-istio-cni.conflist".to_owned(), Ok(outdated));
    assert_eq!(installed(&gone, Place::Own).0, {
        let mut expected = folder.0.clone();
        expected.remove("10-lab.conflist");
        expected
    });
    for broken in ["", "{", r#"{"name":"lab","plugins":[]}"#] {
        gone.0.insert("00-istio-cni.conflist".to_owned(), Ok(broken.to_owned()));
        assert_eq!(installation(Place::Own).changes(&gone), Err(NotYet::NoPrimary), "{broken}");
    }
    let mut truncated = folder.clone();
    truncated.0.insert("10-lab.conflist".to_owned(), Ok(String::new()));
    let error = installation(Place::Own).changes(&truncated).unwrap_err();
    assert!(matches!(error, NotYet::Invalid(_)), "{error}");
}

#[test]
fn own_copy_under_a_former_name_gives_way() {
    let before = folder(&[("10-lab.conflist", PRIMARY)]);
    let names = ["00-istio-cni.conflist", "02-istio-cni.conflist", "05-mine.conflist"];
    let pairs = names.iter().flat_map(|from| names.iter().map(move |to| (from, to)));
    for ((from, to), has_primary) in pairs.flat_map(|pair| [(pair, true), (pair, false)]) {
        let mut folder = before.clone();
        for change in own(from).changes(&before).unwrap() {
            apply(&mut folder, &change);
        }
        if !has_primary {
            folder.0.remove("10-lab.conflist");
        }
        let mut expected = folder.clone();
        let copy = expected.0.remove(*from).unwrap();
        expected.0.insert((*to).to_owned(), copy);
        for change in own(to).changes(&folder.clone()).unwrap() {
            apply(&mut folder, &change);
            assert!(is_captured(&folder), "after {change:?}: {folder:?}");
        }
        assert_eq!(folder, expected);
        assert_eq!(own(to).changes(&folder), Ok(vec![]));
        // The removal knows the copy by its content.
        let changes = removal(&folder);
        assert_eq!(changes, [FolderChange::Remove((*to).to_owned())]);
    }
}

#[test]
fn broken_copy_is_replaced_or_removed() {
    for text in ["", "{", r#"{"name":"lab","plugins":[]}"#] {
        let before = folder(&[("10-lab.conflist", PRIMARY), ("00-istio-cni.conflist", text)]);
        for place in [Place::DropIn, Place::Own, Place::Edit(None)] {
            let folder = installed(&before, place.clone());
            assert!(is_captured(&folder), "{place:?}: {folder:?}");
        }
        let gone = [FolderChange::Remove("00-istio-cni.conflist".to_owned())];
        assert_eq!(removal(&before), gone);
    }
}

#[test]
fn copy_under_another_name_is_no_primary() {
    for place in [Place::DropIn, Place::Own, Place::Edit(None)] {
        let mut folder = folder(&[("10-lab.conflist", PRIMARY)]);
        for change in own("05-mine.conflist").changes(&folder.clone()).unwrap() {
            apply(&mut folder, &change);
        }
        let folder = installed(&folder, place.clone());
        assert!(folder.text("05-mine.conflist").is_none(), "{place:?}: {folder:?}");
        assert!(is_captured(&folder), "{place:?}: {folder:?}");
    }
}

fn own(file: &str) -> Installation {
    Installation { own_file: file.to_owned(), ..installation(Place::Own) }
}

#[test]
fn nothing_is_written_without_a_valid_primary() {
    for place in [Place::DropIn, Place::Own, Place::Edit(None)] {
        let installation = installation(place);
        assert_eq!(installation.changes(&folder(&[])), Err(NotYet::NoPrimary));
        let invalid = folder(&[("10-lab.conflist", "{")]);
        let error = installation.changes(&invalid).unwrap_err().to_string();
        assert!(error.starts_with("10-lab.conflist: EOF"), "{error}");
    }
    let named = installation(Place::Edit(Some("87-b.conflist".to_owned())));
    let others = folder(&[("10-lab.conflist", PRIMARY)]);
    assert_eq!(named.changes(&others), Err(NotYet::NoFile("87-b.conflist".to_owned())));
}

#[test]
fn named_file_may_have_the_other_suffix() {
    for (name, file) in [("10-a.conf", "10-a.conflist"), ("10-a.conflist", "10-a.conf")] {
        let text = if file.ends_with("list") { PRIMARY } else { SINGLE };
        let before = folder(&[(file, text)]);
        let folder = installed(&before, Place::Edit(Some(name.to_owned())));
        assert!(is_captured(&folder), "{name}: {folder:?}");
    }
}

#[test]
fn file_of_a_single_plugin_is_copied_in_every_mode() {
    for place in [Place::DropIn, Place::Own, Place::Edit(None)] {
        let folder = installed(&folder(&[("10-lab.conf", SINGLE)]), place);
        assert!(is_captured(&folder), "{folder:?}");
        assert_eq!(folder.text("10-lab.conf"), Some(SINGLE));
    }
}

#[test]
fn lists_that_cannot_take_the_entry_are_named_with_a_hint() {
    let closed = PRIMARY.replace("\"name\"", "\"loadOnlyInlinedPlugins\": true, \"name\"");
    let closed = folder(&[("10-lab.conflist", &closed)]);
    let error = installation(Place::DropIn).changes(&closed).unwrap_err().to_string();
    assert!(
        error.starts_with("10-lab.conflist: ") && error.contains("--config-mode own"),
        "{error}"
    );
}

#[test]
fn standalone_file_replaces_none_of_another_plugin() {
    let alone = |file: &str| installation(Place::Standalone(file.to_owned()));
    let istio = r#"{"type":"istio-cni","name":"istio-cni"}"#;
    let before = folder(&[("10-lab.conflist", PRIMARY), (STANDALONE, istio)]);
    let error = alone("10-lab.conflist").changes(&before).unwrap_err();
    assert!(matches!(&error, NotYet::Foreign { file, .. } if file == "10-lab.conflist"), "{error}");
    // That of Istio is replaced in its place, and stays elsewhere.
    assert_eq!(alone(STANDALONE).changes(&before).unwrap().len(), 1);
    assert_eq!(removal(&before), []);
    assert_eq!(installed(&before, Place::Own).text(STANDALONE), Some(istio));
    // Ours gives way, whatever its name is.
    let ours = installed(&folder(&[]), Place::Standalone("istio-cni.conf".to_owned()));
    let gone = [FolderChange::Remove("istio-cni.conf".to_owned())];
    assert_eq!(removal(&ours), gone);
    assert_eq!(alone("other.conf").changes(&ours).unwrap()[1..], gone);
}

#[test]
fn plugin_that_wants_to_be_last_stays_behind_the_entry() {
    let other = |folder: &ConfDir| {
        let changed = folder.text("10-lab.conflist").unwrap();
        let changed = changed.replace("}]", "}, {\"type\": \"other\"}]");
        let mut folder = folder.clone();
        folder.0.insert("10-lab.conflist".to_owned(), Ok(changed));
        folder
    };
    for place in [Place::DropIn, Place::Own, Place::Edit(None)] {
        let before = folder(&[("10-lab.conflist", PRIMARY)]);
        let folder = installed(&other(&installed(&before, place.clone())), place.clone());
        assert!(is_captured(&folder), "{place:?}: {folder:?}");
        let types: Vec<_> = used(&folder).1.iter().map(|it| it["type"].to_string()).collect();
        assert!(types.contains(&"\"other\"".to_owned()), "{place:?}: {types:?}");
        assert_eq!(installation(place).changes(&folder), Ok(vec![]));
    }
}

#[test]
fn own_copy_keeps_plugins_that_others_add_behind_the_entry() {
    let mut folder = installed(&folder(&[("10-lab.conflist", PRIMARY)]), Place::Own);
    let copy = folder.text("00-istio-cni.conflist").unwrap().to_owned();
    let end = copy.rfind(']').unwrap();
    let behind = format!("{}, {{\"type\": \"rival\"}}{}", copy[..end].trim_end(), &copy[end..]);
    let mut with = |text: &str| {
        folder.0.insert("00-istio-cni.conflist".to_owned(), Ok(text.to_owned()));
        installation(Place::Own).changes(&folder)
    };
    assert_eq!(with(&behind), Ok(vec![]));
    for other in [
        behind.replace("istio-cni\"", "gone\""),
        behind.replacen("{\"type\"", "{\"type\": \"first\"}, {\"type\"", 1),
        behind.replace("\"lab\"", "\"other\""),
    ] {
        assert!(with(&other).is_ok_and(|changes| changes.len() == 1), "{other}");
    }
}

#[test]
fn file_of_another_program_with_the_own_name_stays() {
    let other = PRIMARY.replace("lab", "other");
    for (name, files) in [
        ("10-net.conflist", &[("10-net.conflist", PRIMARY)][..]),
        (
            "00-istio-cni.conflist",
            &[("00-istio-cni.conflist", &other), ("10-lab.conflist", PRIMARY)],
        ),
    ] {
        let before = folder(files);
        let error = own(name).changes(&before).unwrap_err().to_string();
        assert!(error.contains("--istio-owned-cni-config-filename"), "{error}");
        assert_eq!(removal(&before), []);
    }
    // A name that sorts behind it has no effect.
    let before = folder(&[("00-istio-cni.conflist", &other), ("10-lab.conflist", PRIMARY)]);
    let error = own("01-mine.conflist").changes(&before).unwrap_err();
    assert!(matches!(error, NotYet::SortsBehind { .. }), "{error}");
}

#[test]
fn edited_file_with_the_name_of_a_copy_stays() {
    let before = folder(&[("02-istio-cni.conflist", PRIMARY), ("10-net.conflist", PRIMARY)]);
    for name in [None, Some("02-istio-cni.conflist".to_owned())] {
        let place = Place::Edit(name);
        let folder = installed(&before, place.clone());
        assert!(is_captured(&folder), "{place:?}: {folder:?}");
        assert_eq!(installation(place.clone()).changes(&folder), Ok(vec![]));
        let changes = removal(&folder);
        let text = PRIMARY.to_owned();
        assert_eq!(
            changes,
            [FolderChange::Edit { file: "02-istio-cni.conflist".to_owned(), text }]
        );
    }
}

/// It sorts before the primary, so the runtime uses it.
#[test]
fn copy_of_an_agent_of_istio_that_was_killed_is_the_primary() {
    let istio =
        PRIMARY.replace("}]", "}, {\"type\": \"istio-cni\", \"plugin_log_level\": \"info\"}]");
    let before = folder(&[("02-istio-cni.conflist", &istio), ("10-lab.conflist", PRIMARY)]);
    for place in [Place::DropIn, Place::Own, Place::Edit(None)] {
        let mut folder = before.clone();
        for _ in 0..2 {
            folder = installed(&folder, place.clone());
            let plugins = used(&folder).1.into_iter();
            let entries: Vec<_> = plugins.filter(|it| it["type"] == TYPE).collect();
            assert!(entries.len() == 1 && is_ours(&entries[0]), "{place:?}: {entries:?}");
        }
        assert_eq!(installation(place).changes(&folder), Ok(vec![]));
    }
}

#[test]
fn entry_of_istio_is_replaced_where_it_is_in_force_and_stays_elsewhere() {
    let istio =
        PRIMARY.replace("}]", "}, {\"type\": \"istio-cni\", \"plugin_log_level\": \"info\"}]");
    let before = folder(&[("10-lab.conflist", &istio)]);
    for place in [Place::DropIn, Place::Own, Place::Edit(None)] {
        let folder = installed(&before, place.clone());
        assert_eq!(installation(place).changes(&folder), Ok(vec![]));
        let entries: Vec<_> = used(&folder).1.into_iter().filter(|it| it["type"] == TYPE).collect();
        assert!(entries.len() == 1 && is_ours(&entries[0]), "{entries:?}");
    }
    let mut folder = installed(&before, Place::Own);
    for change in removal(&folder.clone()) {
        apply(&mut folder, &change);
    }
    assert_eq!(folder, before);
}
