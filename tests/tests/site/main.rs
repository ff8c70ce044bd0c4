//! The documentation site in a real browser: every page loads, text is readable in light and dark,
//! and wide tables scroll on a phone.
//!
//! `OUTRIGGER_SCREENSHOTS=FOLDER` keeps a picture of each page that is looked at.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

mod browser;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use browser::{Browser, Scheme};
use e2e::markdown::Page;
use e2e::netns::succeed;
use e2e::programs::{Programs, repository};

#[test]
fn pages_load_without_errors_and_other_hosts() {
    let mut browser = Browser::start().unwrap();
    browser.window(WIDE, Scheme::Light).unwrap();
    let summary = Page::read("docs/SUMMARY.md").unwrap();
    let mut wrong = Vec::new();
    for link in &summary.links {
        let visit = browser.open(&url(link)).unwrap();
        let title = browser.evaluate("document.querySelector('main h1').innerText").unwrap();
        wrong.extend(title.as_str().is_none().then(|| format!("{link}: it has no title")));
        let broken = browser.evaluate(BROKEN_IMAGES).unwrap();
        wrong.extend((broken != 0).then(|| format!("{link}: {broken} images are missing")));
        for target in browser.evaluate(LINKS).unwrap().as_array().unwrap() {
            let target = target.as_str().unwrap();
            let path = target.strip_prefix("file://").filter(|path| !Path::new(path).exists());
            wrong.extend(path.map(|path| format!("{link}: {path} is not there")));
        }
        let own = |url: &&String| url.starts_with("file:") || url.starts_with("data:");
        let foreign = visit.requests.iter().filter(|url| !own(url));
        wrong.extend(foreign.map(|url| format!("{link}: it asks for {url}")));
        wrong.extend(visit.errors.iter().map(|error| format!("{link}: {error}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn text_has_contrast_in_light_and_dark() {
    let mut browser = Browser::start().unwrap();
    let mut wrong = Vec::new();
    for scheme in [Scheme::Light, Scheme::Dark] {
        browser.window(WIDE, scheme).unwrap();
        for link in LOOKED_AT {
            browser.open(&url(link)).unwrap();
            browser.screenshot(&format!("{scheme:?}-{}", name(link))).unwrap();
            let found = browser.evaluate(include_str!("contrast.js")).unwrap();
            assert!(found["checked"].as_u64().unwrap() > 20, "{link}: {found}");
            let is_dark = found["background"].as_f64().unwrap() < 0.5;
            assert_eq!(is_dark, scheme == Scheme::Dark, "{link}: {found}");
            for text in found["low"].as_array().unwrap() {
                wrong.push(format!("{scheme:?} {link}: {}", text.as_str().unwrap()));
            }
        }
    }
    assert!(wrong.is_empty(), "text with too little contrast (WCAG AA):\n{}", wrong.join("\n"));
}

#[test]
fn wide_content_scrolls_on_a_phone() {
    let mut browser = Browser::start().unwrap();
    browser.window(PHONE, Scheme::Light).unwrap();
    let mut scrolled = 0;
    for link in LOOKED_AT {
        browser.open(&url(link)).unwrap();
        browser.screenshot(&format!("phone-{}", name(link))).unwrap();
        let width = browser.evaluate("document.documentElement.scrollWidth").unwrap();
        assert!(width.as_u64().unwrap() <= PHONE.0, "{link} is {width} wide");
        scrolled += browser.evaluate(SCROLLED_TABLES).unwrap().as_u64().unwrap();
    }
    assert!(scrolled > 0, "no table is wider than a phone: the check has no subject");
}

/// Returns the address of a page by its link in the summary.
fn url(link: &str) -> String {
    static SITE: LazyLock<PathBuf> = LazyLock::new(|| {
        let site = Path::new(env!("CARGO_TARGET_TMPDIR")).join("site");
        let mut build = Command::new(repository().join("docs/site.sh"));
        build.arg(Programs::find().unwrap().mdbook().unwrap()).arg(&site);
        succeed(&mut build, "").unwrap();
        site
    });
    let path = link.strip_prefix("../").map_or(format!("docs/{link}"), str::to_owned);
    let page = path.replace("README.md", "index.md");
    let page = Path::new(&page).with_extension("html");
    format!("file://{}", SITE.join(page).display())
}

fn name(link: &str) -> String {
    link.replace("../", "").replace(['/', '.'], "-")
}

/// Pages with every kind of content: prose, tables, code, pictures.
const LOOKED_AT: [&str; 7] = [
    "../README.md",
    "start.md",
    "capture.md",
    "install.md",
    "alerts.md",
    "reference/sidecar-injector.md",
    "differences/injection.md",
];
/// Width and height in CSS pixels.
const WIDE: (u64, u64) = (1280, 900);
const PHONE: (u64, u64) = (390, 844);
/// Addresses of the links in the text, without their anchors.
const LINKS: &str = "[...document.querySelectorAll('main a[href]')].map(link => decodeURI(link.href.split('#')[0]))";
const BROKEN_IMAGES: &str =
    "[...document.images].filter(image => image.complete && !image.naturalWidth).length";
const SCROLLED_TABLES: &str = "[...document.querySelectorAll('.table-wrapper')]
    .filter(table => table.scrollWidth > table.clientWidth).length";
