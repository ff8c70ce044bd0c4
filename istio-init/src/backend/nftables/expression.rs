//! Numbers of `nf_tables` expressions and of their attributes (kernel
//! `include/uapi/linux/netfilter/nf_tables.h`).

// NFTA_DATA_… and NFTA_VERDICT_….
pub(super) const VERDICT: u16 = 2;
pub(super) const CODE: u16 = 1;
pub(super) const CODE_CHAIN: u16 = 2;
pub(super) const RETURN: i32 = -5;
pub(super) const GOTO: i32 = -4;
pub(super) const JUMP: i32 = -3;
pub(super) const DROP: i32 = 0;
pub(super) const ACCEPT: i32 = 1;

// NFT_REG_…: one register of 16 bytes is enough, and the one for verdicts.
pub(super) const REGISTER: u32 = 1;
pub(super) const VERDICT_REGISTER: u32 = 0;

// NFTA_META_… and NFT_META_….
pub(super) const META_TARGET: u16 = 1;
pub(super) const META_KEY: u16 = 2;
pub(super) const META_SOURCE: u16 = 3;
pub(super) const META_MARK: u32 = 3;
pub(super) const META_IN_NAME: u32 = 6;
pub(super) const META_OUT_NAME: u32 = 7;
pub(super) const META_SOCKET_UID: u32 = 10;
pub(super) const META_SOCKET_GID: u32 = 11;
pub(super) const META_FAMILY: u32 = 15;
pub(super) const META_PROTOCOL: u32 = 16;
pub(super) const INTERFACE_NAME_SIZE: usize = 16;

// NFTA_PAYLOAD_… and NFT_PAYLOAD_….
pub(super) const PAYLOAD_TARGET: u16 = 1;
pub(super) const PAYLOAD_BASE: u16 = 2;
pub(super) const PAYLOAD_OFFSET: u16 = 3;
pub(super) const PAYLOAD_LENGTH: u16 = 4;
pub(super) const NETWORK_HEADER: u32 = 1;
pub(super) const TRANSPORT_HEADER: u32 = 2;
pub(super) const SOURCE_PORT: u32 = 0;
pub(super) const DESTINATION_PORT: u32 = 2;

// NFTA_CT_…, NFT_CT_… and the bits of a connection's state.
pub(super) const CONNECTION_TARGET: u16 = 1;
pub(super) const CONNECTION_KEY: u16 = 2;
pub(super) const CONNECTION_DIRECTION: u16 = 3;
pub(super) const CONNECTION_SOURCE: u16 = 4;
pub(super) const CONNECTION_STATE: u32 = 0;
pub(super) const CONNECTION_MARK: u32 = 3;
pub(super) const CONNECTION_ZONE: u32 = 17;
/// `IP_CT_DIR_ORIGINAL`.
pub(super) const ORIGINAL: u8 = 0;
pub(super) const STATE_INVALID: u32 = 1;
pub(super) const STATE_ESTABLISHED: u32 = 2;
pub(super) const STATE_RELATED: u32 = 4;

// NFTA_TPROXY_….
pub(super) const TPROXY_FAMILY: u16 = 1;
pub(super) const TPROXY_PORT: u16 = 3;
/// `NFPROTO_UNSPEC`: whichever the packet is of.
pub(super) const ANY_FAMILY: u32 = 0;

// NFTA_CMP_… and NFTA_RANGE_…, whose operators have equal numbers.
pub(super) const COMPARE_REGISTER: u16 = 1;
pub(super) const COMPARE_OPERATOR: u16 = 2;
pub(super) const COMPARE_VALUE: u16 = 3;
pub(super) const RANGE_REGISTER: u16 = 1;
pub(super) const RANGE_OPERATOR: u16 = 2;
pub(super) const RANGE_FROM: u16 = 3;
pub(super) const RANGE_TO: u16 = 4;
pub(super) const EQUAL: u32 = 0;
pub(super) const NOT_EQUAL: u32 = 1;

// NFTA_BYTEORDER_….
pub(super) const ORDER_SOURCE: u16 = 1;
pub(super) const ORDER_TARGET: u16 = 2;
pub(super) const ORDER_OPERATION: u16 = 3;
pub(super) const ORDER_LENGTH: u16 = 4;
pub(super) const ORDER_SIZE: u16 = 5;
pub(super) const TO_NETWORK: u32 = 1;

// NFTA_BITWISE_….
pub(super) const BITWISE_SOURCE: u16 = 1;
pub(super) const BITWISE_TARGET: u16 = 2;
pub(super) const BITWISE_LENGTH: u16 = 3;
pub(super) const BITWISE_MASK: u16 = 4;
pub(super) const BITWISE_XOR: u16 = 5;
pub(super) const BITWISE_OPERATION: u16 = 6;
pub(super) const MASK_AND_XOR: u32 = 0;

// NFTA_IMMEDIATE_… and NFTA_REDIR_….
pub(super) const IMMEDIATE_TARGET: u16 = 1;
pub(super) const IMMEDIATE_VALUE: u16 = 2;
pub(super) const REDIR_LOWEST_PORT: u16 = 1;
pub(super) const REDIR_HIGHEST_PORT: u16 = 2;
pub(super) const REDIR_FLAGS: u16 = 3;
/// `NF_NAT_RANGE_PROTO_SPECIFIED`, which the kernel would add.
pub(super) const REDIR_TO_PORT: u32 = 2;
