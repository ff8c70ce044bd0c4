//! Network configurations as text: order of keys, spelling of numbers and white space stay as they
//! are.

use cni::json_object::{FieldError, JsonObject};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use thiserror::Error;

use crate::install::entry::TYPE;

/// Configuration of a network.
#[derive(Clone, Debug)]
pub struct ConfList {
    text: String,
    /// Name of the network, which keys the state of address management.
    pub name: String,
    /// True if the runtime reads no drop-ins beside this list.
    pub is_closed: bool,
    plugins: Vec<PlacedPlugin>,
}

/// Plugin with its place in the text.
#[derive(Clone, Debug)]
struct PlacedPlugin {
    start: usize,
    end: usize,
    value: Value,
}

/// Error of a network configuration.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfListError {
    /// The text is no configuration.
    #[error("{0}")]
    Json(String),
    /// The network has no name.
    #[error("\"name\" is missing")]
    NoName,
    /// The network has a name that no runtime takes.
    #[error("\"name\": {0:?} is no name of a network: use letters, digits, `_`, `.` and `-`")]
    Name(String),
    /// A plugin has no type.
    #[error("a plugin has no \"type\"")]
    NoType,
    /// The list has no plugin but ours.
    #[error("there is no plugin that makes a network")]
    NoPlugin,
}

impl ConfList {
    /// Parses the content of a file, as runtimes do: a file `.conflist` has a list of plugins, another
    /// one has a single plugin, which is returned as a list of one.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfListError> {
        if file.ends_with(".conflist") { Self::of_list(text) } else { Self::of_plugin(text) }
    }

    fn of_list(text: &str) -> Result<Self, ConfListError> {
        let fields = JsonObject::parse(text.as_bytes())?;
        let name: String = fields.field("name")?.unwrap_or_default();
        if name.is_empty() {
            return Err(ConfListError::NoName);
        }
        if !is_network_name(&name) {
            return Err(ConfListError::Name(name));
        }
        let place = |plugin: &&RawValue| {
            let start = plugin.get().as_ptr().addr() - text.as_ptr().addr();
            let value: Value = serde_json::from_str(plugin.get())?;
            let has_type = value["type"].as_str().is_some_and(|kind| !kind.is_empty());
            let placed = PlacedPlugin { start, end: start + plugin.get().len(), value };
            has_type.then_some(placed).ok_or(ConfListError::NoType)
        };
        let plugins: Vec<&RawValue> = fields.field("plugins")?.unwrap_or_default();
        let plugins = plugins.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        if plugins.iter().all(|plugin| plugin.value["type"] == TYPE) {
            return Err(ConfListError::NoPlugin);
        }
        let is_closed = match fields.field(ONLY_INLINED)?.unwrap_or(Value::Bool(false)) {
            Value::Bool(only) => only,
            // As a word, libcni takes these alone.
            Value::String(word) => word.eq_ignore_ascii_case("true"),
            other => {
                return Err(ConfListError::Json(format!(
                    "{ONLY_INLINED}: {other} is not true or false"
                )));
            }
        };
        Ok(Self { text: text.to_owned(), name, is_closed, plugins })
    }

    fn of_plugin(text: &str) -> Result<Self, ConfListError> {
        let fields = JsonObject::parse(text.as_bytes())?;
        let name = json!(fields.field::<String>("name")?.unwrap_or_default());
        let version = fields.field::<String>("cniVersion")?;
        let version =
            version.map(|it| format!("\"cniVersion\":{},", json!(it))).unwrap_or_default();
        Self::of_list(&format!("{{{version}\"name\":{name},\"plugins\":[\n{}\n]}}\n", text.trim()))
    }

    /// Returns the text of the list.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the entries of the plugin's type, ours and Istio's.
    pub fn entries(&self) -> impl Iterator<Item = &Value> {
        self.plugins.iter().map(|plugin| &plugin.value).filter(|value| value["type"] == TYPE)
    }

    /// Returns the types of the other plugins, which are the names of their programs.
    pub fn others(&self) -> Vec<String> {
        let types = self.plugins.iter().filter_map(|plugin| plugin.value["type"].as_str());
        types.filter(|it| *it != TYPE).map(str::to_owned).collect()
    }

    /// True if the list has this entry once, behind another plugin.
    ///
    /// It need not be the last one: another program that wants to be last would write the file again
    /// and again.
    pub fn has_entry(&self, entry: &Value) -> bool {
        let mut found = self.plugins.iter().enumerate().filter(|(_, it)| it.value["type"] == TYPE);
        matches!((found.next(), found.next()), (Some((place, plugin)), None) if place > 0 && plugin.value == *entry)
    }

    /// True if this is a copy of another list, with this entry behind its plugins. Plugins that other
    /// programs have added behind the entry may follow.
    pub fn is_copy_of(&self, other: &Self, entry: &Value) -> bool {
        let copied = self.plugins.iter().map(|plugin| &plugin.value);
        let own = other.plugins.iter().map(|plugin| &plugin.value);
        let is_other = |plugin: &&Value| plugin["type"] != TYPE;
        self.has_entry(entry)
            && copied.take_while(is_other).eq(own.filter(is_other))
            && self.without_plugins() == other.without_plugins()
    }

    /// Returns the members of the list but the plugins.
    fn without_plugins(&self) -> Value {
        let mut list: Value = serde_json::from_str(&self.text).unwrap_or_default();
        list["plugins"].take();
        list
    }

    /// Returns the text with the entry as the last plugin, in place of all others of its type.
    pub fn with_entry(&self, entry: &str) -> Result<String, ConfListError> {
        let text = self.without_entries(|_| true);
        let list = Self::of_list(&text)?;
        let last = list.plugins.last().ok_or(ConfListError::NoPlugin)?;
        let before = &text[..last.start];
        let space = &before[before.trim_end().len()..];
        Ok(format!("{},{space}{entry}{}", &text[..last.end], &text[last.end..]))
    }

    /// Returns the text without the entries of the plugin's type that `is_removed` selects.
    pub fn without_entries(&self, is_removed: impl Fn(&Value) -> bool) -> String {
        let mut text = String::with_capacity(self.text.len());
        // The end of what has been copied, and of the last plugin that stays or has been removed.
        let (mut copied, mut end_before) = (0, None);
        for plugin in &self.plugins {
            let is_removed = plugin.value["type"] == TYPE && is_removed(&plugin.value);
            match (is_removed, end_before) {
                // With the comma before it.
                (true, Some(end)) => {
                    text.push_str(&self.text[copied..end]);
                    copied = plugin.end;
                }
                // The next plugin that stays takes its place.
                (true, None) if copied == 0 => {
                    text.push_str(&self.text[..plugin.start]);
                    copied = plugin.end;
                }
                (false, None) if copied > 0 => copied = plugin.start,
                _ => {}
            }
            if !is_removed || end_before.is_some() {
                end_before = Some(plugin.end);
            }
        }
        text.push_str(&self.text[copied..]);
        text
    }
}

