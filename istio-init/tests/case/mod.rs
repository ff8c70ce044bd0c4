//! Cases of `testdata`, for several test programs.
//!
//! A case has one setting per line: `addresses`, `env`, `passwd`, `group`, `nameserver`,
//! `no-resolv-conf`, `link` (an interface), `no-evidence` (of a node), or a flag.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use istio_init::args::{Args, Environment};
use istio_init::config::host_evidence::Link;
use istio_init::config::{Config, InvalidConfig, PodEnvironment};
use istio_init::plan::{Plan, plan};

/// Returns the plan of a valid case.
#[allow(dead_code, reason = "not every test program needs it")]
pub(crate) fn planned(case: &Path) -> Plan {
    plan(&read(case).expect("a valid case").0)
}

pub(crate) fn read(case: &Path) -> Result<(Config, Vec<String>), InvalidConfig> {
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
