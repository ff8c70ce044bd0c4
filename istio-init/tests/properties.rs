//! Properties of any input.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics has failed, as it should"
)]

use std::ffi::OsString;
use std::net::IpAddr;

use istio_init::args::env::Variable;
use istio_init::args::flags::{FLAGS, FlagKind, Support};
use istio_init::args::{Args, Environment};
use istio_init::config::{Config, PodEnvironment};
use istio_init::picture::picture;
use istio_init::plan::{Chain, Plan, Verdict, plan};
use istio_init::render::{capture_svg, mermaid, nft};
use proptest::prelude::*;

proptest! {
    /// No input panics. Accepted input makes a plan whose script has no unvalidated user text.
    #[test]
    fn any_input_is_planned_or_rejected(
        values in prop::collection::vec(value(), FLAGS.len()),
        variables in prop::collection::vec(prop::option::of(value()), Variable::ALL.len()),
        addresses in prop::collection::vec(any::<IpAddr>(), 0..3),
    ) {
        let built = |kind, support| kind == FlagKind::Text && support == Support::Implemented;
        let flags = FLAGS.iter().zip(values).filter(|(spec, _)| built(spec.kind, spec.support));
        let words = flags.map(|(spec, value)| OsString::from(format!("--{}={value}", spec.long)));
        let words = std::iter::once(OsString::from("istio-init")).chain(words);
        let environment: Environment = Variable::ALL
            .into_iter()
            .zip(variables)
            .filter_map(|(variable, value)| Some((variable.name().to_owned(), value?)))
            .collect();
        let args = Args::parse(words, &environment).expect("flags of the table");
        let surroundings = PodEnvironment { addresses, ..PodEnvironment::default() };
        match Config::read(&args, &surroundings) {
            Ok((config, _)) => check(&plan(&config)),
            Err(invalid) => prop_assert!(!invalid.0.is_empty()),
        }
    }

    /// Mostly valid values, so that plans are frequent.
    #[test]
    fn plans_of_valid_input_are_consistent(
        ports in prop::collection::vec(any::<u16>(), 0..5),
        ranges in prop::collection::vec((any::<IpAddr>(), 0..=32u8), 0..5),
        owners in prop::collection::vec(0..u32::MAX, 1..4),
        interfaces in prop::sample::subsequence(vec!["-c=eth1", "-c=eth2,eth3", "-k=tap0", "-k=tap1,eth2", "-m=TPROXY"], 0..3),
        dual_stack: bool,
    ) {
        let joined = |values: Vec<String>| values.join(",");
        let ports = joined(ports.iter().map(u16::to_string).collect());
        let ranges = joined(ranges.iter().map(|(ip, length)| format!("{ip}/{length}")).collect());
        let owners = joined(owners.iter().map(u32::to_string).collect());
        let words = [
            "istio-init".to_owned(),
            format!("-b={ports}"),
            format!("-o={ports}"),
            format!("-q={ports}"),
            format!("-i={ranges}"),
            format!("-x={ranges}"),
            format!("-u={owners}"),
            format!("--dual-stack={dual_stack}"),
        ];
        let words = words.into_iter().map(OsString::from);
        let words = words.chain(interfaces.into_iter().map(OsString::from));
        let args = Args::parse(words, &Environment::new()).expect("flags");
        let addresses = vec!["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()];
        let surroundings = PodEnvironment { addresses, ..PodEnvironment::default() };
        let (config, _) = Config::read(&args, &surroundings).expect("valid values");
        prop_assert_eq!(config.ipv6, dual_stack);
        check(&plan(&config));
    }
}

/// Jumps lead to chains of the same table that have rules, without loops; every line of the script
/// is one command.
fn check(plan: &Plan) {
    let picture = picture(plan);
    let svg = capture_svg::svg(&picture);
    roxmltree::Document::parse(&svg).expect("XML");
    assert!(mermaid::capture(&picture).lines().count() > 5);
    let names = picture.lanes.iter().map(|lane| (lane.path.is_inbound(), lane.words(usize::MAX)));
    let mut names: Vec<_> = names.collect();
    names.sort();
    let twins = names.windows(2).find(|pair| pair[0] == pair[1]);
    assert!(twins.is_none(), "{twins:?}: {:#?}", picture.lanes);
    for rule in &plan.rules {
        if let Verdict::Jump(target) = rule.verdict {
            assert!(target.base(rule.table).is_none());
            assert!(plan.rules.iter().any(|r| r.table == rule.table && r.chain == target));
            let depth = |chain: Chain| match chain {
                Chain::Prerouting | Chain::Output => 0,
                Chain::Inbound | Chain::Outbound => 1,
                _ => 2,
            };
            assert!(depth(target) > depth(rule.chain));
        }
        let line = nft::add_rule(rule);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || " -./:!=\"*_@{},".contains(c);
        assert!(line.chars().all(is_plain), "{line}");
    }
    assert!(
        nft::script(plan)
            .lines()
            .all(|line| { ["add ", "delete ", "# "].iter().any(|verb| line.starts_with(verb)) })
    );
}

/// Almost valid text.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("*".to_owned()),
        "[0-9]{1,5}",
        "[0-9]{1,5}[:-][0-9]{1,5}",
        "[0-9]{1,3}\\.[0-9]\\.0\\.0/[0-9]{1,2}",
        "fd[0-9a-f]{2}::/[0-9]{1,3}",
        "[a-z]{1,5}[0-9+]",
        "[0-9*,./: -]{0,20}",
        ".{0,20}",
    ]
}
