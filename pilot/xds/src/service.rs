//! gRPC services of xDS and the two variants of its protocol.

/// Variant of the protocol.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Variant {
    /// Every response has the whole state of its type.
    StateOfTheWorld,
    /// A response has changes only.
    Delta,
}

/// gRPC service. Each has one method per [`Variant`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DiscoveryService {
    /// All types on one stream (ADS).
    Aggregated,
    /// Secrets (SDS).
    Secret,
}

impl DiscoveryService {
    /// Returns the path of the method for a variant.
    pub const fn path(self, variant: Variant) -> &'static str {
        use Variant::{Delta, StateOfTheWorld};
        match (self, variant) {
            (Self::Aggregated, StateOfTheWorld) => {
                "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
            }
            (Self::Aggregated, Delta) => {
                "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
            }
            (Self::Secret, StateOfTheWorld) => {
                "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets"
            }
            (Self::Secret, Delta) => "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets",
        }
    }

    /// Returns the variant of a method's path, or `None` if it is no method of this service.
    pub fn variant(self, path: &str) -> Option<Variant> {
        [Variant::Delta, Variant::StateOfTheWorld]
            .into_iter()
            .find(|variant| self.path(*variant) == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_another_service_has_no_variant() {
        let path = DiscoveryService::Secret.path(Variant::Delta);
        assert_eq!(DiscoveryService::Secret.variant(path), Some(Variant::Delta));
        assert_eq!(DiscoveryService::Aggregated.variant(path), None);
    }
}
