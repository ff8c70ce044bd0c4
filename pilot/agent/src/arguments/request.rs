//! Arguments of `request`.

use clap::Args;
use http::Method;
use http::uri::PathAndQuery;

/// Arguments of `request`.
#[derive(Clone, Debug, Args)]
pub struct RequestArgs {
    /// Destination port: 15000 is Envoy's admin interface; 15004, 15020 and 15021 are the agent's
    #[arg(long = "debug-port", value_name = "PORT", default_value_t = 15000,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Method, such as GET or POST
    #[arg(value_parser = method)]
    pub method: Method,
    /// Path, with or without the slash at its beginning
    #[arg(value_parser = path)]
    pub path: PathAndQuery,
    /// Body [default: empty]
    pub body: Option<String>,
}

fn method(text: &str) -> Result<Method, String> {
    Method::from_bytes(text.to_ascii_uppercase().as_bytes())
        .map_err(|_| "expected an HTTP method, such as GET or POST".to_owned())
}

fn path(text: &str) -> Result<PathAndQuery, String> {
    format!("/{}", text.trim_start_matches('/'))
        .parse()
        .map_err(|_| "expected the path of a URL, such as /config_dump?mask=bootstrap".to_owned())
}
