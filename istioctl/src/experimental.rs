//! `istioctl experimental`: commands that read a cluster.

use clap::{Args, Subcommand};

use crate::check_inject::CheckInject;
use crate::cluster::ClusterClient;
use crate::describe::Describe;
use crate::exit_code::CommandOutcome;
use crate::graph::Graph;
use crate::injector_list::InjectorList;
use crate::precheck::Precheck;
use crate::why::Why;
use crate::{Failure, Streams};

/// Inspect the injection of a cluster's pods, and the configuration of its proxies
#[derive(Debug, Args)]
pub(super) struct Experimental {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(name = "check-inject")]
    CheckInject(CheckInject),
    Describe(Describe),
    Graph(Graph),
    Injector(Injector),
    Precheck(Precheck),
    Why(Why),
}

/// Show the injectors of a cluster
#[derive(Debug, Args)]
struct Injector {
    #[command(subcommand)]
    command: InjectorCommand,
}

#[derive(Debug, Subcommand)]
enum InjectorCommand {
    List(InjectorList),
}

impl Experimental {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<CommandOutcome, Failure> {
        match &self.command {
            Command::Precheck(command) => return command.run(cluster_client, streams),
            Command::CheckInject(command) => command.run(cluster_client, streams),
            Command::Describe(command) => command.run(cluster_client, streams),
            Command::Graph(command) => command.run(cluster_client, streams),
            Command::Injector(Injector { command: InjectorCommand::List(command) }) => {
                command.run(cluster_client, streams)
            }
            Command::Why(command) => command.run(cluster_client, streams),
        }
        .map(|()| CommandOutcome::Done)
    }
}
