//! The commands of the documentation, run as a reader would run them: each page is a story in a
//! shell of its own, with our programs and a real API server.
//!
//! `pages/NAME/` has the files that a page names. Its scripts `ANCHOR.sh` prepare what the section
//! with that anchor takes for granted; `before.sh` belongs to the beginning of the page.
//!
//! Some pages run side by side, each with an API server and in a network namespace, in which
//! Services have their own addresses and ports.

mod deployments;
mod fixture;
mod not_run;
mod shell;
mod story;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use e2e::failure;
use e2e::fixture_pool::FixturePool;
use e2e::markdown::{Page, has_extension, tracked};
use libtest_mimic::{Arguments, Failed, Trial};

use fixture::Fixture;

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    let pages: Vec<_> = tracked(&PAGES)?
        .into_iter()
        .filter(|path| has_extension(path, "md"))
        .map(|path| Page::read(&path))
        .filter(|page| page.as_ref().map_or(true, story::has_commands))
        .collect::<Result<_>>()?;
    if arguments.list {
        return Ok(libtest_mimic::run(&arguments, trials(pages, None)).exit_code());
    }
    arguments.test_threads = Some(SIDE_BY_SIDE);
    let fixtures = Arc::new(FixturePool::new(SIDE_BY_SIDE, Fixture::start));
    let conclusion = libtest_mimic::run(&arguments, trials(pages, Some(&fixtures)));
    drop(fixtures);
    Ok(conclusion.exit_code())
}

fn trials(pages: Vec<Page>, fixtures: Option<&Arc<FixturePool<Fixture>>>) -> Vec<Trial> {
    let unused = not_run::expect_each_names_a_command(&pages);
    let exceptions = Trial::test("each_exception_names_a_command", || {
        unused.map_err(|error| Failed::from(format!("{error:#}")))
    });
    let page = |page: Page| {
        let fixtures = fixtures.map(Arc::clone);
        let name = page.path.clone();
        Trial::test(name.clone(), move || {
            let fixtures = fixtures.ok_or("it was only listed")?;
            let result = fixtures.run(move |fixture| story::run(fixture, &page));
            result.map_err(|error| Failed::from(failure::tell(&name, &error)))
        })
    };
    pages.into_iter().map(page).chain([exceptions]).collect()
}

/// Pages with commands for users and contributors.
const PAGES: [&str; 2] = [":(glob)*.md", "docs"];
const SIDE_BY_SIDE: usize = 2;
