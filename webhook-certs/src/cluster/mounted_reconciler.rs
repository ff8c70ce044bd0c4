//! Reconciler for a mounted CA: reads its files, signs the served leaf, publishes its roots.

use std::convert::Infallible;
use std::mem::replace;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, watch};

use super::api::ClusterApi;
use super::root_config_maps::Snapshot;
use super::writes::Writes;
use super::{AuthoritySender, wait};
use crate::authority::Lifetime;
use crate::bundle::TrustedCa;
use crate::options::Options;
use crate::server_names::ServerNames;
use crate::serving::ServingCertificate;
use crate::status::Status;
use crate::workload::authority::{CaFiles, WorkloadAuthority};
use crate::workload::ca_folder::CaFolder;
use crate::workload::handover::Handover;

/// Reconciler of one replica for a CA that an operator mounts and replaces.
pub(super) struct MountedReconciler<'a> {
    api: &'a ClusterApi,
    options: &'a Options,
    folder: CaFolder,
    names: ServerNames,
    certificate: &'a ServingCertificate,
    status: watch::Sender<Status>,
    authority: AuthoritySender,
    writes: Writes<'a>,
    /// Files of the CA that signs, or will.
    used: Option<CaFiles>,
    /// That CA, beside the one that it replaces.
    handover: Option<Handover>,
    /// True once the published roots were compared with those of the files.
    knows_published: bool,
    /// Time from which the first CA signs even if the published roots are unknown.
    first_due: Option<Timestamp>,
    /// CA of the served leaf.
    issuer: Option<TrustedCa>,
}

impl<'a> MountedReconciler<'a> {
    /// A replica that has read no file.
    pub(super) fn new(
        api: &'a ClusterApi,
        options: &'a Options,
        folder: CaFolder,
        names: ServerNames,
        certificate: &'a ServingCertificate,
        status: watch::Sender<Status>,
        authority: AuthoritySender,
    ) -> Self {
        let writes = Writes::new(&options.parameters);
        Self {
            api,
            options,
            folder,
            names,
            certificate,
            status,
            authority,
            writes,
            used: None,
            handover: None,
            knows_published: false,
            first_due: None,
            issuer: None,
        }
    }

    /// Reconciles after changes of published roots, and at short intervals.
    pub(super) async fn run(&mut self, changed: &Notify) -> Infallible {
        loop {
            let mut errors = Vec::new();
            let pending = self.reconcile(&mut errors).await;
            self.status.send_if_modified(|status| status.record_errors(&errors));
            let pause = self.options.parameters.tick.min(BETWEEN_READS);
            wait(changed, pending.map_or(pause, |pending| pause.min(pending))).await;
        }
    }

    /// Returns the time until a pending write can be made.
    async fn reconcile(&mut self, errors: &mut Vec<String>) -> Option<Duration> {
        let roots = self.api.roots(errors);
        let clock_ahead = self.api.clock.ahead().unwrap_or_default();
        self.certificate.set_clock_ahead(clock_ahead);
        let now = self.api.clock.now();
        let loaded = self.load(now);
        self.hand_over(roots.as_ref(), now);
        if let Err(error) = loaded {
            let folder = self.folder.path().display();
            let effect =
                if self.used.is_some() { "the last one stays" } else { "no certificate is signed" };
            errors.push(format!("the CA in `{folder}` is not used: {error}; {effect}"));
        }
        if let Err(error) = self.serve(now) {
            errors.push(error);
        }
        let authority = self.authority.borrow().clone();
        let (Some(authority), Some(config_maps), Some(roots)) = (authority, &self.api.roots, roots)
        else {
            return None;
        };
        let published = config_maps.publish(roots, authority.roots(), &mut self.writes).await;
        errors.extend(published.errors);
        published.wait
    }

    /// Reads the CA of the files, if they have changed.
    fn load(&mut self, now: Timestamp) -> Result<(), String> {
        let files = self.folder.read().map_err(|error| error.to_string())?;
        if self.used.as_ref() == Some(&files) {
            return Ok(());
        }
        let new = WorkloadAuthority::from_files(&files, now).map_err(|error| error.to_string())?;
        let (name, new) = (new.certificate().name().to_owned(), Arc::new(new));
        let former = self.authority.borrow().clone();
        self.handover = Some(match former {
            Some(former) => Handover::from_former(&former, new, now),
            None => Handover::first(new, now),
        });
        tracing::info!(authority = name, "a mounted CA was read");
        self.used = Some(files);
        Ok(())
    }

    /// Lets the CA sign that is due. `roots` are `None` until the published ones are known.
    fn hand_over(&mut self, roots: Option<&Snapshot>, now: Timestamp) {
        let Some(handover) = &mut self.handover else { return };
        let is_first = roots.is_some() && !replace(&mut self.knows_published, true);
        let own = roots.and_then(|roots| roots.of_namespace(&self.options.namespace));
        if let Some(own) = own.filter(|_| is_first) {
            handover.retain(&own, now);
        }
        let published = match roots {
            Some(roots) => Some(roots.published().bundles),
            // Nothing is published.
            None => self.api.roots.is_none().then(Vec::new),
        };
        // Certificates that are signed before carry the new roots alone.
        let first_due = *self.first_due.get_or_insert(now + UNKNOWN_ROOTS);
        if published.is_none() && now < first_due && self.authority.borrow().is_none() {
            return;
        }
        let delay = self.options.parameters.propagation_delay;
        let current = handover.authority(now, delay, published.as_deref());
        self.authority.send_if_modified(|authority| {
            let is_same = authority.as_ref().is_some_and(|authority| {
                authority.certificate() == current.certificate()
                    && authority.roots() == current.roots()
            });
            if !is_same {
                let (name, roots) = (current.certificate().name(), current.roots().certificates());
                tracing::info!(authority = name, ?roots, "a mounted CA signs");
                *authority = Some(Arc::new(current));
            }
            !is_same
        });
    }

    /// Renews the served leaf at half of its life, and after a change of the CA.
    fn serve(&mut self, now: Timestamp) -> Result<(), String> {
        let Some(authority) = self.authority.borrow().clone() else { return Ok(()) };
        let is_due = |lifetime: Lifetime| {
            let span = lifetime.not_after.duration_since(lifetime.not_before);
            now.duration_since(lifetime.not_before) >= span / 2
        };
        let is_current = self.issuer.as_ref() == Some(authority.certificate());
        let current = self.certificate.current().filter(|_| is_current);
        if current.is_some_and(|current| !is_due(current.lifetime())) {
            return Ok(());
        }
        let validity = self.options.parameters.leaf_lifetime;
        let identity = authority
            .serving_identity(&self.names, validity, now)
            .map_err(|error| error.to_string())?;
        let not_after = identity.lifetime().not_after;
        self.certificate.set(identity);
        self.issuer = Some(authority.certificate().clone());
        tracing::info!(names = %self.names, %not_after, "a new leaf is served");
        self.status.send_modify(|status| {
            status.leaf_not_after = Some(not_after);
            status.authority_not_after = Some(authority.certificate().not_after());
            status.trusted = true;
        });
        Ok(())
    }
}

/// Longest wait for the published roots before the first CA signs.
const UNKNOWN_ROOTS: SignedDuration = SignedDuration::from_secs(20);
/// Interval at which the files are read.
const BETWEEN_READS: Duration = Duration::from_secs(10);
