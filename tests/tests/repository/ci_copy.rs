//! `.ci/copy.sh`: cargo builds what a commit changed, and nothing else, however new the clone is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::netns::succeed;
use e2e::programs::repository;
use tempfile::TempDir;

#[test]
fn cargo_notices_changed_added_and_deleted_files_of_a_clone() {
    if !is_installed("rsync") {
        e2e::skipped_tests::record("the copy that CI uses", "rsync is not installed").unwrap();
        return;
    }
    let tree = Tree::create();
    tree.write("Cargo.toml", "[package]\nname = 'tree'\nedition = '2024'\n[workspace]\n");
    tree.write("src/main.rs", "mod word;\nfn main() { println!(\"{}\", word::WORD) }\n");
    tree.write("src/word.rs", "pub const WORD: &str = include_str!(\"word.txt\");\n");
    tree.write("src/word.txt", "one");
    assert_eq!(tree.run(), ("one".to_owned(), true));
    assert_eq!(tree.run(), ("one".to_owned(), false), "a new clone builds nothing");

    tree.write("src/word.txt", "two");
    assert_eq!(tree.run(), ("two".to_owned(), true), "a changed file that a macro reads");
    tree.write("src/word.txt", "one");
    assert_eq!(tree.run(), ("one".to_owned(), true), "a file as it was before the last build");

    tree.write("src/bin/other.rs", "fn main() {}\n");
    assert!(tree.run().1, "an added program");
    assert!(tree.built("other").exists());

    tree.remove("src/word.txt");
    let error = tree.build().unwrap_err().to_string();
    assert!(error.contains("word.txt"), "a deleted file: {error}");
}

/// A small package, its clone that is made anew for each build, and the copy of that clone.
struct Tree {
    folder: TempDir,
}

impl Tree {
    fn create() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("source")).unwrap();
        Self { folder }
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder("source").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, file: &str) {
        fs::remove_file(self.folder("source").join(file)).unwrap();
    }

    /// Returns the output of the program built from the copy, and whether cargo compiled anything.
    fn run(&self) -> (String, bool) {
        let messages = self.build().unwrap();
        let output = succeed(&mut Command::new(self.built("tree")), "").unwrap();
        (output.trim().to_owned(), messages.contains("Compiling"))
    }

    /// Returns the messages of cargo.
    fn build(&self) -> anyhow::Result<String> {
        let clone = self.folder("clone");
        let _ = fs::remove_dir_all(&clone);
        // Without their times, as git writes files.
        let mut copy = Command::new("cp");
        copy.arg("--recursive").args([&self.folder("source"), &clone]);
        succeed(&mut copy, "")?;
        let mut copy = Command::new(repository().join(".ci/copy.sh"));
        succeed(copy.args([&clone, &self.folder("copy")]), "")?;
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--offline", "--bins"]).current_dir(self.folder("copy"));
        let output = cargo.env("CARGO_TARGET_DIR", self.folder("target")).output()?;
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::ensure!(output.status.success(), "{messages}");
        Ok(messages)
    }

    fn built(&self, program: &str) -> PathBuf {
        self.folder("target").join("debug").join(program)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).exists())
}
