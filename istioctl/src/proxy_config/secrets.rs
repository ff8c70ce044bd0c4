//! Certificates of the secrets. Envoy's dump has no private key.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::Value;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::Part;
use super::dump::{Entry, objects, text};

#[derive(Debug, Args)]
pub(super) struct Secrets {}

impl Part for Secrets {
    const COLUMNS: &'static [&'static str] =
        &["RESOURCE NAME", "TYPE", "STATUS", "SERIAL NUMBER", "NOT AFTER", "NOT BEFORE", "NAMES"];

    fn entries(&self, dump: &Value) -> Vec<Entry> {
        let lists = [("dynamic_active_secrets", "ACTIVE"), ("dynamic_warming_secrets", "WARMING")];
        let found = lists.into_iter().flat_map(|(list, status)| {
            objects(dump, list, "/secret").map(move |secret| entry(secret, status))
        });
        found.collect()
    }
}

/// An entry with a row per certificate: of the chain, or of the trusted roots.
fn entry(secret: &Value, status: &str) -> Entry {
    let kinds = [
        ("Cert Chain", "/tls_certificate/certificate_chain"),
        ("CA", "/validation_context/trusted_ca"),
    ];
    let rows = kinds.into_iter().flat_map(|(kind, pointer)| {
        let certificates = certificates(secret.pointer(pointer));
        certificates.into_iter().map(move |certificate| {
            let mut row = [text(secret, "/name"), kind, status].map(str::to_owned).to_vec();
            row.extend(certificate);
            row
        })
    });
    Entry { rows: rows.collect(), object: secret.clone() }
}

/// Cells of each certificate of a data source: serial number, times, names.
fn certificates(source: Option<&Value>) -> Vec<[String; 4]> {
    let Some(source) = source else { return Vec::new() };
    let pem = match text(source, "/inline_bytes") {
        "" => text(source, "/inline_string").as_bytes().to_vec(),
        encoded => BASE64_STANDARD.decode(encoded).unwrap_or_default(),
    };
    let parsed = CertificateDer::pem_slice_iter(&pem).map(|der| {
        let der = der.ok()?;
        let (_, certificate) = X509Certificate::from_der(&der).ok()?;
        Some(cells(&certificate))
    });
    let cells =
        |cells: Option<_>| cells.unwrap_or_else(|| ["not readable", "", "", ""].map(str::to_owned));
    parsed.map(cells).collect()
}

fn cells(certificate: &X509Certificate<'_>) -> [String; 4] {
    let time = |seconds| match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.to_string(),
        Err(_) => String::new(),
    };
    let validity = certificate.validity();
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.into_iter().flat_map(|names| &names.value.general_names);
    let names = names.filter_map(|name| match name {
        GeneralName::URI(name) | GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    [
        certificate.serial.to_str_radix(16),
        time(validity.not_after.timestamp()),
        time(validity.not_before.timestamp()),
        names.collect::<Vec<_>>().join(","),
    ]
}
