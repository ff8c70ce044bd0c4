//! Writes the images of our programs as archives for container tools.

use anyhow::Result;
use e2e::image::Image;
use e2e::images;
use e2e::programs::{Programs, repository};

fn main() -> Result<()> {
    let programs = Programs::find()?;
    images::ours(&programs)?.iter().try_for_each(write)?;
    // Last: it alone needs `make setup`.
    write(&images::proxy(&programs, images::PROXY)?)
}

fn write(image: &Image) -> Result<()> {
    let program = image.name().rsplit('/').next().unwrap_or_default();
    let program = program.split(':').next().unwrap_or_default();
    image.write_archive(&repository().join("dist").join(format!("{program}.image.tar")))
}
