use super::*;

#[test]
fn source_with_most_connections_loses_one() {
    let mut table = Table::new(128);
    let honest = [admit(&mut table, 1).0, admit(&mut table, 1).0, admit(&mut table, 1).0];
    let greedy: Vec<Id> = (0..125).map(|_| admit(&mut table, 2).0).collect();
    // For any new source, the greedy source's oldest connection is displaced.
    assert_eq!(admit(&mut table, 3).1, Some(greedy[0]));
    assert_eq!(admit(&mut table, 2).1, Some(greedy[1]));
    assert_eq!(admit(&mut table, 1).1, Some(greedy[2]));
    assert!(honest.iter().all(|id| matches!(table.connections[id].state, State::Waiting(_))));
}

#[test]
fn sources_within_their_share_lose_the_oldest() {
    let mut table = Table::new(128);
    let first = admit(&mut table, 0).0;
    let second = admit(&mut table, 0).0;
    for source in 1..127 {
        admit(&mut table, source);
    }
    assert_eq!(admit(&mut table, 200).1, Some(first));
    table.step(second);
    assert_ne!(admit(&mut table, 201).1, Some(second));
}

#[test]
fn answered_connection_is_not_displaced() {
    let mut table = Table::new(64);
    let kept: Vec<Id> = (0..32).map(|_| admit(&mut table, 1).0).collect();
    for id in &kept {
        table.answer(*id);
    }
    let silent: Vec<Id> = (0..32).map(|_| admit(&mut table, 1).0).collect();
    // All callers share one address: connections that never had a response are displaced.
    let mut displaced = Vec::new();
    for _ in 0..1000 {
        let (id, other) = admit(&mut table, 1);
        let other = other.unwrap();
        table.close(other);
        displaced.push(other);
        assert!(matches!(table.connections[&id].state, State::Waiting(_)));
    }
    assert_eq!(displaced[..32], silent);
    assert!(kept.iter().all(|id| !displaced.contains(id)));
}

#[test]
fn handshakes_are_displaced_if_all_others_are_answered() {
    let mut table = Table::new(64);
    for _ in 0..64 {
        let id = admit(&mut table, 1).0;
        table.answer(id);
    }
    let (handshake, displaced) = admit(&mut table, 1);
    table.close(displaced.unwrap());
    for _ in 0..16 {
        let displaced = admit(&mut table, 1).1.unwrap();
        assert_ne!(displaced, handshake);
        table.close(displaced);
    }
}

#[test]
fn working_connection_is_not_displaced() {
    let mut table = Table::new(2);
    let (first, second) = (admit(&mut table, 1).0, admit(&mut table, 1).0);
    table.work(first);
    table.work(second);
    assert_eq!(table.admit(source(2), Arc::default()), Admission::Full);
    table.answer(second);
    assert_eq!(admit(&mut table, 2).1, Some(second));
    table.close(first);
    assert_eq!(admit(&mut table, 2).1, None);
}

#[test]
fn displaced_connections_are_limited_until_closed() {
    let mut table = Table::new(8);
    for _ in 0..8 {
        admit(&mut table, 1);
    }
    let displaced: Vec<Id> = (0..2).filter_map(|_| admit(&mut table, 2).1).collect();
    assert_eq!((displaced.len(), closing(8)), (2, 2));
    assert_eq!(table.admit(source(2), Arc::default()), Admission::Full);
    // A request that arrives at the same moment does not change the order.
    table.work(displaced[0]);
    table.answer(displaced[0]);
    table.close(displaced[0]);
    assert!(matches!(table.admit(source(2), Arc::default()), Admission::Admitted { .. }));
}

#[test]
fn ipv6_hosts_count_by_network() {
    let of = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
    assert_eq!(of("2001:db8:1:2::3"), of("2001:db8:1:2:ffff::"));
    assert_ne!(of("2001:db8:1:2::3"), of("2001:db8:1:3::3"));
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    assert_ne!(of("::ffff:10.0.0.1"), of("::ffff:10.0.0.2"));
}

#[test]
fn all_indexes_of_the_slot_table_agree() {
    let mut table = Table::new(16);
    let mut open = Vec::new();
    let mut random = 7_u64;
    for _ in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let pick = usize::try_from(random >> 40).unwrap();
        let id = open.get(pick % open.len().max(1)).copied();
        match (random >> 33) % 5 {
            0 => {
                if let Admission::Admitted { id, .. } =
                    table.admit(source(u8::try_from(pick % 5).unwrap()), Arc::default())
                {
                    open.push(id);
                }
            }
            1 => id.into_iter().for_each(|id| table.step(id)),
            2 => id.into_iter().for_each(|id| table.work(id)),
            3 => id.into_iter().for_each(|id| table.answer(id)),
            _ => id.into_iter().for_each(|id| {
                table.close(id);
                open.retain(|one| *one != id);
            }),
        }
        let in_state = |wanted: fn(&State) -> bool| {
            table.connections.values().filter(|one| wanted(&one.state)).count()
        };
        let waiting = in_state(|state| matches!(state, State::Waiting(_)));
        assert_eq!(waiting, table.unanswered.len() + table.answered.len());
        assert_eq!(table.closing, in_state(|state| matches!(state, State::Displaced { .. })));
        assert!(table.connections.len() - table.closing <= 16);
        for pool in [&table.unanswered, &table.answered] {
            assert_eq!(pool.len(), pool.by_source.len());
            assert_eq!(pool.len(), pool.counts.values().sum::<usize>());
            assert_eq!(pool.counts.len(), pool.by_count.len());
        }
    }
}

#[tokio::test]
async fn released_slot_displaces_no_connection() {
    let slots = Slots::new(1);
    let first = slots.take(source(1), || {}).await;
    first.work();
    let displaced = || panic!("a connection was displaced");
    let (next, ()) = tokio::join!(slots.take(source(1), displaced), async {
        drop(first);
    });
    drop(next);
    slots.all_free().await;
}

fn admit(table: &mut Table, from: u8) -> (Id, Option<Id>) {
    match table.admit(source(from), Arc::default()) {
        Admission::Admitted { id, displaced } => (id, displaced),
        Admission::Full => panic!("full"),
    }
}

fn source(last: u8) -> Source {
    Source::from(IpAddr::from([10, 0, 0, last]))
}
