//! The node that the agent presents to the control plane: id, cluster, locality, metadata.
