//! Arguments of `wait`.

use std::time::Duration;

use clap::Args;
use http::Uri;

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
    let url = text.parse::<Uri>().ok();
    let url = url.filter(|url| url.scheme_str() == Some("http") && url.host().is_some());
    url.ok_or_else(|| {
        "expected http://HOST[:PORT]/PATH, as http://localhost:15021/healthz/ready".to_owned()
    })
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
