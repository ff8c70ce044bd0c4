//! Numbers of `nf_tables` messages and their attributes (kernel
//! `include/uapi/linux/netfilter/nf_tables.h` and `nfnetlink.h`).

use rustix::io::Errno;

/// Returns the netlink type of one of `nf_tables`' messages.
pub(crate) const fn message_type(kind: u16) -> u16 {
    NF_TABLES << 8 | kind
}

/// True if the error means that the kernel has no `nf_tables`: for a single message, for a batch,
/// and for a kernel without netfilter sockets.
pub(crate) fn is_no_nf_tables(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT)
}

/// The length of `struct nfgenmsg`, the fixed part of every message.
pub(crate) const FIXED_LENGTH: usize = 4;
/// `struct nfgenmsg`: family `NFPROTO_INET`, version, resource.
pub(crate) const INET: [u8; FIXED_LENGTH] = [1, 0, 0, 0];
/// `struct nfgenmsg` of a batch: no family, and the subsystem as resource.
pub(crate) const BATCH: [u8; FIXED_LENGTH] = [0, 0, 0, 10];

// NFNL_MSG_BATCH_… and NFNL_BATCH_….
pub(crate) const BATCH_BEGIN: u16 = 0x10;
pub(crate) const BATCH_END: u16 = 0x11;
pub(crate) const BATCH_GENERATION: u16 = 1;

// NFT_MSG_….
pub(crate) const NEW_TABLE: u16 = 0;
pub(crate) const GET_TABLE: u16 = 1;
pub(crate) const DELETE_TABLE: u16 = 2;
pub(crate) const NEW_CHAIN: u16 = 3;
pub(crate) const GET_CHAIN: u16 = 4;
pub(crate) const DELETE_CHAIN: u16 = 5;
pub(crate) const NEW_RULE: u16 = 6;
pub(crate) const GET_RULE: u16 = 7;
pub(crate) const DELETE_RULE: u16 = 8;
pub(crate) const NEW_SET: u16 = 9;
pub(crate) const GET_SET: u16 = 10;
pub(crate) const NEW_ELEMENTS: u16 = 12;
pub(crate) const GET_ELEMENTS: u16 = 13;
pub(crate) const NEW_GENERATION: u16 = 15;
pub(crate) const GET_GENERATION: u16 = 16;

// NFTA_GEN_…, NFTA_TABLE_…, NFTA_CHAIN_…, NFTA_HOOK_…, NFTA_RULE_….
pub(crate) const GENERATION_ID: u16 = 1;
pub(crate) const TABLE_NAME: u16 = 1;
pub(crate) const TABLE_FLAGS: u16 = 2;
pub(crate) const TABLE_USES: u16 = 3;
pub(crate) const CHAIN_TABLE: u16 = 1;
pub(crate) const CHAIN_NAME: u16 = 3;
pub(crate) const CHAIN_HOOK: u16 = 4;
pub(crate) const CHAIN_POLICY: u16 = 5;
pub(crate) const CHAIN_TYPE: u16 = 7;
pub(crate) const HOOK_NUMBER: u16 = 1;
pub(crate) const HOOK_PRIORITY: u16 = 2;
pub(crate) const RULE_TABLE: u16 = 1;
pub(crate) const RULE_CHAIN: u16 = 2;
pub(crate) const RULE_HANDLE: u16 = 3;
pub(crate) const RULE_EXPRESSIONS: u16 = 4;
pub(crate) const RULE_USER_DATA: u16 = 7;

// NFTA_SET_…, NFTA_SET_ELEM_LIST_… and NFTA_SET_ELEM_….
pub(crate) const SET_TABLE: u16 = 1;
pub(crate) const SET_NAME: u16 = 2;
pub(crate) const SET_FLAGS: u16 = 3;
pub(crate) const SET_KEY_TYPE: u16 = 4;
pub(crate) const SET_KEY_LENGTH: u16 = 5;
pub(crate) const SET_ID: u16 = 10;
pub(crate) const ELEMENTS_TABLE: u16 = 1;
pub(crate) const ELEMENTS_SET: u16 = 2;
pub(crate) const ELEMENTS: u16 = 3;
pub(crate) const ELEMENTS_SET_ID: u16 = 4;
pub(crate) const ELEMENT_KEY: u16 = 1;
pub(crate) const ELEMENT_FLAGS: u16 = 3;

/// `NFTA_LIST_ELEM`.
pub(crate) const LIST_ELEMENT: u16 = 1;
/// `NFTA_DATA_VALUE`.
pub(crate) const VALUE: u16 = 1;

// NFTA_LOOKUP_….
pub(crate) const LOOKUP_SET: u16 = 1;
pub(crate) const LOOKUP_REGISTER: u16 = 2;
pub(crate) const LOOKUP_TARGET: u16 = 3;
pub(crate) const LOOKUP_SET_ID: u16 = 4;
pub(crate) const LOOKUP_FLAGS: u16 = 5;

// NFTA_EXPR_….
pub(crate) const EXPRESSION_NAME: u16 = 1;
pub(crate) const EXPRESSION_DATA: u16 = 2;

/// `NFNL_SUBSYS_NFTABLES`.
const NF_TABLES: u16 = 10;
