//! `istioctl version`.

use clap::{Args, ValueEnum};
use documents::yaml;
use injector::settings::values::Values;
use serde_json::json;

use crate::istio_flags::ClusterFlags;
use crate::{Failure, Streams, VERSION, output};

/// Print this program's version
#[derive(Debug, Args)]
pub(super) struct Version {
    /// Prints only the version; with `--short=false`, the images of the built-in configuration too
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", action = clap::ArgAction::Set, hide_possible_values = true)]
    short: bool,
    /// Output format, for programs
    #[arg(short, long, value_enum)]
    output: Option<Form>,
    /// Istio's flag; only `false` is supported, because this command contacts no control plane
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        action = clap::ArgAction::Set, hide_possible_values = true)]
    remote: Option<bool>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    Json,
    Yaml,
}

impl Version {
    pub(super) fn run(
        &self,
        cluster: &ClusterFlags,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        cluster.refuse().map_err(Failure::Usage)?;
        if self.remote == Some(true) {
            let message = "error: --remote: this istioctl contacts no control plane";
            return Err(Failure::Usage(message.to_owned()));
        }
        output::write(streams.output, &self.text()?).map_err(Failure::from_error)
    }

    fn text(&self) -> Result<String, Failure> {
        let global = Values::default().global;
        let proxy = format!("{}/{}:{}", &*global.hub, &*global.proxy.image, &*global.tag);
        let init = &*global.proxy_init.image;
        let mut document = json!({"clientVersion": {"version": VERSION, "tag": TAG}});
        if !self.short {
            document["builtInImages"] = json!({"istio-init": init, "istio-proxy": proxy});
        }
        match self.output {
            Some(Form::Json) => Ok(format!("{document:#}\n")),
            Some(Form::Yaml) => {
                yaml::to_string(&document).map_err(|error| Failure::from_error(error.into()))
            }
            None if self.short => Ok(format!("client version: {VERSION}\n")),
            None => Ok(format!(
                "client version: {VERSION}\nbuilt-in images: istio-init {init}, istio-proxy \
                 {proxy}\n"
            )),
        }
    }
}

const TAG: &str = env!("CARGO_PKG_VERSION");
