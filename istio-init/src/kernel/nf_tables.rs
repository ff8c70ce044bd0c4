//! Numbers of `nf_tables` messages and their attributes (kernel
//! `include/uapi/linux/netfilter/nf_tables.h` and `nfnetlink.h`).

use rustix::io::Errno;

/// The netlink type of one of `nf_tables`' messages.
pub(super) const fn message_type(kind: u16) -> u16 {
    NF_TABLES << 8 | kind
}

/// Whether an error says that the kernel has no `nf_tables`: the first is that of a single
/// message, the second of a batch, the last of a kernel without netfilter's sockets.
pub(super) fn is_no_nf_tables(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT)
}

/// The length of `struct nfgenmsg`, the fixed part of every message.
pub(super) const FIXED_LENGTH: usize = 4;
/// `struct nfgenmsg`: family `NFPROTO_INET`, version, resource.
pub(super) const INET: [u8; FIXED_LENGTH] = [1, 0, 0, 0];
/// The same of a batch: no family, and the subsystem as resource.
pub(super) const BATCH: [u8; FIXED_LENGTH] = [0, 0, 0, 10];

// NFNL_MSG_BATCH_… and NFNL_BATCH_….
pub(super) const BATCH_BEGIN: u16 = 0x10;
pub(super) const BATCH_END: u16 = 0x11;
pub(super) const BATCH_GENERATION: u16 = 1;

// NFT_MSG_….
pub(super) const NEW_TABLE: u16 = 0;
pub(super) const GET_TABLE: u16 = 1;
pub(super) const DELETE_TABLE: u16 = 2;
pub(super) const NEW_CHAIN: u16 = 3;
pub(super) const GET_CHAIN: u16 = 4;
pub(super) const DELETE_CHAIN: u16 = 5;
pub(super) const NEW_RULE: u16 = 6;
pub(super) const GET_RULE: u16 = 7;
pub(super) const DELETE_RULE: u16 = 8;
pub(super) const NEW_SET: u16 = 9;
pub(super) const GET_SET: u16 = 10;
pub(super) const NEW_ELEMENTS: u16 = 12;
pub(super) const GET_ELEMENTS: u16 = 13;
pub(super) const NEW_GENERATION: u16 = 15;
pub(super) const GET_GENERATION: u16 = 16;

// NFTA_GEN_…, NFTA_TABLE_…, NFTA_CHAIN_…, NFTA_HOOK_…, NFTA_RULE_….
pub(super) const GENERATION_ID: u16 = 1;
pub(super) const TABLE_NAME: u16 = 1;
pub(super) const TABLE_FLAGS: u16 = 2;
pub(super) const TABLE_USES: u16 = 3;
pub(super) const CHAIN_TABLE: u16 = 1;
pub(super) const CHAIN_NAME: u16 = 3;
pub(super) const CHAIN_HOOK: u16 = 4;
pub(super) const CHAIN_POLICY: u16 = 5;
pub(super) const CHAIN_TYPE: u16 = 7;
pub(super) const HOOK_NUMBER: u16 = 1;
pub(super) const HOOK_PRIORITY: u16 = 2;
pub(super) const RULE_TABLE: u16 = 1;
pub(super) const RULE_CHAIN: u16 = 2;
pub(super) const RULE_HANDLE: u16 = 3;
pub(super) const RULE_EXPRESSIONS: u16 = 4;
pub(super) const RULE_USER_DATA: u16 = 7;

// NFTA_SET_…, NFTA_SET_ELEM_LIST_… and NFTA_SET_ELEM_….
pub(super) const SET_TABLE: u16 = 1;
pub(super) const SET_NAME: u16 = 2;
pub(super) const SET_FLAGS: u16 = 3;
pub(super) const SET_KEY_TYPE: u16 = 4;
pub(super) const SET_KEY_LENGTH: u16 = 5;
pub(super) const SET_ID: u16 = 10;
pub(super) const ELEMENTS_TABLE: u16 = 1;
pub(super) const ELEMENTS_SET: u16 = 2;
pub(super) const ELEMENTS: u16 = 3;
pub(super) const ELEMENTS_SET_ID: u16 = 4;
pub(super) const ELEMENT_KEY: u16 = 1;
pub(super) const ELEMENT_FLAGS: u16 = 3;

/// `NFTA_LIST_ELEM`.
pub(super) const LIST_ELEMENT: u16 = 1;
/// `NFTA_DATA_VALUE`.
pub(super) const VALUE: u16 = 1;

// NFTA_LOOKUP_….
pub(super) const LOOKUP_SET: u16 = 1;
pub(super) const LOOKUP_REGISTER: u16 = 2;
pub(super) const LOOKUP_SET_ID: u16 = 4;
pub(super) const LOOKUP_FLAGS: u16 = 5;

// NFTA_EXPR_….
pub(super) const EXPRESSION_NAME: u16 = 1;
pub(super) const EXPRESSION_DATA: u16 = 2;

/// `NFNL_SUBSYS_NFTABLES`.
const NF_TABLES: u16 = 10;
