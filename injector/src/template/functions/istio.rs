//! Istio's own functions, which replace sprig functions of the same name.

use std::collections::HashMap;

use gtmpl_ng::Value as TemplateValue;

use super::arguments::{exactly, is_empty, is_nothing, list, mapping, member, printed, text};
use super::encoding::{json_text, parsed, sound, to_yaml};
use super::text::indented;
use super::{FunctionResult, Table, dicts, error, on_plain, table};
use crate::istio::{capture_ports, multus, otel_attributes};
use crate::template::escape;
use crate::template::values::json::{self, JSON, OTEL, hidden};

pub(super) const TABLE: Table = table![
    ("annotation", annotation),
    ("appendMultusNetwork", |a| on_plain(a, append_multus_network)),
    ("applicationPorts", |a| ports("applicationPorts", a, true)),
    ("directory", |a| on_plain(a, directory)),
    ("env", env),
    ("excludeInboundPort", |a| on_plain(a, exclude_inbound_port)),
    ("excludeInterfaces", |a| Ok(exactly::<1>("excludeInterfaces", a)?[0].clone())),
    ("formatDuration", format_duration),
    ("fromJSON", |a| Ok(parsed(&exactly::<1>("fromJSON", a)?[0]).unwrap_or_else(|_| "{}".into()))),
    ("includeInboundPorts", |a| ports("includeInboundPorts", a, false)),
    ("indent", indent),
    ("isset", is_set),
    ("kubevirtInterfaces", |a| Ok(exactly::<1>("kubevirtInterfaces", a)?[0].clone())),
    ("mergeMaps", |a| Ok(TemplateValue::Map(dicts::of_strings(a)?))),
    ("omit", dicts::omit),
    ("omitNil", |a| Ok(omit_nil(&exactly::<1>("omitNil", a)?[0]))),
    ("otelResourceAttributes", otel_resource_attributes),
    ("protoToJSON", |a| message_json("protoToJSON", a)),
    ("strdict", strdict),
    ("structToJSON", |a| message_json("structToJSON", a)),
    ("toJSON", to_json),
    ("toJsonMap", |a| json_text(&TemplateValue::Map(dicts::of_strings(a)?))),
    ("toLower", |a| {
        on_plain(a, |a| Ok(text(&exactly::<1>("toLower", a)?[0])?.to_lowercase().into()))
    }),
    ("toYaml", to_yaml),
    ("valueOrDefault", value_or_default),
];

/// Returns the annotation's value, even an empty one, or else the default as text.
fn annotation(arguments: &[TemplateValue]) -> FunctionResult {
    let [metadata, name, default] = exactly("annotation", arguments)?;
    let (TemplateValue::Object(metadata) | TemplateValue::Map(metadata)) = metadata else {
        return Err(error("annotation takes .ObjectMeta, a name and a default"));
    };
    let annotations = metadata.get("Annotations").map(mapping).transpose()?;
    let value = annotations.and_then(|annotations| member(annotations, text(name).ok()?));
    Ok(value.cloned().unwrap_or_else(|| printed(default).into()))
}

fn append_multus_network(arguments: &[TemplateValue]) -> FunctionResult {
    let [existing, network] = exactly("appendMultusNetwork", arguments)?;
    Ok(multus::with_network(text(existing)?, text(network)?).into())
}

/// Returns the TCP ports of the containers, separated by commas.
fn ports(name: &str, arguments: &[TemplateValue], of_application: bool) -> FunctionResult {
    let [containers] = exactly(name, arguments)?;
    let containers = json::json(containers);
    let containers = containers.as_array().into_iter().flatten();
    let containers = containers
        .filter(|container| !of_application || container["Name"] != crate::kubernetes::pod::PROXY);
    let ports =
        containers.flat_map(|container| container["Ports"].as_array().into_iter().flatten());
    let tcp =
        ports.filter(|port| matches!(port["Protocol"].as_str().unwrap_or_default(), "TCP" | ""));
    let numbers = tcp.map(|port| port["ContainerPort"].to_string());
    Ok(numbers.collect::<Vec<_>>().join(",").into())
}

