//! Go's built-in functions where the engine differs from Go, and sprig's functions on any value.

use gtmpl_ng::{NumberKind, Value as TemplateValue, funcs};

use super::arguments::{at_least, exactly, fraction, is_empty, member, text};
use super::{FunctionResult, Table, error, on_plain, table};
use crate::template::escape;
use crate::template::values::type_tag;

pub(super) const TABLE: Table = table![
    ("all", |a| Ok(a.iter().all(|value| !is_empty(value)).into())),
    ("any", |a| Ok(a.iter().any(|value| !is_empty(value)).into())),
    ("coalesce", |a| Ok(coalesce(a))),
    ("deepEqual", |a| on_plain(a, |a| exactly("deepEqual", a).map(|[a, b]| (a == b).into()))),
    ("default", default),
    ("empty", |a| Ok(is_empty(&exactly::<1>("empty", a)?[0]).into())),
    ("eq", eq),
    ("fail", fail),
    ("ge", |a| on_plain(a, funcs::ge)),
    ("gt", |a| on_plain(a, funcs::gt)),
    ("index", index),
    ("kindIs", |a| {
        exactly("kindIs", a).and_then(|[name, value]| Ok((text(name)? == kind(value)).into()))
    }),
    ("kindOf", |a| Ok(kind(&exactly::<1>("kindOf", a)?[0]).into())),
    ("le", |a| on_plain(a, funcs::le)),
    ("len", len),
    ("lt", |a| on_plain(a, funcs::lt)),
    ("ne", ne),
    ("ternary", ternary),
    ("typeIs", |a| type_is("typeIs", a)),
    ("typeIsLike", |a| type_is("typeIsLike", a)),
    ("typeOf", |a| Ok(go_type(&exactly::<1>("typeOf", a)?[0])?.into())),
];

fn default(arguments: &[TemplateValue]) -> FunctionResult {
    let ([default], given) = at_least("default", arguments)?;
    Ok(given.first().filter(|given| !is_empty(given)).unwrap_or(default).clone())
}

fn coalesce(arguments: &[TemplateValue]) -> TemplateValue {
    arguments.iter().find(|value| !is_empty(value)).cloned().unwrap_or(TemplateValue::Nil)
}

fn ternary(arguments: &[TemplateValue]) -> FunctionResult {
    let [yes, no, which] = exactly("ternary", arguments)?;
    Ok(if *which == TemplateValue::Bool(true) { yes } else { no }.clone())
}

fn fail(arguments: &[TemplateValue]) -> FunctionResult {
    let [problem] = exactly("fail", arguments)?;
    Err(error(text(problem)?))
}

