//! Connections to the control plane and to the certificate service.

use std::path::PathBuf;

use http::{HeaderName, HeaderValue};
use mesh::proxy_config::ProxyConfig;
use mesh::proxy_config_rules::is_address;

use super::error::ConfigError;
use super::options::{CertificateOptions, DiscoveryOptions, KeyAlgorithm, Paths, RootSource};
use crate::environment::Environment;
use crate::environment::variables::{
    CA_ADDR, CA_HEADERS, CA_PROVIDER, CA_ROOT_CA, ECC_CURVE, ECC_SIGNATURE_ALGORITHM,
    FILE_DEBOUNCE_DURATION, FILE_MOUNTED_CERTS, Family, ISTIO_DELTA_XDS, ISTIOD_SAN, JWT_POLICY,
    OUTPUT_CERTS, PILOT_CERT_PROVIDER, PKCS8_KEY, PROV_CERT, PROXY_CONFIG_XDS_AGENT,
    SECRET_GRACE_PERIOD_RATIO, SECRET_GRACE_PERIOD_RATIO_JITTER, SECRET_TTL, Variable,
    WORKLOAD_IDENTITY_SOCKET_FILE, XDS_HEADERS, XDS_ROOT_CA,
};

/// Resolves the connection to the control plane.
pub(super) fn discovery(
    environment: &Environment,
    config: &ProxyConfig,
    paths: &Paths,
) -> Result<DiscoveryOptions, ConfigError> {
    let address = config.text_at("discoveryAddress").to_owned();
    let plaintext =
        address.ends_with(":15010") || config.text_at("controlPlaneAuthPolicy") == "NONE";
    Ok(DiscoveryOptions {
        server_name: server_name(environment)?,
        root: root(environment, XDS_ROOT_CA, paths)?,
        send_token: environment.get(PROV_CERT).is_none(),
        delta: environment.switch(ISTIO_DELTA_XDS)?,
        headers: headers(environment, XDS_HEADERS)?,
        additional_roots: environment.switch(PROXY_CONFIG_XDS_AGENT)?,
        plaintext,
        address,
    })
}

/// Resolves the workload certificate.
pub(super) fn certificates(
    environment: &Environment,
    discovery: &DiscoveryOptions,
    paths: &Paths,
) -> Result<CertificateOptions, ConfigError> {
    let folder = |variable| environment.get(variable).map(PathBuf::from);
    let provider = environment.text(CA_PROVIDER);
    if provider != "Citadel" {
        return Err(unsupported(
            environment,
            CA_PROVIDER,
            "the certificate service is Citadel's; hint: unset it",
        ));
    }
    let ca_address = match environment.get(CA_ADDR) {
        Some(address) if !is_address(address) => {
            let expected = "HOST:PORT without a scheme, such as istiod.istio-system.svc:15012";
            return Err(environment.wrong(CA_ADDR, expected).into());
        }
        Some(address) => address.to_owned(),
        // The plaintext port has no certificate service.
        None => match discovery.address.strip_suffix(":15010") {
            Some(host) => format!("{host}:15012"),
            None => discovery.address.clone(),
        },
    };
    let fraction = |variable| {
        let expected = "a number from 0 to 1";
        let parsed: f64 = environment
            .text(variable)
            .parse()
            .map_err(|_| environment.wrong(variable, expected))?;
        if (0.0..=1.0).contains(&parsed) {
            Ok(parsed)
        } else {
            Err(environment.wrong(variable, expected))
        }
    };
    let socket_file = environment.text(WORKLOAD_IDENTITY_SOCKET_FILE);
    if socket_file.contains('/') || [".", ".."].contains(&socket_file) {
        let wrong =
            environment.wrong(WORKLOAD_IDENTITY_SOCKET_FILE, "a file name without a folder");
        return Err(wrong.into());
    }
    let lifetime = environment.duration(SECRET_TTL)?;
    if lifetime.is_zero() {
        return Err(environment.wrong(SECRET_TTL, "a duration above 0s, such as 24h").into());
    }
    Ok(CertificateOptions {
        ca_root: root(environment, CA_ROOT_CA, paths)?,
        server_name: server_name(environment)?,
        headers: headers(environment, CA_HEADERS)?,
        lifetime,
        grace_ratio: fraction(SECRET_GRACE_PERIOD_RATIO)?,
        grace_jitter: fraction(SECRET_GRACE_PERIOD_RATIO_JITTER)?,
        key: key(environment)?,
        pkcs8: environment.switch(PKCS8_KEY)?,
        file_mounted: environment.switch(FILE_MOUNTED_CERTS)?,
        provisioned: folder(PROV_CERT),
        output: folder(OUTPUT_CERTS),
        socket_file: socket_file.to_owned(),
        file_debounce: environment.duration(FILE_DEBOUNCE_DURATION)?,
        ca_address,
    })
}

