//! `istioctl experimental why`: the objects that a resource of a proxy was made from.

use std::fmt::Write as _;

use anyhow::anyhow;
use clap::Args;
use serde_json::Value;

use crate::cluster::ClusterClient;
use crate::control_plane::DebugPages;
use crate::output::Form;
use crate::pod_target::PodTarget;
use crate::{Failure, Streams, output};

/// Show the objects that a resource of a proxy was made from
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Why {
    /// Name of a cluster, listener or route table: `istioctl proxy-config` lists them
    #[arg(value_name = "RESOURCE")]
    resource: String,
    /// The proxy's pod, as NAME.NAMESPACE, or NAME with -n; deployment/NAME is a pod of it that runs
    #[arg(long, value_name = "[TYPE/]NAME[.NAMESPACE]", value_parser = PodTarget::parse)]
    proxy: PodTarget,
    #[command(flatten)]
    pages: DebugPages,
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "table")]
    output: Form,
}

impl Why {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let (proxy, pages) = self.pages.run(cluster_client, async |source| {
            let proxy = source.proxy(&self.proxy, cluster_client.namespace).await?;
            let query = form_urlencoded::Serializer::new(String::new())
                .extend_pairs([("proxy", proxy.to_string().as_str()), ("resource", &self.resource)])
                .finish();
            Ok((proxy, source.ask(&format!("/debug/why?{query}")).await?))
        })?;
        let mut errors = Vec::new();
        // One replica has the proxy's stream; the others do not know it.
        for page in pages {
            match page.content {
                Ok(content) if content.as_array().is_some_and(|found| !found.is_empty()) => {
                    let text = match self.output {
                        Form::Table => sentences(&content),
                        form => form.render(&content).map_err(Failure::from_error)?,
                    };
                    return output::write(streams.output, &text).map_err(Failure::from_error);
                }
                Ok(_) => errors.push(anyhow!(
                    "{proxy} has no resource {:?}; hint: `proxy-config` lists those of a pod",
                    self.resource
                )),
                Err(error) => errors.push(error),
            }
        }
        Err(Failure::Errors(errors))
    }
}

/// One paragraph per type of resource.
fn sentences(found: &Value) -> String {
    let mut text = String::new();
    for resource in found.as_array().into_iter().flatten() {
        let kind = resource["type"].as_str().unwrap_or_default();
        let kind = kind.rsplit('.').next().unwrap_or_default();
        let name = resource["name"].as_str().unwrap_or_default();
        let _ = writeln!(text, "{kind} {name} was made from:");
        for object in resource["objects"].as_array().into_iter().flatten() {
            let _ = writeln!(text, "  {}", object.as_str().unwrap_or_default());
        }
    }
    text
}

const EXAMPLES: &str = "\
Examples:
  istioctl x why 'outbound|80||web.shop.svc.cluster.local' --proxy client-1.shop
  istioctl x why virtualInbound --proxy web-1 -n shop";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_listed_by_resource() {
        let page = json!([{
            "type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            "name": "outbound|80||web.shop.svc.cluster.local",
            "objects": ["Service shop/web", "MeshConfig mesh"],
        }]);
        let expected = "Cluster outbound|80||web.shop.svc.cluster.local was made from:\n  Service \
                        shop/web\n  MeshConfig mesh\n";
        assert_eq!(sentences(&page), expected);
        let schema = include_str!("../../docs/schemas/why.schema.json");
        let schema = serde_json::from_str(schema).unwrap();
        assert_eq!(reference_pages::schema::validate(&page, &schema), Ok(()));
    }
}
