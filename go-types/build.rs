//! Makes one array of constants out of the tables, so that lookups cost no parsing.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::{env, fs, path};

/// The tables, in the order of their structs' IDs. The last one has what is not of a module.
const TABLES: [&str; 3] = ["kubernetes", "istio", "template"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=tables");
    let mut text = String::new();
    let mut first_ids = Vec::new();
    for table in TABLES {
        first_ids.push(structs(&text).count());
        text += &fs::read_to_string(format!("tables/{table}.txt"))?;
    }
    let ids: HashMap<_, _> = structs(&text).zip(0..).collect();
    let mut code = format!("const MESSAGES: Range<usize> = {}..{};\n", first_ids[1], first_ids[2]);
    writeln!(code, "static ALL: [Type; {}] = [", ids.len())?;
    let mut lines = text.lines().peekable();
    while let Some(name) = lines.next() {
        writeln!(code, "Type {{ id: {}, name: {name:?}, fields: &[", ids[name])?;
        while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
            writeln!(code, "{},", field(line.trim(), &ids).ok_or(line)?)?;
        }
        code += "] },\n";
    }
    code += "];\n";
    Ok(fs::write(path::Path::new(&env::var("OUT_DIR")?).join("tables.rs"), code)?)
}

/// Returns the names of the structs.
fn structs(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with(' '))
}

fn field(line: &str, ids: &HashMap<&str, u16>) -> Option<String> {
    let (go, rest) = line.split_once(' ')?;
    let (tag, kind) = rest.split_once(' ')?;
    let (json, options) = tag.split_once(',').unwrap_or((tag, ""));
    let presence = match options {
        "" => "Always",
        "inline" => "Embedded",
        "oneof" => "OneOf",
        "omitempty" | "omitempty,omitzero" => "UnlessEmpty",
        _ => return None,
    };
    let kind = field_kind(kind, ids)?;
    let names = format!("go: {go:?}, json: {json:?}");
    Some(format!("Field {{ {names}, kind: {kind}, presence: Presence::{presence} }}"))
}

fn field_kind(kind: &str, ids: &HashMap<&str, u16>) -> Option<String> {
    let of_another = [("*", "Pointer"), ("[]", "List"), ("map ", "Map"), ("wrapped ", "Wrapper")];
    for (prefix, name) in of_another {
        if let Some(inner) = kind.strip_prefix(prefix) {
            return Some(format!("FieldKind::{name}(&{})", field_kind(inner, ids)?));
        }
    }
    if let Some(names) = kind.strip_prefix("enum ") {
        let names: Vec<_> = names.split('|').collect();
        return Some(format!("FieldKind::Enum(&{names:?})"));
    }
    let variant = match kind {
        "any" => "Any".to_owned(),
        "bool" => "Bool".to_owned(),
        "duration" => "Duration".to_owned(),
        "float64" => "Float".to_owned(),
        "int32" => "Int(32)".to_owned(),
        "int64" => "Int(64)".to_owned(),
        "intOrString" => "IntOrString".to_owned(),
        "quantity" => "Quantity".to_owned(),
        "string" => "String".to_owned(),
        "time" => "Time".to_owned(),
        "uint32" => "Unsigned".to_owned(),
        name => format!("Struct(&ALL[{}])", ids.get(name)?),
    };
    Some(format!("FieldKind::{variant}"))
}