/// True for a name that libcni takes for a network (`ValidateNetworkName`). It is the name of a
/// folder too.
fn is_network_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(|it| it.is_ascii_alphanumeric() || "_.-".contains(it))
}

impl From<serde_json::Error> for ConfListError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

impl From<FieldError> for ConfListError {
    fn from(error: FieldError) -> Self {
        Self::Json(error.to_string())
    }
}

const ONLY_INLINED: &str = "loadOnlyInlinedPlugins";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ENTRY: &str = r#"{"type":"istio-cni","x":1}"#;

    fn list(text: &str) -> ConfList {
        ConfList::parse("a.conflist", text).unwrap()
    }

    #[test]
    fn entry_is_the_last_plugin_in_the_layout_of_the_file() {
        let text = "{\n  \"name\": \"n\", \"mtu\": 1.50e3,\n  \"plugins\": [\n    {\"type\": \"a]\"},\n    {\"type\": \"b\"}\n  ]\n}\n";
        let with = list(text).with_entry(ENTRY).unwrap();
        let expected = text.replace(
            "{\"type\": \"b\"}",
            "{\"type\": \"b\"},\n    {\"type\":\"istio-cni\",\"x\":1}",
        );
        assert_eq!(with, expected);
        assert!(list(&with).has_entry(&serde_json::from_str(ENTRY).unwrap()));
        assert_eq!(list(&with).with_entry(ENTRY).unwrap(), with);
        assert_eq!(list(&with).without_entries(|_| true), text);
    }

    #[test]
    fn entries_of_the_type_are_removed_wherever_they_are() {
        let plugins = |plugins: &str| format!(r#"{{"name":"n","plugins":[{plugins}]}}"#);
        let (own, a, b) = (r#"{"type":"istio-cni"}"#, r#"{"type":"a"}"#, r#"{"type":"b"}"#);
        for (before, after) in [
            (format!("{own}, {a},{b}"), format!("{a},{b}")),
            (format!("{own},{own} ,{a}, {own},{own} ,{b}"), format!("{a} ,{b}")),
            (format!("{a} , {own}"), a.to_owned()),
            (format!("{a},{b}"), format!("{a},{b}")),
        ] {
            let text = list(&plugins(&before)).without_entries(|_| true);
            assert_eq!(text, plugins(&after), "{before}");
        }
    }

    #[test]
    fn entry_behind_ours_is_no_reason_to_write_again() {
        let entry: Value = serde_json::from_str(ENTRY).unwrap();
        let plugins = |plugins: &str| list(&format!(r#"{{"name":"n","plugins":[{plugins}]}}"#));
        assert!(plugins(&format!(r#"{{"type":"a"}},{ENTRY},{{"type":"b"}}"#)).has_entry(&entry));
        for other in [
            format!(r#"{ENTRY},{{"type":"a"}}"#),
            format!(r#"{{"type":"a"}},{ENTRY},{ENTRY}"#),
            r#"{"type":"a"},{"type":"istio-cni"}"#.to_owned(),
            r#"{"type":"a"}"#.to_owned(),
        ] {
            assert!(!plugins(&other).has_entry(&entry), "{other}");
        }
    }

    #[test]
    fn single_plugin_becomes_a_list_of_the_same_network() {
        let text = r#"{"cniVersion": "0.3.1", "name": "lab", "type": "bridge", "mtu": 1500}"#;
        let list = ConfList::parse("10-lab.conf", text).unwrap();
        assert_eq!(list.name, "lab");
        let with: Value = serde_json::from_str(&list.with_entry(ENTRY).unwrap()).unwrap();
        assert_eq!(with["cniVersion"], "0.3.1");
        assert_eq!(with["plugins"][0]["mtu"], 1500);
        assert_eq!(with["plugins"][1]["type"], "istio-cni");
    }

    #[test]
    fn files_that_make_no_network_are_errors() {
        use ConfListError::{Name, NoName, NoPlugin, NoType};
        for (file, text, expected) in [
            ("a.conflist", r#"{"plugins":[{"type":"a"}]}"#, NoName),
            ("a.conflist", r#"{"name":"../x","plugins":[{}]}"#, Name("../x".to_owned())),
            ("a.conflist", r#"{"name":".","plugins":[{}]}"#, Name(".".to_owned())),
            ("a.conflist", r#"{"name":"n"}"#, NoPlugin),
            ("a.conflist", r#"{"name":"n","plugins":null}"#, NoPlugin),
            ("a.conflist", r#"{"name":"n","plugins":[]}"#, NoPlugin),
            ("a.conflist", r#"{"name":"n","plugins":[{"type":"istio-cni"}]}"#, NoPlugin),
            ("a.conflist", r#"{"name":"n","plugins":[{}]}"#, NoType),
            ("a.conf", r#"{"name":"n"}"#, NoType),
            ("a.json", r#"{"type":"a"}"#, NoName),
        ] {
            assert_eq!(ConfList::parse(file, text).unwrap_err(), expected, "{text}");
        }
        for text in ["", "{", r#"{"name":1,"plugins":[]}"#, "[]"] {
            let error = ConfList::parse("a.conflist", text).unwrap_err();
            assert!(matches!(error, ConfListError::Json(_)), "{text}: {error}");
        }
    }

    #[test]
    fn fields_are_read_as_go_reads_them() {
        let closed = |value: &str| {
            let text = r#"{"name":"m","name":"n","loadOnlyInlinedPlugins":VALUE,
                "plugins":[{"type":"a"}],"plugins":[{"type":"b","type":"c"}]}"#;
            let list = list(&text.replace("VALUE", value));
            assert_eq!((list.name.as_str(), &list.plugins[0].value["type"]), ("n", &json!("c")));
            list.is_closed
        };
        assert!(closed("true") && closed("\"true\""));
        assert!(!closed("false") && !closed("\"false\"") && !closed("null"));
    }

    fn json_text() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("1.50e3".to_owned()),
            Just("-0".to_owned()),
            Just("null".to_owned()),
            "[ -~äß]{0,8}".prop_map(|text| json!(text).to_string()),
            Just(r#""\u005d\"}]""#.to_owned()),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                (proptest::collection::vec(inner.clone(), 0..4), "[ \n\t]{0,2}").prop_map(
                    |(items, space)| format!("[{space}{}]", items.join(&format!(",{space}")))
                ),
                (proptest::collection::vec(("[a-z]{1,4}", inner), 0..4), "[ \n\t]{0,2}").prop_map(
                    |(members, space)| {
                        let members =
                            members.into_iter().enumerate().map(|(number, (key, value))| {
                                format!("{space}\"{key}{number}\"{space}:{value}")
                            });
                        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
                    }
                ),
            ]
        })
    }

    proptest! {
        #[test]
        fn removing_the_entry_gives_the_text_before(
            plugins in proptest::collection::vec((json_text(), "[ \r\n\t]{0,3}"), 1..4),
            other in json_text(),
            space in "[ \n\t]{0,3}",
        ) {
            let plugins: Vec<_> = plugins
                .into_iter()
                .map(|(value, space)| format!("{space}{{\"x\":{value},{space}\"type\":\"a\"}}{space}"))
                .collect();
            let text = format!(
                "{space}{{\"o\":{other},{space}\"plugins\":{space}[{}],\"name\":\"n\"}}{space}",
                plugins.join(",")
            );
            let with = list(&text).with_entry(ENTRY).unwrap();
            prop_assert_eq!(list(&with).with_entry(ENTRY).unwrap(), with.clone());
            prop_assert_eq!(list(&with).without_entries(|_| true), text);
        }
    }
}
