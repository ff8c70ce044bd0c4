//! Objects from the API server, by watches.

mod pauses;
mod watchdog;
mod watched;
mod watching;

use std::convert::Infallible;
use std::fmt::Debug;

use futures::future::{self, Either};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use self::pauses::Pauses;
pub use self::watchdog::{Audited, Watchdog};
use self::watched::Watched;
use self::watching::Watching;
use crate::event::{Event, Update};
use crate::manifest::{
    Manifest, NamespaceManifest, NodeManifest, ObjectDefaults, PodManifest, ServiceManifest,
    SliceManifest,
};

/// Watches the objects of all kinds and offers their changes, for ever.
///
/// The first event of each kind is a [`Replace`](Update::Replace), and each relist is one: objects
/// that were deleted while no watch ran are gone with it. Errors are logged and retried. If the
/// watchdog finds drift, all watches begin again with a list: a list of its own could be older than
/// what the watches have offered since.
pub async fn watch(
    client: Client,
    defaults: ObjectDefaults,
    watchdog: &Watchdog<impl Audited>,
    mut offer: impl FnMut(Event),
) -> Infallible {
    loop {
        let drift = watchdog.drift(&client, &defaults);
        match future::select(Box::pin(drift), Box::pin(run(&client, &defaults, &mut offer))).await {
            Either::Left(((), _)) => tracing::info!("all objects are listed again"),
            Either::Right((never, _)) => match never {},
        }
    }
}

async fn run(
    client: &Client,
    defaults: &ObjectDefaults,
    offer: &mut impl FnMut(Event),
) -> Infallible {
    let mut kinds = stream::select_all([
        kind::<NamespaceManifest>(client, defaults, LONG, Event::Namespaces),
        kind::<NodeManifest>(client, defaults, LONG, Event::Nodes),
        kind::<PodManifest>(client, defaults, SHORT, Event::Pods),
        kind::<SliceManifest>(client, defaults, SHORT, Event::Slices),
        kind::<ServiceManifest>(client, defaults, SHORT, Event::Services),
    ]);
    while let Some(event) = kinds.next().await {
        offer(event);
    }
    // Watches do not end. If they did, the last known objects would stay.
    future::pending().await
}

fn kind<M>(
    client: &Client,
    defaults: &ObjectDefaults,
    timeout: u32,
    event: fn(Update<M::Object>) -> Event,
) -> BoxStream<'static, Event>
where
    M: Manifest + Clone + Debug + DeserializeOwned + Send + 'static,
    M::Object: Send,
{
    let api: Api<Watched<M>> = Api::all(client.clone());
    // Lists in pages: the API server of an old etcd rejects streamed ones.
    let config = watcher::Config::default().page_size(PAGE).timeout(timeout);
    let mut watching = Watching::new(defaults.clone());
    let events = watcher(api, config).backoff(Pauses::default());
    updates(events, move |next| watching.read(next)).map(event).boxed()
}

fn updates<T, U>(
    events: impl Stream<Item = T> + Send + 'static,
    mut read: impl FnMut(T) -> Option<U> + Send + 'static,
) -> impl Stream<Item = U> + Send + 'static
where
    U: Send + 'static,
{
    events.filter_map(move |next| future::ready(read(next)))
}

/// Objects per page of a list.
const PAGE: u32 = 500;

/// Seconds after which a watch is opened anew. A dead connection shows five seconds later.
const SHORT: u32 = 25;
const LONG: u32 = 290;
