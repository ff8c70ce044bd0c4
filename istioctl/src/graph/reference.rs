//! Picture of `docs/pictures.md`, drawn by the program.

use super::{pictures, tests};

#[test]
fn page_is_current() {
    let graph = tests::graph("").expect("the pages of the test");
    reference_pages::check("pictures/mesh.svg", &pictures::svg(&graph));
}
