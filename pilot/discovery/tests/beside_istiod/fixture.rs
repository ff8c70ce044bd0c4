//! Both control planes, and the comparison of their answers.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::api_servers::ApiServers;
use e2e::http;
use e2e::istio_programs::{IstioPrograms, Istiod};
use e2e::port::free_port;
use e2e::process::Process;
use e2e::programs::Programs;
use e2e::wait::until;
use tokio::runtime::Runtime;

use crate::client::{Proxy, Stream};
use crate::differences::{self, Sender};
use crate::facts::facts;
use crate::objects::Objects;

/// Both control planes. They end with the value.
pub(crate) struct Fixture {
    runtime: Runtime,
    istiod: Istiod,
    _program: Process,
    address: SocketAddr,
    servers: ApiServers,
}

impl Fixture {
    /// Starts the control planes with all objects; `None` if the programs are not here.
    pub(crate) fn start() -> Result<Option<Self>> {
        let tests = "pilot-discovery beside istiod";
        let Some(istio) = IstioPrograms::find_if_any(tests)? else { return Ok(None) };
        let Some(programs) = Programs::of_api_servers_if_any(tests)? else { return Ok(None) };
        let servers = ApiServers::start(&programs, 1)?;
        istio.prepare(servers.kubectl())?;
        let objects = Objects::default().mesh();
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        let kubectl = servers.kubectl();
        kubectl.must_with_input(apply, &objects.list())?;
        let status = ["--subresource=status"];
        kubectl.must_with_input(apply.into_iter().chain(status), &objects.statuses())?;
        let mesh = servers.folder().write(SETTINGS, DEFAULTS)?;
        // Both read the same file.
        let istiod = Istiod::start(&istio, &servers, &mesh, &["ISTIO_DUAL_STACK=true"])?;
        let [address, debug] =
            [free_port()?, free_port()?].map(|port| (Ipv4Addr::LOCALHOST, port).into());
        let arguments = [
            "discovery".to_owned(),
            format!("--kubeconfig={}", servers.admin_kubeconfig().display()),
            format!("--meshConfig={}", mesh.display()),
            // Roots of namespaces stay istiod's.
            "--revision=beside".to_owned(),
            format!("--grpcAddr={address}"),
            "--secureGRPCAddr=".to_owned(),
            "--monitoringAddr=".to_owned(),
            format!("--httpAddr={debug}"),
        ];
        let program = Path::new(env!("CARGO_BIN_EXE_pilot-discovery"));
        let mut program = Process::start(servers.folder(), "pilot-discovery", program, arguments)?;
        let probe = || http::get(debug, "/ready")?.expect_ok();
        program.wait_until("the program is ready", probe)?;
        let runtime = Runtime::new().context("starting a runtime")?;
        Ok(Some(Self { runtime, istiod, _program: program, address, servers }))
    }

    /// Replaces the settings of the mesh.
    pub(crate) fn settings(&self, document: &str) {
        self.servers.folder().write(SETTINGS, document).unwrap();
    }

    /// Connects a proxy to both, and waits until both send `expected` and differ by stated
    /// differences alone.
    pub(crate) fn compare(
        &self,
        proxy: &Proxy,
        expected: &str,
        seen: &mut BTreeSet<(Sender, String)>,
    ) {
        let open = |address| self.runtime.block_on(Stream::open(address, proxy)).unwrap();
        let [istiod, ours] = [self.istiod.plain(), self.address].map(open);
        let compare = || -> Result<_> {
            let istiod = facts(&istiod.complete()?)?;
            let ours = facts(&ours.complete()?)?;
            for facts in [&istiod, &ours] {
                ensure!(facts.contains(expected), "no fact {expected}");
            }
            let lines = differences::between(&istiod, &ours);
            let found = lines.map(|(sender, line)| {
                let stated = differences::stated(sender, proxy.name, line);
                stated.ok_or_else(|| format!("{sender:?} alone: {line}"))
            });
            let (stated, unstated): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
            let unstated: Vec<_> = unstated.into_iter().filter_map(Result::err).collect();
            ensure!(unstated.is_empty(), "{} differences\n{}", unstated.len(), unstated.join("\n"));
            Ok(stated.into_iter().flatten().collect::<Vec<_>>())
        };
        let stated = until(&format!("equal answers to {}", proxy.name), compare);
        let stated = stated.unwrap().into_iter();
        seen.extend(stated.map(|it| (it.sender, it.what.to_owned())));
    }
}

const SETTINGS: &str = "mesh";
const DEFAULTS: &str = "defaultConfig: {discoveryAddress: 'istiod.istio-system.svc:15012'}\n";
