//! Requests of both variants, decoded into one type.

use super::limits::{Close, Limits};
use super::name::NameRef;
use super::version::Version;
use crate::frame::{Fields, FrameError};
use crate::messages::{Node, Status};
use crate::service::Variant;

/// Request of a client, borrowed from its frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'a> {
    /// Type of the resources.
    pub type_url: &'a str,
    /// Nonce of the acknowledged response; empty if the request acknowledges none.
    pub nonce: &'a str,
    /// Reason of a NACK.
    pub error: Option<Status>,
    /// The names.
    pub subscription: Subscription<'a>,
}

/// Names of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Subscription<'a> {
    /// Delta: changes of the subscription.
    Changes {
        /// Names to add.
        subscribe: Vec<NameRef<'a>>,
        /// Names to drop.
        unsubscribe: Vec<NameRef<'a>>,
        /// Versions that the client has from an earlier stream, each name once, in the order of the
        /// names.
        initial: Vec<(NameRef<'a>, Version)>,
    },
    /// State of the world: the whole subscription.
    Whole {
        /// All names.
        names: Vec<NameRef<'a>>,
        /// Version of the last accepted response.
        version: &'a str,
    },
}

impl<'a> Request<'a> {
    /// Decodes a frame, but for the node in it.
    pub fn decode(variant: Variant, frame: &'a [u8], limits: &Limits) -> Result<Self, Close> {
        match variant {
            Variant::Delta => Self::delta(frame, limits),
            Variant::StateOfTheWorld => Self::whole(frame, limits),
        }
    }

    /// Decodes a [`DeltaDiscoveryRequest`](crate::messages::DeltaDiscoveryRequest).
    fn delta(frame: &'a [u8], limits: &Limits) -> Result<Self, Close> {
        let (mut type_url, mut nonce, mut error) = ("", "", None);
        let (mut subscribe, mut unsubscribe, mut initial) = (Vec::new(), Vec::new(), Vec::new());
        for field in Fields::new(frame) {
            let field = field?;
            match field.number {
                2 => type_url = field.text()?,
                3 => subscribe.push(field.text()?.into()),
                4 => unsubscribe.push(field.text()?.into()),
                5 => initial.push(initial_version(field.bytes()?)?),
                6 => nonce = field.text()?,
                7 => error = Some(field.message()?),
                _ => {}
            }
            // Checked here: names in the frame take less memory than decoded ones.
            let most = subscribe.len().max(unsubscribe.len()).max(initial.len());
            limits.check_names(type_url, most)?;
        }
        // Of repeated keys of a map, the last one counts.
        initial.reverse();
        initial.sort_by_key(|(name, _)| *name);
        initial.dedup_by_key(|(name, _)| *name);
        let subscription = Subscription::Changes { subscribe, unsubscribe, initial };
        Ok(Self { type_url, nonce, error, subscription })
    }

    /// Decodes a [`DiscoveryRequest`](crate::messages::DiscoveryRequest).
    fn whole(frame: &'a [u8], limits: &Limits) -> Result<Self, Close> {
        let (mut type_url, mut nonce, mut error) = ("", "", None);
        let (mut names, mut version) = (Vec::new(), "");
        for field in Fields::new(frame) {
            let field = field?;
            match field.number {
                1 => version = field.text()?,
                3 => names.push(field.text()?.into()),
                4 => type_url = field.text()?,
                5 => nonce = field.text()?,
                6 => error = Some(field.message()?),
                _ => {}
            }
            limits.check_names(type_url, names.len())?;
        }
        Ok(Self { type_url, nonce, error, subscription: Subscription::Whole { names, version } })
    }

    /// Checks the lengths of names.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), Close> {
        let length = |name: &str| {
            let (length, limit) = (name.len(), limits.name_bytes);
            if length > limit {
                let type_url = self.type_url.to_owned();
                return Err(Close::NameLength { type_url, length, limit });
            }
            Ok(())
        };
        match &self.subscription {
            Subscription::Changes { subscribe, unsubscribe, initial } => {
                let initial = initial.iter().map(|(name, _)| name);
                let mut names = subscribe.iter().chain(unsubscribe).chain(initial);
                names.try_for_each(|name| length(name.text()))?;
            }
            Subscription::Whole { names, .. } => {
                names.iter().try_for_each(|name| length(name.text()))?;
            }
        }
        length(self.type_url)
    }
}

/// Decodes the node in the frame of a request, if it has one.
pub fn decode_node(variant: Variant, frame: &[u8], limits: &Limits) -> Result<Option<Node>, Close> {
    let number = match variant {
        Variant::Delta => 1,
        Variant::StateOfTheWorld => 2,
    };
    let mut node = None;
    for field in Fields::new(frame) {
        let field = field?;
        if field.number == number {
            node = Some(field.message()?);
        }
    }
    let Some(node): Option<Node> = node else { return Ok(None) };
    let (length, limit) = (node.metadata.len(), limits.metadata_bytes);
    if length > limit {
        return Err(Close::Metadata { length, limit });
    }
    Ok(Some(node))
}

/// Decodes an entry of `initial_resource_versions`: a map is encoded as its entries.
fn initial_version(entry: &[u8]) -> Result<(NameRef<'_>, Version), FrameError> {
    let (mut name, mut version) = ("", "");
    for field in Fields::new(entry) {
        let field = field?;
        match field.number {
            1 => name = field.text()?,
            2 => version = field.text()?,
            _ => {}
        }
    }
    Ok((name.into(), Version::parse(version)))
}
