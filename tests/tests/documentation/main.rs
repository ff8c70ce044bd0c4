//! The commands of the documentation, run as a reader would run them: each page is a story in a
//! shell of its own, with our programs and a real API server.
//!
//! `pages/NAME/` has the files that a page names. Its scripts `ANCHOR.sh` prepare what the section
//! with that anchor takes for granted; `before.sh` belongs to the beginning of the page.
//!
//! The pages run one after the other on the main thread, which the programs' lives depend on, in a
//! network namespace in which Services have their own addresses and ports.

mod deployments;
mod fixture;
mod not_run;
mod shell;
mod story;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use e2e::failure;
use e2e::markdown::{Page, has_extension, tracked};
use e2e::netns::Namespace;
use libtest_mimic::{Arguments, Failed, Trial};

use fixture::Fixture;
use not_run::Exceptions;

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
    arguments.test_threads = Some(1);
    let network = Namespace::create()?;
    network.ip(&format!("address add {SERVICES} dev lo"))?;
    network.enter()?;
    let fixture = Arc::new(Fixture::start()?);
    let conclusion = libtest_mimic::run(&arguments, trials(pages, Some(&fixture)));
    drop(fixture);
    Ok(conclusion.exit_code())
}

type PageTest = Box<dyn Fn(&Fixture) -> Result<()> + Send>;

fn trials(pages: Vec<Page>, fixture: Option<&Arc<Fixture>>) -> Vec<Trial> {
    let exceptions = Arc::<Exceptions>::default();
    let trial = |name: String, run: PageTest| {
        let fixture = fixture.map(Arc::clone);
        Trial::test(name.clone(), move || {
            let fixture = fixture.ok_or("it was only listed")?;
            run(&fixture).map_err(|error| Failed::from(failure::tell(&name, &error)))
        })
    };
    let mut trials: Vec<_> = pages
        .into_iter()
        .map(|page| {
            let exceptions = Arc::clone(&exceptions);
            let name = page.path.clone();
            trial(name, Box::new(move |fixture| story::run(fixture, &page, &exceptions)))
        })
        .collect();
    let last = "each_exception_names_a_command".to_owned();
    trials.push(trial(last, Box::new(move |_| exceptions.expect_all_used())));
    trials
}

/// Pages with commands for users and contributors.
const PAGES: [&str; 2] = [":(glob)*.md", "docs"];
/// The address range of Services.
const SERVICES: &str = "10.96.0.0/24";
