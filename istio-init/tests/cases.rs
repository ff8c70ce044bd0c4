//! Cases in `testdata`: flags, environment and pod, with the script of `--dry-run` or the errors.
//!
//! A case has one setting per line: `addresses`, `env`, `passwd`, `group`, `nameserver`,
//! `no-resolv-conf`, `link` (an interface), `no-evidence` (of a node), or a flag.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics has failed, as it should"
)]

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use istio_init::args::{Args, Environment};
use istio_init::config::host_evidence::Link;
use istio_init::config::{Config, InvalidConfig, PodEnvironment};
use istio_init::plan::plan;
use istio_init::render::{iptables, nft};

#[test]
fn plans() {
    insta::glob!("../testdata/plans", "*.case", |file| {
        let (config, warnings) = read(file).expect("a valid case");
        let mut text = String::new();
        for warning in warnings {
            let _ = writeln!(text, "# warning: {warning}");
        }
        insta::assert_snapshot!(text + &nft::script(&plan(&config)));
    });
}

#[test]
fn iptables_restore_texts() {
    insta::glob!("../testdata/plans", "*.case", |file| {
        let (config, _) = read(file).expect("a valid case");
        insta::assert_snapshot!(iptables::script(&plan(&config)));
    });
}

#[test]
fn refusals() {
    insta::glob!("../testdata/refusals", "*.case", |file| {
        insta::assert_snapshot!(read(file).expect_err("an invalid case"));
    });
}

fn read(case: &Path) -> Result<(Config, Vec<String>), InvalidConfig> {
    let text = fs::read_to_string(case).unwrap();
    let mut words = vec![OsString::from("istio-init")];
    let mut environment = Environment::new();
    let mut surroundings = PodEnvironment::default();
    for line in text.lines() {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        match key {
            "addresses" => {
                let addresses = value.split(' ').map(|address| address.parse().unwrap());
                surroundings.addresses = addresses.collect();
            }
            "env" => {
                let (name, value) = value.split_once('=').unwrap();
                environment.insert(name.to_owned(), value.to_owned());
            }
            "passwd" => surroundings.accounts.passwd += &[value, "\n"].concat(),
            "nameserver" => {
                let conf = surroundings.resolv_conf.as_mut().unwrap();
                *conf += &[line, "\n"].concat();
            }
            "no-resolv-conf" => surroundings.resolv_conf = Err(value.to_owned()),
            "link" => {
                let link = Link { name: value.to_owned(), ..Link::default() };
                surroundings.host.as_mut().unwrap().links.push(link);
            }
            "no-evidence" => surroundings.host = Err(value.to_owned()),
            "group" => surroundings.accounts.group += &[value, "\n"].concat(),
            flag if flag.starts_with("--") => words.push(flag.into()),
            flag => words.extend([flag.into(), value.into()]),
        }
    }
    Config::read(&Args::parse(words, &environment).unwrap(), &surroundings)
}
