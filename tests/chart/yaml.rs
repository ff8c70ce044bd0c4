//! Trees as templates of Helm.

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use crate::names::expressed;
use crate::tree::{Guard, Item, Tree};

/// Writes objects as the documents of a template.
pub(crate) fn write_objects(objects: &[&Item]) -> Result<String> {
    let mut text = String::new();
    for object in objects {
        text.push_str(&opening(&object.guards, 0));
        text.push_str("---\n");
        write(&object.tree, 0, &mut text)?;
        text.push_str(&"{{- end }}\n".repeat(object.guards.len()));
    }
    Ok(text)
}

fn write(tree: &Tree, indent: usize, text: &mut String) -> Result<()> {
    let (items, is_list) = match tree {
        Tree::Map(items) => (items, false),
        Tree::List(items) => (items, true),
        Tree::Scalar(_) | Tree::Block(_) => bail!("{tree:?} is no container"),
    };
    let padding = " ".repeat(indent);
    let mut open: &[Guard] = &[];
    for item in items {
        if item.guards != open {
            text.push_str(&closing(open, indent));
            text.push_str(&opening(&item.guards, indent));
            open = &item.guards;
        }
        if is_list {
            write_element(&item.tree, indent, text)?;
            continue;
        }
        match &item.tree {
            Tree::Map(_) => {
                text.push_str(&format!("{padding}{}:\n", key(&item.key)));
                write(&item.tree, indent + 2, text)?;
            }
            Tree::List(_) => {
                text.push_str(&format!("{padding}{}:\n", key(&item.key)));
                write(&item.tree, indent, text)?;
            }
            Tree::Scalar(value) => {
                let value = scalar(value, indent + 2);
                text.push_str(&format!("{padding}{}: {value}\n", key(&item.key)));
            }
            Tree::Block(block) => {
                write_block(block, indent, text);
            }
        }
    }
    text.push_str(&closing(open, indent));
    Ok(())
}

fn write_block(block: &str, indent: usize, text: &mut String) {
    let padding = " ".repeat(indent);
    let block = block.replace("INDENT", &indent.to_string());
    let block = block.replace("DEEPER", &(indent + 2).to_string());
    block.lines().for_each(|line| text.push_str(&format!("{padding}{line}\n")));
}

/// Writes an element of a list: the first line after the hyphen, the others below it.
fn write_element(tree: &Tree, indent: usize, text: &mut String) -> Result<()> {
    let padding = " ".repeat(indent);
    match tree {
        Tree::Scalar(value) => {
            text.push_str(&format!("{padding}- {}\n", scalar(value, indent + 2)));
        }
        Tree::Block(block) => {
            write_block(block, indent, text);
        }
        Tree::Map(items) => {
            let mut items = items.clone();
            // A condition cannot stand after the hyphen.
            items.sort_by_key(|item| !item.guards.is_empty());
            let mut element = String::new();
            write(&Tree::Map(items), indent + 2, &mut element)?;
            let first = element.trim_start_matches(' ');
            ensure!(!first.starts_with("{{"), "an element has conditions alone: {element}");
            text.push_str(&format!("{padding}- {first}"));
        }
        Tree::List(_) => {
            text.push_str(&format!("{padding}-\n"));
            write(tree, indent + 2, text)?;
        }
    }
    Ok(())
}

fn opening(guards: &[Guard], indent: usize) -> String {
    let padding = " ".repeat(indent);
    guards.iter().map(|guard| format!("{padding}{}\n", header(guard))).collect()
}

fn closing(guards: &[Guard], indent: usize) -> String {
    format!("{}{{{{- end }}}}\n", " ".repeat(indent)).repeat(guards.len())
}

fn header(guard: &Guard) -> String {
    match guard {
        Guard::Each(range) => format!("{{{{- {range} }}}}"),
        guard => format!("{{{{- if {} }}}}", condition(guard)),
    }
}

