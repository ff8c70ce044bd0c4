//! Measurement of one control plane.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use e2e::api_servers::ApiServers;
use e2e::istio_programs::IstioPrograms;
use e2e::programs::Programs;
use tokio::runtime::Runtime;

use crate::clients::Clients;
use crate::objects::{self, Objects};
use crate::report::Figures;
use crate::server::{Product, Server};
use crate::usage;

/// Input of the measurement of each control plane.
pub(crate) struct Measurement {
    pub(crate) programs: Programs,
    pub(crate) istio: IstioPrograms,
    pub(crate) runtime: Runtime,
    pub(crate) services: u32,
    pub(crate) clients: usize,
}

impl Measurement {
    /// Starts a control plane and its API server, and measures it.
    pub(crate) fn measure(&self, product: Product, program: &Path) -> Result<Figures> {
        let range = [format!("--service-cluster-ip-range={}", objects::SERVICE_RANGE)];
        let api = ApiServers::start_with(&self.programs, 1, &range)?;
        self.istio.prepare(api.kubectl())?;
        let client = self.runtime.block_on(api.admin(0))?;
        let objects = Objects::new(client, self.services);
        self.runtime.block_on(objects.create())?;

        let server = Server::start(product, program, &api)?;
        let begin = Instant::now();
        let mut clients = self.runtime.block_on(self.connect(&server, self.clients))?;
        let connected = begin.elapsed();
        let (cpu, memory) = (usage::cpu(server.id()), usage::memory(server.id()));
        let many = self.runtime.block_on(changes(&objects, &mut clients, 1..=CHANGES_OF_MANY))?;
        drop(clients);
        let mut clients = self.runtime.block_on(self.connect(&server, 1))?;
        let further = CHANGES_OF_MANY + 1..=CHANGES_OF_MANY + CHANGES_OF_ONE;
        let one = self.runtime.block_on(changes(&objects, &mut clients, further))?;
        Ok(Figures { ready: server.ready_after(), connected, cpu, memory, one, many })
    }

    async fn connect(&self, server: &Server, count: usize) -> Result<Clients> {
        Clients::connect(server.address(), count, usize::try_from(self.services)?).await
    }
}

/// Times of one changed `EndpointSlice`.
pub(crate) struct Change {
    /// From sending the change until the API server's answer.
    pub(crate) written: Duration,
    /// From sending the change until the last client's ACK.
    pub(crate) acknowledged: Duration,
}

/// Makes one change after the other, each when all clients have the last one.
async fn changes(
    objects: &Objects,
    clients: &mut Clients,
    numbers: RangeInclusive<u32>,
) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for number in numbers {
        let begin = Instant::now();
        let write = async { objects.change(number).await.map(|()| begin.elapsed()) };
        let acknowledge = async { clients.have(number).await.map(|()| begin.elapsed()) };
        let (written, acknowledged) = tokio::try_join!(write, acknowledge)?;
        changes.push(Change { written, acknowledged });
    }
    Ok(changes)
}

const CHANGES_OF_ONE: u32 = 100;
const CHANGES_OF_MANY: u32 = 40;
