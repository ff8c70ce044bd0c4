//! Page of the objects that a resource was generated from.

use pilot_routing::envoy::Generator;
use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::context::Context;
use pilot_routing::envoy::endpoints::Endpoints;
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::envoy::name_tables::NameEntries;
use pilot_routing::envoy::routes::Routes;
use pilot_routing::view::ProxyView;
use serde_json::{Value, json};

use crate::publish::Publisher;

/// Resources of a name, each with the objects that it was generated from.
pub(super) fn why(publisher: &Publisher, proxy: &ProxyView, name: &str) -> Value {
    let Some(state) = publisher.state() else { return json!([]) };
    let context = state.context(proxy);
    let found = [
        of_type::<Clusters>(&context, name),
        of_type::<Endpoints>(&context, name),
        of_type::<Listeners>(&context, name),
        of_type::<Routes>(&context, name),
        of_type::<NameEntries>(&context, name),
    ];
    found.into_iter().flatten().collect()
}

fn of_type<G: Generator>(context: &Context<'_>, name: &str) -> Option<Value> {
    let inputs = G::inputs(context, name)?;
    let objects = G::why(context, name);
    Some(json!({
        "type": G::TYPE_URL,
        "name": name,
        "objects": objects.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "inputs": format!("{inputs:#?}"),
    }))
}