fn directory(arguments: &[TemplateValue]) -> FunctionResult {
    let [path] = exactly("directory", arguments)?;
    let path = text(path)?;
    Ok(path[..path.rfind('/').map_or(0, |end| end + 1)].into())
}

/// Returns the default: templates have no access to the injector's environment.
fn env(arguments: &[TemplateValue]) -> FunctionResult {
    let [_, default] = exactly("env", arguments)?;
    Ok(default.clone())
}

fn exclude_inbound_port(arguments: &[TemplateValue]) -> FunctionResult {
    let [port, ports] = exactly("excludeInboundPort", arguments)?;
    Ok(capture_ports::with_port(text(ports)?, &printed(port)).into())
}

fn format_duration(arguments: &[TemplateValue]) -> FunctionResult {
    let [duration] = exactly("formatDuration", arguments)?;
    let given = match hidden(duration, "AsDuration") {
        Some(text) => printed(text),
        None => printed(duration),
    };
    let seconds: f64 = given
        .strip_suffix('s')
        .and_then(|seconds| seconds.parse().ok())
        .ok_or_else(|| error(format!("formatDuration: {given:?} is not a duration")))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative"
    )]
    let whole = seconds.max(0.0).floor() as u64;
    let (hours, minutes) = (whole / 3600, whole / 60 % 60);
    #[expect(clippy::cast_precision_loss, reason = "less than a minute is left")]
    let rest = seconds - (whole - whole % 60) as f64;
    let long = if hours > 0 { format!("{hours}h{minutes}m") } else { format!("{minutes}m") };
    Ok(if whole < 60 { format!("{rest}s") } else { format!("{long}{rest}s") }.into())
}

/// Indents every line but the first.
fn indent(arguments: &[TemplateValue]) -> FunctionResult {
    let [spaces, subject] = exactly("indent", arguments)?;
    indented("indent", spaces, text(subject)?)
}

fn is_set(arguments: &[TemplateValue]) -> FunctionResult {
    let [members, key] = exactly("isset", arguments)?;
    Ok((!is_empty(members) && member(mapping(members)?, text(key)?).is_some()).into())
}

/// Removes nils, and then empty mappings and lists.
fn omit_nil(value: &TemplateValue) -> TemplateValue {
    match value {
        TemplateValue::Array(items) => {
            let items: Vec<_> =
                items.iter().map(omit_nil).filter(|item| *item != TemplateValue::Nil).collect();
            if items.is_empty() { TemplateValue::Nil } else { TemplateValue::Array(items) }
        }
        TemplateValue::Map(members) => {
            let members: HashMap<_, _> = members
                .iter()
                .map(|(key, value)| (key.clone(), omit_nil(value)))
                .filter(|(_, value)| *value != TemplateValue::Nil)
                .collect();
            if members.is_empty() { TemplateValue::Nil } else { TemplateValue::Map(members) }
        }
        TemplateValue::NoValue => TemplateValue::Nil,
        scalar => scalar.clone(),
    }
}

fn otel_resource_attributes(arguments: &[TemplateValue]) -> FunctionResult {
    let [mesh, annotations, labels, namespace, containers] =
        exactly("otelResourceAttributes", arguments)?;
    let Some(providers @ TemplateValue::Array(_)) = hidden(mesh, OTEL) else {
        return Ok("".into());
    };
    let providers = json::json(providers);
    let (annotations, labels) = (json::json(annotations), json::json(labels));
    let containers: Vec<_> = list(containers)?.iter().map(json::json).collect();
    let containers: Vec<_> = containers
        .iter()
        .map(|c| (c["Name"].as_str().unwrap_or_default(), c["Image"].as_str().unwrap_or_default()))
        .collect();
    let text = otel_attributes::resource_attributes(
        providers.as_array().map(Vec::as_slice).unwrap_or_default(),
        |key| annotations[key].as_str(),
        |key| labels[key].as_str(),
        &escape::plain(text(namespace)?),
        &containers,
    );
    Ok(escape::guarded(&text).into())
}

