//! Writes the images of our programs as archives for container tools.

use anyhow::Result;
use e2e::images;
use e2e::programs::{Programs, repository};

fn main() -> Result<()> {
    for image in images::ours(&Programs::find()?)? {
        let program = image.name().rsplit('/').next().unwrap_or_default();
        let program = program.split(':').next().unwrap_or_default();
        image.write_archive(&repository().join("dist").join(format!("{program}.image.tar")))?;
    }
    Ok(())
}
