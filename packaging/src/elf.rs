//! Programs in ELF, the format of Linux.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};

use goblin::elf::Elf;

use crate::error::{Error, Result};
use crate::platform::Platform;

/// Checks that a file is a program for a platform.
pub fn check_platform(program: &Path, platform: Platform) -> Result<()> {
    Parts::read(program, platform).map(drop)
}

/// Returns the loader and the shared libraries of a program, at any depth, by their path in an
/// image. A static program has none.
pub fn shared_libraries(program: &Path, platform: Platform) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut unread = vec![program.to_owned()];
    while let Some(file) = unread.pop() {
        let parts = Parts::read(&file, platform)?;
        let loader = parts.loader.iter().map(|path| (path.clone(), file_name(path)));
        let libraries = parts.libraries.iter().map(|name| (library_path(name, platform), name));
        for (at, name) in loader.chain(libraries.map(|(at, name)| (at, name.as_str()))) {
            if let Entry::Vacant(entry) = found.entry(at) {
                let library = find(program, name, platform)?;
                unread.push(library.clone());
                entry.insert(library);
            }
        }
    }
    Ok(found)
}

/// Parts of an ELF file that name other files.
struct Parts {
    loader: Option<String>,
    libraries: Vec<String>,
}

impl Parts {
    fn read(path: &Path, platform: Platform) -> Result<Self> {
        let bytes = fs::read(path).map_err(Error::read(path))?;
        let elf = Elf::parse(&bytes)
            .map_err(|source| Error::NotAProgram { path: path.to_owned(), source })?;
        if elf.header.e_machine != platform.elf_machine() {
            return Err(Error::OtherPlatform { path: path.to_owned(), platform });
        }
        Ok(Self {
            loader: elf.interpreter.map(str::to_owned),
            libraries: elf.libraries.into_iter().map(str::to_owned).collect(),
        })
    }
}

/// Returns the path at which Debian's loader looks for a library. The loader itself is a library
/// by its name, such as `ld-linux-x86-64.so.2`.
fn library_path(name: &str, platform: Platform) -> String {
    format!("/lib/{}/{name}", platform.multiarch())
}

fn find(program: &Path, library: &str, platform: Platform) -> Result<PathBuf> {
    let multiarch = platform.multiarch();
    let folders = [
        format!("/lib/{multiarch}"),
        format!("/usr/lib/{multiarch}"),
        // Libraries of a cross compiler.
        format!("/usr/{multiarch}/lib"),
    ];
    let candidates = folders.iter().map(|folder| Path::new(folder).join(library));
    candidates.into_iter().find(|path| path.exists()).ok_or_else(|| Error::NoLibrary {
        program: program.to_owned(),
        library: library.to_owned(),
        searched: folders.to_vec(),
    })
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_program_has_loader_and_libc() {
        let test = std::env::current_exe().unwrap();
        let libraries = shared_libraries(&test, Platform::host()).unwrap();
        let names: Vec<_> = libraries.keys().map(|path| file_name(path)).collect();
        assert!(names.contains(&"libc.so.6"), "{names:?}");
        assert!(names.iter().any(|name| name.starts_with("ld-linux")), "{names:?}");
    }

    #[test]
    fn program_of_another_platform_is_rejected() {
        let test = std::env::current_exe().unwrap();
        let other = Platform::ALL.into_iter().find(|one| *one != Platform::host()).unwrap();
        let error = check_platform(&test, other).unwrap_err();
        assert!(matches!(error, Error::OtherPlatform { .. }), "{error}");
    }
}
