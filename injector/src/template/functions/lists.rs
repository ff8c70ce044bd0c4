//! sprig's functions on lists.
//!
//! `$x = append $x …` in a template calls none of these: `template/rewrite/metered.rs` rewrites it
//! to append in place.

use gtmpl_ng::Value as TemplateValue;

use super::arguments::{at_least, count, exactly, is_empty, list};
use super::{FunctionResult, Table, error, on_plain, table};
use crate::template::rendering::{ITEM, charge_for, weight};

pub(super) const TABLE: Table = table![
    ("append", append),
    ("chunk", chunk),
    ("compact", compact),
    ("concat", concat),
    ("first", first),
    ("has", |a| on_plain(a, has)),
    ("initial", initial),
    ("last", last),
    ("list", |a| Ok(TemplateValue::Array(a.to_vec()))),
    ("mustAppend", append),
    ("mustChunk", chunk),
    ("mustCompact", compact),
    ("mustFirst", first),
    ("mustHas", |a| on_plain(a, has)),
    ("mustInitial", initial),
    ("mustLast", last),
    ("mustPrepend", prepend),
    ("mustPush", append),
    ("mustRest", rest),
    ("mustReverse", reverse),
    ("mustSlice", slice),
    ("mustUniq", uniq),
    ("mustWithout", |a| on_plain(a, without)),
    ("prepend", prepend),
    ("push", append),
    ("rest", rest),
    ("reverse", reverse),
    ("slice", slice),
    ("tuple", |a| Ok(TemplateValue::Array(a.to_vec()))),
    ("uniq", uniq),
    ("without", |a| on_plain(a, without)),
];

fn items<'a>(
    name: &str,
    arguments: &'a [TemplateValue],
) -> Result<&'a [TemplateValue], gtmpl_ng::FuncError> {
    let [items] = exactly(name, arguments)?;
    list(items)
}

fn append(arguments: &[TemplateValue]) -> FunctionResult {
    let [items, item] = exactly("append", arguments)?;
    Ok(TemplateValue::Array(list(items)?.iter().chain([item]).cloned().collect()))
}

fn prepend(arguments: &[TemplateValue]) -> FunctionResult {
    let [items, item] = exactly("prepend", arguments)?;
    Ok(TemplateValue::Array([item].into_iter().chain(list(items)?).cloned().collect()))
}

fn chunk(arguments: &[TemplateValue]) -> FunctionResult {
    let [size, items] = exactly("chunk", arguments)?;
    let size = count("chunk", size)?.max(1);
    let chunks = list(items)?.chunks(size);
    Ok(TemplateValue::Array(chunks.map(|chunk| TemplateValue::Array(chunk.to_vec())).collect()))
}

fn compact(arguments: &[TemplateValue]) -> FunctionResult {
    let items = items("compact", arguments)?.iter();
    Ok(TemplateValue::Array(items.filter(|item| !is_empty(item)).cloned().collect()))
}

fn concat(arguments: &[TemplateValue]) -> FunctionResult {
    let lists = arguments.iter().map(list).collect::<Result<Vec<_>, _>>()?;
    Ok(TemplateValue::Array(lists.concat()))
}

fn first(arguments: &[TemplateValue]) -> FunctionResult {
    Ok(items("first", arguments)?.first().cloned().unwrap_or(TemplateValue::Nil))
}

fn last(arguments: &[TemplateValue]) -> FunctionResult {
    Ok(items("last", arguments)?.last().cloned().unwrap_or(TemplateValue::Nil))
}

fn initial(arguments: &[TemplateValue]) -> FunctionResult {
    let items = items("initial", arguments)?;
    Ok(TemplateValue::Array(items[..items.len().saturating_sub(1)].to_vec()))
}

fn rest(arguments: &[TemplateValue]) -> FunctionResult {
    Ok(TemplateValue::Array(items("rest", arguments)?.iter().skip(1).cloned().collect()))
}

fn reverse(arguments: &[TemplateValue]) -> FunctionResult {
    Ok(TemplateValue::Array(items("reverse", arguments)?.iter().rev().cloned().collect()))
}

fn has(arguments: &[TemplateValue]) -> FunctionResult {
    let [item, items] = exactly("has", arguments)?;
    Ok(list(items)?.contains(item).into())
}

/// Slices a list as sprig does, and a string as Go does.
fn slice(arguments: &[TemplateValue]) -> FunctionResult {
    let ([subject], places) = at_least("slice", arguments)?;
    if let TemplateValue::String(_) = subject {
        return on_plain(arguments, gtmpl_ng::funcs::slice);
    }
    let items = list(subject)?;
    if items.is_empty() {
        return Ok(TemplateValue::Nil);
    }
    let place = |index: usize, default| {
        places.get(index).map_or(Ok(default), |place| count("slice", place))
    };
    let (from, to) = (place(0, 0)?, place(1, items.len())?);
    let part = items.get(from..to);
    let part = part.ok_or_else(|| error(format!("slice: {from} to {to} of {}", items.len())))?;
    Ok(TemplateValue::Array(part.to_vec()))
}

fn uniq(arguments: &[TemplateValue]) -> FunctionResult {
    let items = items("uniq", arguments)?;
    charge_for(items.len(), comparison(arguments) / 2)?;
    let mut seen: Vec<TemplateValue> = Vec::new();
    for item in items {
        if !seen.contains(item) {
            seen.push(item.clone());
        }
    }
    Ok(TemplateValue::Array(seen))
}

/// Returns the cost of comparing all values with one other value.
fn comparison(values: &[TemplateValue]) -> usize {
    values.iter().map(weight).sum::<usize>() / ITEM
}

fn without(arguments: &[TemplateValue]) -> FunctionResult {
    let ([items], omitted) = at_least("without", arguments)?;
    charge_for(omitted.len(), comparison(&arguments[..1]))?;
    let items = list(items)?.iter();
    Ok(TemplateValue::Array(items.filter(|item| !omitted.contains(item)).cloned().collect()))
}

#[cfg(test)]
mod tests {
    use crate::template::functions::check;

    #[test]
    fn results_equal_sprig() {
        check(&[
            ("append (list 1 2) 3", "[1 2 3]"),
            ("prepend (list 1 2) 0", "[0 1 2]"),
            ("first (list 1 2 3)", "1"),
            ("last (list 1 2 3)", "3"),
            ("rest (list 1 2 3)", "[2 3]"),
            ("initial (list 1 2 3)", "[1 2]"),
            ("reverse (list 1 2 3)", "[3 2 1]"),
            ("concat (list 1) (list 2 3)", "[1 2 3]"),
            ("uniq (list 1 1 2)", "[1 2]"),
            ("without (list 1 2 3) 2 3", "[1]"),
            ("has 4 (list 1 4)", "true"),
            ("compact (list 1 `a` `` 0 false)", "[1 a]"),
            ("slice (list 1 2 3) 1 2", "[2]"),
            ("slice (list 1 2 3) 1", "[2 3]"),
            ("slice `abc` 1 2", "b"),
            ("slice (list) 1 2", "<no value>"),
            ("slice (list 1) 1 5", "error: slice: 1 to 5 of 1"),
            ("chunk 2 (list 1 2 3)", "[[1 2] [3]]"),
            ("first (list)", "<no value>"),
            ("append `a` 1", "error: the string a where a list is expected"),
        ]);
    }
}
