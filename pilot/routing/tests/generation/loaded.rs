//! The real Envoy loads each case. Its own dump of the configuration is the golden file.

use std::rc::Rc;

use anyhow::{Context as _, Result};
use e2e::mesh_authority::MeshAuthority;
use e2e::netns::Namespace;
use pilot_routing::envoy::REVISION;
use pilot_xds::session::Version;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use crate::cases::cases;
use crate::consistency::worlds;
use crate::pods::UNCAPTURED;
use crate::proxy::Proxy;
use crate::server::secrets;
use crate::world::World;

#[test]
fn envoy_accepts_every_case() {
    let authority = MeshAuthority::create().unwrap();
    let mut goldens = String::new();
    for (name, world) in cases() {
        let golden = load(&authority, &world).with_context(|| name.to_owned());
        let golden = golden.unwrap_or_else(|error| panic!("{error:?}"));
        goldens += &golden.to_string();
        if KEPT.contains(&name) {
            insta::assert_yaml_snapshot!(name, golden);
        }
    }
    // Other messages need another revision, so that proxies get them from an upgraded server. The
    // new golden file then has a name of its own.
    let digest = Version::new(&goldens).to_string();
    insta::assert_snapshot!(format!("goldens-of-revision-{REVISION}"), digest);
}

#[test]
fn envoy_accepts_random_meshes() {
    let authority = MeshAuthority::create().unwrap();
    let mut runner = TestRunner::deterministic();
    for number in 0..RANDOM_MESHES {
        let world = worlds().new_tree(&mut runner).unwrap().current();
        let loaded = load(&authority, &world);
        assert!(loaded.is_ok(), "mesh {number}: {loaded:?}\n{world:#?}");
    }
}

const RANDOM_MESHES: usize = 16;

/// Cases whose whole configuration is kept for readers. The digest covers all.
const KEPT: &[&str] =
    &["permissive", "permissive-dual", "aliases", "headless", "no-capture", "router"];

fn load(authority: &MeshAuthority, world: &World) -> Result<serde_json::Value> {
    let namespace = Rc::new(Namespace::create()?);
    let resources = world.resources();
    let secrets = secrets(authority, "spiffe://cluster.local/ns/shop/sa/web")?;
    let mut proxy = Proxy::start(namespace, UNCAPTURED, &resources, &secrets)?;
    proxy.settle(&resources)?;
    proxy.golden(&resources)
}
