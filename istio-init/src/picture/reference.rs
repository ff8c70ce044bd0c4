//! Pictures of `docs/pictures.md`, drawn by the program.

use std::ffi::OsString;

use super::picture;
use crate::args::{Args, Environment};
use crate::config::{Config, PodEnvironment};
use crate::plan::plan;
use crate::render::capture_svg::svg;

#[test]
fn page_is_current() {
    for (name, flags) in PICTURES {
        let words = flags.split(' ').map(OsString::from);
        let args = Args::parse(words, &Environment::new()).expect("flags");
        let addresses = vec![[10, 0, 0, 5].into()];
        let pod = PodEnvironment { addresses, ..PodEnvironment::default() };
        let (config, _) = Config::read(&args, &pod).expect("values");
        reference_pages::check(&format!("pictures/{name}.svg"), &svg(&picture(&plan(&config))));
    }
}

/// Names and flags. The page shows the flags.
const PICTURES: [(&str, &str); 3] = [
    ("capture-default", "istio-init -i * -b * -d 15090,15021,15020"),
    (
        "capture-exclusions",
        "istio-init -i * -b * -d 22,8000-9000,15090 -x 10.96.0.0/12 -o 3306,5432 --redirect-dns \
         --capture-all-dns --drop-invalid",
    ),
    ("capture-tproxy", "istio-init -m TPROXY -b 8080 -i 10.0.0.0/8"),
];
