//! CPU time of generation in a mesh of 10,000 services and 100,000 endpoints.

#![allow(missing_docs, reason = "the macros of criterion make public functions")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failing benchmark may panic")]

#[expect(dead_code, reason = "the tests need more")]
#[path = "../tests/generation/world.rs"]
mod world;

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use pilot_registry::protocol::Protocol::{Grpc, Http, Tcp, Undeclared};
use pilot_routing::authorization_policy::AuthorizationPolicies;
use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::context::Context;
use pilot_routing::envoy::endpoints::Endpoints;
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::envoy::name_tables::NameEntries;
use pilot_routing::envoy::routes::Routes;
use pilot_routing::envoy::{Generator, generate, resource_version};
use pilot_routing::peer_authentication::{MtlsMode, PeerAuthentications};
use serde_json::json;
use world::World;

/// The allocator of the released programs.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Ten services of each namespace have the same ports, as in meshes with conventions.
fn mesh() -> World {
    let mut world = World::new("10.0.0.1", json!({}));
    for number in 0..SERVICES {
        let port = match number % 20 {
            0..13 => (80, Http),
            13..16 => (9090, Grpc),
            16..18 => (8080, Http),
            18 => (5432, Tcp),
            _ => (7000, Undeclared),
        };
        let pods: Vec<String> = (0..ENDPOINTS)
            .map(|pod| {
                let address = number * ENDPOINTS + pod + 0x000a_0000;
                std::net::Ipv4Addr::from_bits(0x0a00_0000 + address).to_string()
            })
            .collect();
        let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
        let vip = std::net::Ipv4Addr::from_bits(0x0ae0_0000 + number).to_string();
        world.serve(&format!("service-{number}.ns-{}", number / 100), &[port], &vip, &pods);
    }
    world.authenticate("istio-system", "", MtlsMode::Strict, &[]);
    world.authenticate("ns-1", "service-100", MtlsMode::Disable, &[]);
    world
}

fn generation(criterion: &mut Criterion<CpuTime>) {
    let world = mesh();
    let snapshot = world.snapshot();
    let policies = PeerAuthentications::new("istio-system", world.policies.clone());
    let authorization = AuthorizationPolicies::default();
    let context = || Context::new(&snapshot, &world.mesh, &policies, &authorization, &world.proxy);
    let mut group = criterion.benchmark_group("generation");
    group.sample_size(10);
    group.bench_function("whole", |bencher| {
        bencher.iter(|| {
            let context = context();
            all::<Clusters>(&context)
                + all::<Endpoints>(&context)
                + all::<Listeners>(&context)
                + all::<Routes>(&context)
        });
    });
    group.bench_function("clusters", |bencher| bencher.iter(|| all::<Clusters>(&context())));
    group.bench_function("endpoints", |bencher| bencher.iter(|| all::<Endpoints>(&context())));
    group.bench_function("listeners", |bencher| bencher.iter(|| all::<Listeners>(&context())));
    group.bench_function("routes", |bencher| bencher.iter(|| all::<Routes>(&context())));
    group.bench_function("names", |bencher| bencher.iter(|| all::<NameEntries>(&context())));
    group.bench_function("versions of clusters and endpoints", |bencher| {
        bencher.iter(|| {
            let context = context();
            versions::<Clusters>(&context);
            versions::<Endpoints>(&context);
        });
    });
    group.bench_function("one changed set of endpoints", |bencher| {
        bencher.iter(|| {
            let name = "outbound|80||service-0.ns-0.svc.cluster.local";
            let inputs = Endpoints::inputs(&context(), name).unwrap();
            let version = resource_version::<Endpoints>(&inputs);
            black_box(generate::<Endpoints>(&inputs, version))
        });
    });
    group.finish();
}

/// Generates all resources of a type. Returns their size.
fn all<G: Generator>(context: &Context<'_>) -> usize {
    let names = G::names(context).into_iter();
    let sizes = names.map(|name| {
        let inputs = G::inputs(context, &name).unwrap();
        generate::<G>(&inputs, resource_version::<G>(&inputs)).message.value.len()
    });
    sizes.sum()
}

fn versions<G: Generator>(context: &Context<'_>) {
    for name in G::names(context) {
        black_box(resource_version::<G>(&G::inputs(context, &name).unwrap()));
    }
}

const SERVICES: u32 = 10_000;
const ENDPOINTS: u32 = 10;

/// Time that the kernel has given to the thread. The rest of a busy machine does not count.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        let (nanoseconds, _) = schedule.split_once(' ').unwrap();
        Duration::from_nanos(nanoseconds.parse().unwrap())
    }

    fn end(&self, start: Duration) -> Duration {
        self.start().saturating_sub(start)
    }

    fn add(&self, left: &Duration, right: &Duration) -> Duration {
        *left + *right
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = generation
}
criterion_main!(benches);