fn condition(guard: &Guard) -> String {
    match guard {
        Guard::If(condition) | Guard::Each(condition) => (*condition).to_owned(),
        Guard::Unless(condition) => format!("not ({condition})"),
        Guard::Unset(value) => format!("not {value}"),
        Guard::Any(alternatives) => {
            let all = |guards: &Vec<Guard>| match guards.as_slice() {
                [guard] => format!("({})", condition(guard)),
                guards => {
                    let list: Vec<_> =
                        guards.iter().map(|guard| format!("({})", condition(guard))).collect();
                    format!("(and {})", list.join(" "))
                }
            };
            format!("or {}", alternatives.iter().map(all).collect::<Vec<_>>().join(" "))
        }
    }
}

fn key(key: &str) -> String {
    if is_plain(key) { key.to_owned() } else { Value::from(key).to_string() }
}

fn scalar(value: &Value, indent: usize) -> String {
    let Value::String(string) = value else { return value.to_string() };
    if string.contains('\n') {
        // A last line without an end is `|-`.
        let style = if string.ends_with('\n') { "|" } else { "|-" };
        let padding = " ".repeat(indent);
        let line = |line: &str| match expressed(line, str::to_owned) {
            line if line.is_empty() => "\n".to_owned(),
            line => format!("\n{padding}{line}"),
        };
        return style.to_owned() + &string.lines().map(line).collect::<String>();
    }
    if is_plain(string) {
        return expressed(string, str::to_owned);
    }
    let escape = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    format!("\"{}\"", expressed(string, escape))
}

/// True if YAML reads the text as a string without quotes, whatever the values in its place are.
fn is_plain(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let reserved = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(is_word)
        && !reserved.contains(&text.to_ascii_lowercase().as_str())
        && !["tHe", "istio-system"].iter().any(|name| text.starts_with(name))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panic")]

    use serde_json::json;

    use super::write;
    use crate::tree::{Guard, Tree};

    const A: Guard = Guard::If("$.Values.a");
    const B: Guard = Guard::If("$.Values.b");

    fn template(layers: &[(Guard, serde_json::Value, serde_json::Value)]) -> String {
        let mut tree = Tree::new(&layers[0].1);
        for (guard, before, after) in layers {
            tree.apply(before, after, guard).unwrap();
        }
        let mut text = String::new();
        write(&tree, 0, &mut text).unwrap();
        text
    }

    #[test]
    fn changed_field_has_both_conditions() {
        let [before, after] = ["Fail", "Ignore"].map(|policy| json!({ "policy": policy }));
        assert_eq!(
            template(&[(A, before, after)]),
            "\
{{- if not ($.Values.a) }}
policy: Fail
{{- end }}
{{- if $.Values.a }}
policy: Ignore
{{- end }}
"
        );
    }

    #[test]
    fn elements_of_a_list_keep_their_places() {
        let base = json!({"args": ["first", "last"]});
        let a = json!({"args": ["first", "of-a", "last"]});
        let b = json!({"args": ["last", "{{b}}"]});
        assert_eq!(
            template(&[(A, base.clone(), a), (B, base, b)]),
            "\
args:
{{- if not ($.Values.b) }}
- first
{{- end }}
{{- if $.Values.a }}
- of-a
{{- end }}
- last
{{- if $.Values.b }}
- \"{{ \"{{\" }}b}}\"
{{- end }}
"
        );
    }

    /// Else it would be null with neither, or there twice with both.
    #[test]
    fn map_of_two_layers_is_there_once() {
        let base = json!({"name": "x"});
        let with = |key: &str| json!({"name": "x", "annotations": {key: "1"}});
        assert_eq!(
            template(&[(A, base.clone(), with("a")), (B, base, with("b"))]),
            "\
name: x
{{- if or ($.Values.a) ($.Values.b) }}
annotations:
  {{- if $.Values.a }}
  a: \"1\"
  {{- end }}
  {{- if $.Values.b }}
  b: \"1\"
  {{- end }}
{{- end }}
"
        );
    }

    #[test]
    fn revision_becomes_an_expression_without_condition() {
        let before = json!({"name": "injector", "revision": "default"});
        let after = json!({"name": "injector-tHeReViSiOn", "revision": "tHeReViSiOn"});
        assert_eq!(
            template(&[(A, before, after)]),
            "name: injector{{ $suffix }}\nrevision: \"{{ $revision }}\"\n"
        );
    }
}
