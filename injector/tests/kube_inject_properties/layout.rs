//! Generated values and their layout.

use proptest::prelude::*;

/// A value with its layout.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Map { flow: bool, entries: Vec<(u8, Comments, Node)> },
    Scalar(u8),
    Sequence { flow: bool, items: Vec<(Comments, Node)> },
}

/// Comments around an entry or item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comments {
    pub(crate) above: bool,
    pub(crate) beside: bool,
    pub(crate) blank: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) step: usize,
    pub(crate) dash: usize,
    pub(crate) gap: usize,
    pub(crate) crlf: bool,
    pub(crate) final_newline: bool,
    pub(crate) separator: bool,
}

pub(crate) fn layout() -> impl Strategy<Value = Layout> {
    (1..=4_usize, 0..=3_usize, 1..=3_usize, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(step, dash, gap, crlf, final_newline, separator)| Layout {
            step,
            dash,
            gap,
            crlf,
            final_newline,
            separator,
        },
    )
}

fn comments() -> impl Strategy<Value = Comments> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(above, beside, blank)| Comments {
        above,
        beside,
        blank,
    })
}

fn node() -> impl Strategy<Value = Node> {
    any::<u8>().prop_map(Node::Scalar).prop_recursive(4, 24, 4, |inner| {
        let entry = (any::<u8>(), comments(), inner.clone());
        prop_oneof![
            (prop::bool::weighted(0.2), prop::collection::vec(entry, 0..4))
                .prop_map(|(flow, entries)| Node::Map { flow, entries }),
            (prop::bool::weighted(0.2), prop::collection::vec((comments(), inner), 0..4))
                .prop_map(|(flow, items)| Node::Sequence { flow, items }),
        ]
    })
}

pub(crate) fn map() -> impl Strategy<Value = Node> {
    prop::collection::vec((any::<u8>(), comments(), node()), 1..5)
        .prop_map(|entries| Node::Map { flow: false, entries })
}