/// Returns the file of the token that `JWT_POLICY` names.
pub(super) fn token_path(environment: &Environment) -> Result<PathBuf, ConfigError> {
    match environment.text(JWT_POLICY) {
        "third-party-jwt" => Ok(Paths::default().token),
        "first-party-jwt" => Ok("var/run/secrets/kubernetes.io/serviceaccount/token".into()),
        _ => Err(environment.wrong(JWT_POLICY, "third-party-jwt or first-party-jwt").into()),
    }
}

fn root(
    environment: &Environment,
    variable: &'static Variable,
    paths: &Paths,
) -> Result<RootSource, ConfigError> {
    match environment.get(variable) {
        Some("SYSTEM") => return Ok(RootSource::System),
        Some(file) => return Ok(RootSource::File(file.into())),
        None => {}
    }
    match environment.text(PILOT_CERT_PROVIDER) {
        "istiod" => Ok(RootSource::File(paths.mesh_root.clone())),
        "kubernetes" => {
            Ok(RootSource::File("var/run/secrets/kubernetes.io/serviceaccount/ca.crt".into()))
        }
        // A signer of Kubernetes, whose root istiod distributes as its own.
        provider if provider.starts_with("k8s.io/") => {
            Ok(RootSource::File(paths.mesh_root.clone()))
        }
        "custom" => Ok(RootSource::File("etc/certs/root-cert.pem".into())),
        "none" => Ok(RootSource::System),
        _ => {
            let expected = "istiod, kubernetes, k8s.io/SIGNER, custom or none";
            Err(environment.wrong(PILOT_CERT_PROVIDER, expected).into())
        }
    }
}

fn key(environment: &Environment) -> Result<KeyAlgorithm, ConfigError> {
    if environment.text(ECC_SIGNATURE_ALGORITHM) != "ECDSA" {
        return Err(unsupported(environment, ECC_SIGNATURE_ALGORITHM, "keys are ECDSA"));
    }
    match environment.text(ECC_CURVE) {
        "P256" => Ok(KeyAlgorithm::EcdsaP256),
        "P384" => Ok(KeyAlgorithm::EcdsaP384),
        _ => Err(unsupported(environment, ECC_CURVE, "curves are P256 and P384")),
    }
}

/// Returns the headers of a family. The part after the prefix is the header's name.
fn headers(
    environment: &Environment,
    family: &Family,
) -> Result<Vec<(String, String)>, ConfigError> {
    let headers = environment.family(family);
    let checked = headers.map(|(name, value)| {
        // The value may be a secret.
        let wrong = |problem| {
            let variable = format!("{}{}", family.prefix, name.escape_debug());
            ConfigError::layer(variable, problem)
        };
        HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| wrong("the part after the prefix is not the name of an HTTP header"))?;
        if HeaderValue::from_str(value).is_err() || !value.is_ascii() {
            return Err(wrong("the value has characters that an HTTP header cannot have"));
        }
        Ok((name.to_owned(), value.to_owned()))
    });
    checked.collect()
}

fn server_name(environment: &Environment) -> Result<Option<String>, ConfigError> {
    let name = environment.get(ISTIOD_SAN);
    if name.is_some_and(|name| name.contains(|c: char| c.is_whitespace() || c.is_control())) {
        return Err(environment.wrong(ISTIOD_SAN, "one name without spaces").into());
    }
    Ok(name.map(str::to_owned))
}

fn unsupported(
    environment: &Environment,
    variable: &'static Variable,
    reason: &'static str,
) -> ConfigError {
    let value = environment.text(variable).to_owned();
    ConfigError::Unsupported { variable: variable.name, value, reason }
}

/// Largest fraction of a certificate's lifetime that remains at its renewal. Above it, the
/// certificate service would be asked without end.
pub const LARGEST_GRACE_RATIO: f64 = 0.9;