/// Returns true if the first argument equals any other. As in Go, values of different kinds cannot
/// be compared.
fn eq(arguments: &[TemplateValue]) -> FunctionResult {
    let ([first, second], rest) = at_least("eq", arguments)?;
    for other in [second].into_iter().chain(rest) {
        if equal(first, other)? {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

fn ne(arguments: &[TemplateValue]) -> FunctionResult {
    let [a, b] = exactly("ne", arguments)?;
    Ok((!equal(a, b)?).into())
}

fn equal(a: &TemplateValue, b: &TemplateValue) -> Result<bool, gtmpl_ng::FuncError> {
    match (a, b) {
        (TemplateValue::String(a), TemplateValue::String(b)) => {
            Ok(a == b || escape::plain(a) == escape::plain(b))
        }
        (
            TemplateValue::Nil | TemplateValue::NoValue,
            TemplateValue::Nil | TemplateValue::NoValue,
        ) => Ok(true),
        (TemplateValue::Nil | TemplateValue::NoValue, _)
        | (_, TemplateValue::Nil | TemplateValue::NoValue) => Ok(false),
        (TemplateValue::Number(_), TemplateValue::Number(_)) => {
            Ok(a == b || fraction(a).total_cmp(&fraction(b)).is_eq())
        }
        (TemplateValue::Bool(a), TemplateValue::Bool(b)) => Ok(a == b),
        _ if kind(a) == kind(b) => Ok(a == b),
        _ => Err(error(format!(
            "a {} and a {} cannot be compared (incompatible types for comparison)",
            kind(a),
            kind(b)
        ))),
    }
}

/// Returns the length as Go does: a struct has none.
fn len(arguments: &[TemplateValue]) -> FunctionResult {
    match arguments.first().and_then(type_tag::tagged_type) {
        Some(of) => Err(error(format!("len: a {} has no length", of.name))),
        None => on_plain(arguments, funcs::len),
    }
}

/// Indexes as Go does: a struct cannot be indexed, and an absent key of a mapping of strings gives
/// an empty string.
fn index(arguments: &[TemplateValue]) -> FunctionResult {
    let ([collection], keys) = at_least("index", arguments)?;
    let [key, rest @ ..] = keys else {
        return Ok(collection.clone());
    };
    if let Some(of) = type_tag::tagged_type(collection) {
        return Err(error(format!("index: a {} has fields, not items", of.name)));
    }
    let (TemplateValue::Map(members), TemplateValue::String(name)) = (collection, key) else {
        return funcs::index(arguments);
    };
    let item = match member(members, name) {
        Some(item) => item.clone(),
        None if members.values().all(|value| matches!(value, TemplateValue::String(_))) => {
            "".into()
        }
        None => TemplateValue::NoValue,
    };
    if rest.is_empty() {
        return Ok(item);
    }
    let next: Vec<_> = std::iter::once(item).chain(rest.iter().cloned()).collect();
    index(&next)
}

/// Returns the name of Go's kind.
fn kind(value: &TemplateValue) -> &'static str {
    match value {
        TemplateValue::Nil | TemplateValue::NoValue => "invalid",
        TemplateValue::Bool(_) => "bool",
        TemplateValue::String(_) => "string",
        TemplateValue::Array(_) => "slice",
        TemplateValue::Map(_) => "map",
        TemplateValue::Object(_) => "struct",
        TemplateValue::Function(_) => "func",
        TemplateValue::Number(number) => match number.kind() {
            NumberKind::Float(_) => "float64",
            NumberKind::Signed(_) | NumberKind::Unsigned(_) => "int",
        },
    }
}

/// True if a value has the type of this name. For a struct, a leading `*` is ignored, as pointers
/// are not distinguished from structs.
fn type_is(name: &str, arguments: &[TemplateValue]) -> FunctionResult {
    let [type_name, value] = exactly(name, arguments)?;
    let type_name = text(type_name)?;
    match type_tag::tagged_type(value) {
        Some(of) => Ok((type_name.strip_prefix('*').unwrap_or(type_name) == of.name).into()),
        None => Ok((type_name == go_type(value)?).into()),
    }
}

/// Returns the name of the Go type, for values of JSON types.
fn go_type(value: &TemplateValue) -> Result<&'static str, gtmpl_ng::FuncError> {
    match value {
        TemplateValue::Nil | TemplateValue::NoValue => Ok("<nil>"),
        TemplateValue::Array(_) => Ok("[]interface {}"),
        TemplateValue::Map(_) => Ok("map[string]interface {}"),
        TemplateValue::Object(_) => {
            Err(error("the types of Kubernetes and Istio have no name here"))
        }
        scalar => Ok(kind(scalar)),
    }
}

#[cfg(test)]
mod tests {
    use crate::template::functions::check;

    #[test]
    fn results_equal_go_and_sprig() {
        check(&[
            ("default `foo` ``", "foo"),
            ("default `foo` `bar`", "bar"),
            ("default 1 0", "1"),
            ("default 1", "1"),
            ("`` | default (`` | default `c`)", "c"),
            ("empty 0", "true"),
            ("coalesce 0 `` 2 3", "2"),
            ("all 1 `a`", "true"),
            ("any 0 ``", "false"),
            ("ternary `foo` `bar` true", "foo"),
            ("true | ternary `b` `c`", "b"),
            ("eq 1 2 1", "true"),
            ("eq nil `x`", "false"),
            ("ne nil ``", "true"),
            (
                "eq `true` true",
                "error: a string and a bool cannot be compared (incompatible types for comparison)",
            ),
            ("index (dict `a` (list 1 2)) `a` 1", "2"),
            ("index (dict `a` `b`) `none`", ""),
            ("index (dict `a` 1) `none`", "<no value>"),
            ("len `abc`", "3"),
            ("ge (len (list 1)) 1", "true"),
            ("kindOf (list)", "slice"),
            ("kindIs `map` (dict)", "true"),
            ("typeOf `a`", "string"),
            ("typeOf (dict)", "map[string]interface {}"),
            ("typeOf (list)", "[]interface {}"),
            ("typeIs `bool` true", "true"),
            ("typeIsLike `int` `1`", "false"),
            ("fail `stop`", "error: stop"),
        ]);
    }
}
