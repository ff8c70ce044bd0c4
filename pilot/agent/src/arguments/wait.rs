//! Arguments of `wait`.

use std::time::Duration;

use clap::Args;
use http::Uri;
use http::uri::Authority;

/// Arguments of `wait`.
#[derive(Clone, Debug, Args)]
pub struct WaitArgs {
    /// URL that answers 200 when the proxy is ready
    #[arg(long, default_value = "http://localhost:15021/healthz/ready", value_parser = http_url)]
    pub url: Uri,
    /// Maximum wait in seconds
    #[arg(long = "timeoutSeconds", value_name = "SECONDS", allow_negative_numbers = true, default_value = "60", value_parser = seconds)]
    pub timeout: Duration,
    /// Delay between two requests in milliseconds
    #[arg(long = "periodMillis", value_name = "MILLISECONDS", allow_negative_numbers = true, default_value = "500", value_parser = milliseconds)]
    pub period: Duration,
    /// Timeout of a request in milliseconds
    #[arg(long = "requestTimeoutMillis", value_name = "MILLISECONDS", allow_negative_numbers = true, default_value = "500", value_parser = milliseconds)]
    pub request_timeout: Duration,
}

fn http_url(text: &str) -> Result<Uri, String> {
    let expected = "expected http://HOST[:PORT]/PATH, as http://localhost:15021/healthz/ready";
    let url = text.parse::<Uri>().ok();
    let url = url.filter(|url| url.scheme_str() == Some("http") && url.host().is_some());
    let url = url.ok_or_else(|| expected.to_owned())?;
    // `Uri` accepts ports that do not exist.
    let server = url.authority().map_or("", Authority::as_str);
    let port = server.rsplit_once(':').map_or("", |(_, port)| port);
    let is_default = port.is_empty() || port.ends_with(']');
    if is_default || url.port_u16().is_some_and(|port| port != 0) {
        return Ok(url);
    }
    Err(format!("the port {port:?} is not a number from 1 to 65535; {expected}"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    positive(text).map(|number| Duration::from_secs(number.into()))
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    positive(text).map(|number| Duration::from_millis(number.into()))
}

fn positive(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("expected a whole number from 1 to {}", u32::MAX))
}