fn strdict(arguments: &[TemplateValue]) -> FunctionResult {
    if arguments.len() % 2 == 1 {
        return Err(error("strdict takes keys and values in pairs"));
    }
    let pairs = arguments.chunks(2).map(|pair| (printed(&pair[0]), printed(&pair[1]).into()));
    Ok(TemplateValue::Map(pairs.collect()))
}

fn to_json(arguments: &[TemplateValue]) -> FunctionResult {
    let [value] = exactly("toJSON", arguments)?;
    if is_empty(value) { Ok("{}".into()) } else { json_text(value) }
}

/// Returns the JSON of a message or a struct.
fn message_json(name: &str, arguments: &[TemplateValue]) -> FunctionResult {
    let [message] = exactly(name, arguments)?;
    match hidden(message, JSON) {
        Some(TemplateValue::String(json)) => Ok(sound(json).into()),
        _ if is_nothing(message) => Ok("{}".into()),
        _ => json_text(message),
    }
}

fn value_or_default(arguments: &[TemplateValue]) -> FunctionResult {
    let [value, default] = exactly("valueOrDefault", arguments)?;
    let none = is_nothing(value) || *value == TemplateValue::from("");
    Ok(if none { default } else { value }.clone())
}

#[cfg(test)]
mod tests {
    use crate::template::functions::check;

    #[test]
    fn results_equal_istio() {
        check(&[
            ("isset (dict `a` ``) `a`", "true"),
            ("isset (dict `a` ``) `b`", "false"),
            ("excludeInboundPort 15020 ``", "15020"),
            ("excludeInboundPort 0 `80`", "80"),
            ("excludeInboundPort `15020` `80,15020`", "80,15020"),
            ("excludeInboundPort 15020 ` 80, 90 `", "80,90,15020"),
            ("annotation (dict `Annotations` (dict `a` ``)) `a` `d`", ""),
            ("annotation (dict `Annotations` (dict `a` `1`)) `b` 5", "5"),
            ("annotation (dict `Annotations` (dict)) `b` nil", "<nil>"),
            ("annotation (dict) `b` `TPROXY`", "TPROXY"),
            ("valueOrDefault `` `d`", "d"),
            ("valueOrDefault nil `d`", "d"),
            ("valueOrDefault 0 `d`", "0"),
            ("toJSON (dict `a` 1)", r#"{"a":1}"#),
            ("toJSON nil", "{}"),
            ("(fromJSON `{\"a\":1}`).a", "1"),
            ("fromJSON `{`", "{}"),
            ("indent 2 `a\nb`", "a\n  b"),
            ("directory `/etc/certs/ca.pem`", "/etc/certs/"),
            ("directory `ca.pem`", ""),
            ("contains `/` `a/b`", "true"),
            ("toLower `Deployment`", "deployment"),
            ("appendMultusNetwork `` `default/istio-cni`", "default/istio-cni"),
            ("env `HOME` `none`", "none"),
            ("omit (dict `a` `1` `b` `2`) `a`", "map[b:2]"),
            ("strdict `a` 1", "map[a:1]"),
            ("mergeMaps (dict `a` `1`) (dict `a` `2` `b` `3`)", "map[a:2 b:3]"),
            ("toJsonMap (dict `a` `1`) (strdict `b` `2`)", r#"{"a":"1","b":"2"}"#),
            ("omitNil (dict `a` nil `b` (dict `c` nil) `d` 1)", "map[d:1]"),
            ("formatDuration `45s`", "45s"),
            ("formatDuration `90s`", "1m30s"),
            ("formatDuration `3600s`", "1h0m0s"),
            (
                "structToJSON (dict `name` `http` `hostPort` 0 `hostIP` ``)",
                r#"{"hostIP":"","hostPort":0,"name":"http"}"#,
            ),
            (
                "includeInboundPorts (list (dict `Name` `a` `Ports` (list (dict `ContainerPort` 80 `Protocol` `TCP`) (dict `ContainerPort` 53 `Protocol` `UDP`))))",
                "80",
            ),
            ("kubevirtInterfaces `eth0`", "eth0"),
        ]);
    }
}
