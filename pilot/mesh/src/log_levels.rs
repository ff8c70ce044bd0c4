//! Log levels in the arguments of `pilot-agent`: `--proxyLogLevel`, `--proxyComponentLogLevel` and
//! `--log_output_level`. The injector validates what the agent would refuse.

/// Envoy's log levels.
pub const OF_ENVOY: [&str; 8] =
    ["trace", "debug", "info", "warning", "warn", "error", "critical", "off"];

/// The agent's log levels.
pub const OF_AGENT: [&str; 6] = ["none", "fatal", "error", "warn", "info", "debug"];

/// True for a list `COMPONENT:LEVEL,...` with Envoy's levels; it may be empty.
pub fn are_of_components(text: &str) -> bool {
    let is_entry = |entry: &str| {
        let entry = entry.split_once(':');
        entry.is_some_and(|(component, level)| !component.is_empty() && OF_ENVOY.contains(&level))
    };
    text.is_empty() || text.split(',').all(is_entry)
}

/// Returns scopes and levels of a list `[SCOPE:]LEVEL,...`, with the scope `default` for a level
/// alone. `None` if the text is not such a list.
pub fn of_scopes(text: &str) -> Option<Vec<(&str, &str)>> {
    text.split(',').map(scope_and_level).collect()
}

fn scope_and_level(item: &str) -> Option<(&str, &str)> {
    let (scope, level) = item.trim().split_once(':').unwrap_or(("default", item.trim()));
    (!scope.is_empty() && OF_AGENT.contains(&level)).then_some((scope, level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_components_have_levels_of_envoy() {
        for (text, valid) in [
            ("", true),
            ("misc:error,http:debug", true),
            ("misc", false),
            (":info", false),
            ("misc:loud", false),
            ("misc:info,", false),
            ("misc:info, http:info", true),
        ] {
            assert_eq!(are_of_components(text), valid, "{text}");
        }
    }

    #[test]
    fn level_without_a_scope_is_of_the_default() {
        assert_eq!(of_scopes("warn, dns:debug"), Some(vec![("default", "warn"), ("dns", "debug")]));
        for text in ["", "loud", ":info", "default:", "a:b:info", "info,", "trace"] {
            assert_eq!(of_scopes(text), None, "{text}");
        }
    }
}
