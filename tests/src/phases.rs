//! Stories on one fixture that is slow to start, such as a node.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::failure;

/// Actions of a user, and the results that they see.
pub type Story<F> = fn(&F) -> Result<()>;

/// Stories that do not disturb each other, with their names.
pub type Phase<F> = &'static [(&'static str, Story<F>)];

/// Lists stories with their names.
#[macro_export]
macro_rules! stories {
    ($($module:ident::$story:ident)*) => {
        &[$((stringify!($story), $module::$story)),*]
    };
}

/// Starts the fixture, runs phases one after the other and the stories of a phase side by side, and
/// stops the fixture; `stop` is told whether a story has failed.
///
/// The fixture starts on the thread of the caller, and a phase of one story runs there, so programs that
/// they start live on.
pub fn run<F: Send + Sync + 'static>(
    phases: &[Phase<F>],
    start: impl FnOnce() -> Result<F>,
    stop: impl FnOnce(F, bool) -> Result<()>,
) -> Result<ExitCode> {
    let arguments = Arguments::from_args();
    let fixture = if arguments.list { None } else { Some(Arc::new(start()?)) };
    let (mut failed, mut count) = (false, 0);
    for phase in phases {
        let mut arguments = arguments.clone();
        let threads = arguments.test_threads.unwrap_or(SIDE_BY_SIDE);
        arguments.test_threads = Some(threads.min(phase.len()));
        let trials = phase.iter().map(|(name, story)| trial(name, *story, fixture.clone()));
        let conclusion = libtest_mimic::run(&arguments, trials.collect());
        failed |= conclusion.has_failed();
        count += conclusion.num_passed + conclusion.num_failed;
    }
    if let Some(fixture) = fixture {
        stop(Arc::into_inner(fixture).context("a story still holds the fixture")?, failed)?;
        ensure!(count > 0, "no story has {:?} in its name", arguments.filter);
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[expect(clippy::print_stderr, reason = "the longest stories are to be seen")]
fn trial<F: Send + Sync + 'static>(
    name: &'static str,
    story: Story<F>,
    fixture: Option<Arc<F>>,
) -> Trial {
    Trial::test(name, move || {
        let fixture = fixture.ok_or("it was only listed")?;
        let begin = Instant::now();
        let outcome = story(&fixture).map_err(|error| failure::tell(name, &error));
        eprintln!("{name}: {} s", begin.elapsed().as_secs());
        outcome.map_err(Failed::from)
    })
}

/// Most of a story is waiting.
const SIDE_BY_SIDE: usize = 4;
