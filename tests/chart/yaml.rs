//! Trees as templates of Helm.

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use crate::names::expressed;
use crate::tree::{Guard, Item, Tree};

/// Returns objects as the documents of a template.
pub(crate) fn template(objects: &[&Item]) -> Result<String> {
    let mut lines = Vec::new();
    for object in objects {
        open(&object.guards, 0, &mut lines);
        lines.push("---".to_owned());
        write(&object.tree, 0, &mut lines)?;
        close(&object.guards, 0, &mut lines);
    }
    Ok(lines.join("\n") + "\n")
}

fn write(tree: &Tree, indent: usize, lines: &mut Vec<String>) -> Result<()> {
    let (items, is_list) = match tree {
        Tree::Map(items) => (items, false),
        Tree::List(items) => (items, true),
        Tree::Scalar(_) | Tree::Block(_) => bail!("{tree:?} is no container"),
    };
    let padding = " ".repeat(indent);
    let mut opened: &[Guard] = &[];
    for item in items {
        if item.guards != opened {
            close(opened, indent, lines);
            open(&item.guards, indent, lines);
            opened = &item.guards;
        }
        if is_list {
            write_element(&item.tree, indent, lines)?;
            continue;
        }
        match &item.tree {
            Tree::Map(_) => {
                lines.push(format!("{padding}{}:", key(&item.key)));
                write(&item.tree, indent + 2, lines)?;
            }
            Tree::List(_) => {
                lines.push(format!("{padding}{}:", key(&item.key)));
                write(&item.tree, indent, lines)?;
            }
            Tree::Scalar(value) => {
                let value = scalar(value, indent + 2);
                lines.push(format!("{padding}{}: {value}", key(&item.key)));
            }
            Tree::Block(block) => write_block(block, indent, lines),
        }
    }
    close(opened, indent, lines);
    Ok(())
}

fn write_block(block: &str, indent: usize, lines: &mut Vec<String>) {
    let padding = " ".repeat(indent);
    let block = block.replace("INDENT", &indent.to_string());
    let block = block.replace("DEEPER", &(indent + 2).to_string());
    lines.extend(block.lines().map(|line| format!("{padding}{line}")));
}

/// Writes an element of a list: the first line after the hyphen, the others below it.
fn write_element(tree: &Tree, indent: usize, lines: &mut Vec<String>) -> Result<()> {
    let padding = " ".repeat(indent);
    match tree {
        Tree::Scalar(value) => lines.push(format!("{padding}- {}", scalar(value, indent + 2))),
        Tree::Block(block) => write_block(block, indent, lines),
        Tree::Map(items) => {
            let mut items = items.clone();
            // A condition cannot stand after the hyphen.
            items.sort_by_key(|item| !item.guards.is_empty());
            let first = lines.len();
            write(&Tree::Map(items), indent + 2, lines)?;
            let line = lines[first].trim_start();
            ensure!(!line.starts_with("{{"), "an element has conditions alone: {line}");
            lines[first] = format!("{padding}- {line}");
        }
        Tree::List(_) => {
            lines.push(format!("{padding}-"));
            write(tree, indent + 2, lines)?;
        }
    }
    Ok(())
}

fn open(guards: &[Guard], indent: usize, lines: &mut Vec<String>) {
    let padding = " ".repeat(indent);
    lines.extend(guards.iter().map(|guard| format!("{padding}{}", header(guard))));
}

fn close(guards: &[Guard], indent: usize, lines: &mut Vec<String>) {
    let padding = " ".repeat(indent);
    lines.extend(guards.iter().map(|_| format!("{padding}{{{{- end }}}}")));
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
            line if line.is_empty() => line,
            line => format!("{padding}{line}"),
        };
        let lines: Vec<_> = string.lines().map(line).collect();
        return format!("{style}\n{}", lines.join("\n"));
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
        let mut lines = Vec::new();
        write(&tree, 0, &mut lines).unwrap();
        lines.join("\n") + "\n"
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
