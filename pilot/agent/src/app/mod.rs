//! Probes and lifecycle handlers of the application, sent on the kubelet's behalf.
