//! Compressed archives: programs of each platform, manifests, the charts.

use super::Release;
use super::documentation::Documentation;
use super::folder::ReleaseFolder;
use crate::content::Content;
use crate::error::Result;
use crate::file_tree::FileTree;
use crate::programs::{self, ISTIOCTL_LINKS};

pub(super) fn write(
    release: &Release,
    documentation: &Documentation,
    folder: &mut ReleaseFolder,
    left_out: &mut Vec<String>,
) -> Result<()> {
    let time = release.origin.file_time();
    for build in &release.builds {
        let stem = format!("{}-linux-{}", release.stem(), build.platform.architecture());
        let mut files = FileTree::default();
        for program in programs::all() {
            let content = Content::File(build.programs.join(program.name));
            files.add_executable(&format!("{stem}/bin/{}", program.name), content);
        }
        for link in ISTIOCTL_LINKS {
            files.add_link(&format!("{stem}/bin/{link}"), "istioctl");
        }
        for name in DOCUMENTS {
            files.add(&format!("{stem}/{name}"), Content::File(release.workspace.join(name)));
        }
        for (name, page) in &documentation.manuals {
            files.add(&format!("{stem}/man/man1/{name}"), Content::Bytes(page.clone()));
        }
        for completion in &documentation.completions {
            let at = format!("{stem}/completions/{}/{}", completion.shell, completion.file_name());
            files.add(&at, completion.script.clone());
        }
        folder.add_archive(&format!("{stem}.tar.gz"), &files, time)?;
    }
    let mut manifests = FileTree::default();
    let stem = format!("{}-manifests", release.stem());
    let source = release.workspace.join("manifests");
    manifests.add_folder(&stem, &source)?;
    folder.add_archive(&format!("{stem}.tar.gz"), &manifests, time)?;
    for (name, below) in CHARTS {
        let source = source.join(below);
        if !source.exists() {
            left_out.push(format!("the chart {name}; {} does not exist", source.display()));
            continue;
        }
        let mut chart = FileTree::default();
        chart.add_folder(name, &source)?;
        let version = &release.origin.version;
        folder.add_archive(&format!("{name}-{version}.tgz"), &chart, time)?;
    }
    Ok(())
}

/// Helm charts, with their folders in `manifests`. The names of an archive and of its folder are
/// those of `helm package`.
const CHARTS: [(&str, &str); 2] = [("outrigger", "chart"), ("outrigger-cni", "cni-chart")];

const DOCUMENTS: [&str; 4] = ["CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md"];
