//! `/etc/resolv.conf`.

use std::fmt::Write as _;
use std::net::IpAddr;

use istio_init::args::{Args, Environment};
use istio_init::config::{Config, NameServers, PodEnvironment};
use istio_init::plan::plan;

use crate::plans;

/// Fuzzes the text of the file.
pub fn resolv_conf(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let lines = text.lines().count();
    let Some(servers) = read(text) else { return };
    assert!(servers.len() <= lines);
    assert!(servers.iter().all(|server| *server == server.to_canonical()));
    let mut again = String::new();
    for server in &servers {
        let _ = writeln!(again, "nameserver {server}");
    }
    assert_eq!(read(again).unwrap_or_default(), servers);
}

fn read(text: String) -> Option<Vec<IpAddr>> {
    let surroundings = PodEnvironment {
        addresses: vec!["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()],
        resolv_conf: Ok(text),
        ..PodEnvironment::default()
    };
    let words = ["istio-init", "--redirect-dns", "--dual-stack"].map(Into::into);
    let args = Args::parse(words, &Environment::new()).expect("flags that there are");
    match Config::read(&args, &surroundings) {
        Ok((config, _)) => {
            plans::check(&plan(&config));
            match config.dns {
                Some(NameServers::Only(servers)) => Some(servers),
                None => Some(Vec::new()),
                other @ Some(NameServers::All) => {
                    panic!("the servers of the file are asked for, not {other:?}")
                }
            }
        }
        Err(invalid) => {
            assert!(!invalid.0.is_empty());
            None
        }
    }
}
