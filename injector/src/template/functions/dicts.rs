//! sprig's functions on mappings.
//!
//! Mappings are immutable here: a function returns a new one. `set` and `unset` change their
//! argument and serve no other purpose, so they are left out: silently losing the change would be
//! worse.

use std::collections::HashMap;

use gtmpl_ng::Value as TemplateValue;

use super::arguments::{
    at_least, entry, exactly, is_empty, is_nothing, mapping, member, printed, sorted, strings, text,
};
use super::{FunctionResult, Table, error, table};
use crate::template::rendering::charge_for;

pub(super) const TABLE: Table = table![
    ("dict", |a| Ok(dict(a))),
    ("dig", dig),
    ("get", get),
    ("hasKey", has_key),
    ("keys", keys),
    ("merge", |a| merged("merge", a, false)),
    ("mergeOverwrite", |a| merged("mergeOverwrite", a, true)),
    ("mustMerge", |a| merged("mustMerge", a, false)),
    ("mustMergeOverwrite", |a| merged("mustMergeOverwrite", a, true)),
    ("pick", pick),
    ("pluck", pluck),
    ("values", values),
];

fn dict(arguments: &[TemplateValue]) -> TemplateValue {
    let pairs = arguments.chunks(2);
    let pairs = pairs.map(|pair| match pair {
        [key, value] => (printed(key), value.clone()),
        rest => (rest.iter().map(printed).collect(), TemplateValue::from("")),
    });
    TemplateValue::Map(pairs.collect())
}

fn dig(arguments: &[TemplateValue]) -> FunctionResult {
    let ([_, _, _], _) = at_least("dig", arguments)?;
    let [keys @ .., default, dict] = arguments else {
        return Err(error("dig takes keys, a default and a mapping"));
    };
    let mut here = dict;
    for key in keys {
        match member(mapping(here)?, text(key)?) {
            Some(value) => here = value,
            None => return Ok(default.clone()),
        }
    }
    Ok(here.clone())
}

fn get(arguments: &[TemplateValue]) -> FunctionResult {
    let [dict, key] = exactly("get", arguments)?;
    Ok(member(mapping(dict)?, text(key)?).cloned().unwrap_or_else(|| "".into()))
}

fn has_key(arguments: &[TemplateValue]) -> FunctionResult {
    let [dict, key] = exactly("hasKey", arguments)?;
    Ok(member(mapping(dict)?, text(key)?).is_some().into())
}

fn keys(arguments: &[TemplateValue]) -> FunctionResult {
    let mut keys = Vec::new();
    for dict in arguments {
        keys.extend(sorted(mapping(dict)?).into_iter().map(|(key, _)| key.as_str()));
    }
    Ok(strings(keys))
}

fn values(arguments: &[TemplateValue]) -> FunctionResult {
    let [dict] = exactly("values", arguments)?;
    let values = sorted(mapping(dict)?).into_iter().map(|(_, value)| value.clone());
    Ok(TemplateValue::Array(values.collect()))
}

fn pick(arguments: &[TemplateValue]) -> FunctionResult {
    let ([dict], keys) = at_least("pick", arguments)?;
    let dict = mapping(dict)?;
    // The lookup of an absent key searches all members.
    charge_for(keys.len(), dict.len())?;
    let picked = keys.iter().filter_map(|key| entry(dict, &printed(key)));
    Ok(TemplateValue::Map(picked.map(|(name, value)| (name.clone(), value.clone())).collect()))
}

fn pluck(arguments: &[TemplateValue]) -> FunctionResult {
    let ([key], dicts) = at_least("pluck", arguments)?;
    let key = text(key)?;
    let dicts = dicts.iter().map(mapping).collect::<Result<Vec<_>, _>>()?;
    Ok(TemplateValue::Array(
        dicts.into_iter().filter_map(|dict| member(dict, key)).cloned().collect(),
    ))
}

fn merged(name: &str, arguments: &[TemplateValue], over: bool) -> FunctionResult {
    let ([first], rest) = at_least(name, arguments)?;
    let mut merged = mapping(first)?.clone();
    for dict in rest {
        merge(&mut merged, mapping(dict)?, over);
    }
    Ok(TemplateValue::Map(merged))
}

fn merge(
    to: &mut HashMap<String, TemplateValue>,
    from: &HashMap<String, TemplateValue>,
    over: bool,
) {
    for (key, value) in from {
        match (to.get_mut(key), value) {
            (Some(TemplateValue::Map(to)), TemplateValue::Map(from)) => merge(to, from, over),
            (Some(present), _) if !is_empty(present) && (!over || is_empty(value)) => {}
            (None, value) if is_nothing(value) => {}
            _ => {
                to.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Merges mappings of strings, as Istio's functions accept them.
pub(super) fn of_strings(
    dicts: &[TemplateValue],
) -> Result<HashMap<String, TemplateValue>, gtmpl_ng::FuncError> {
    let mut all = HashMap::new();
    for dict in dicts {
        if !is_empty(dict) {
            all.extend(mapping(dict)?.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
    }
    Ok(all)
}

/// Removes keys from a mapping, given one by one or as lists.
pub(super) fn omit(arguments: &[TemplateValue]) -> FunctionResult {
    let ([dict], omitted) = at_least("omit", arguments)?;
    let mut dict = of_strings(std::slice::from_ref(dict))?;
    for key in omitted {
        let keys = match key {
            TemplateValue::Array(keys) => keys.as_slice(),
            key => std::slice::from_ref(key),
        };
        charge_for(keys.len(), dict.len())?;
        for key in keys {
            if let Some(name) = entry(&dict, &printed(key)).map(|(name, _)| name.clone()) {
                dict.remove(&name);
            }
        }
    }
    Ok(TemplateValue::Map(dict))
}

#[cfg(test)]
mod tests {
    use crate::template::functions::check;

    #[test]
    fn results_equal_sprig() {
        check(&[
            ("dict `a` 1 `b` 2", "map[a:1 b:2]"),
            ("get (dict `a` 1) `a`", "1"),
            ("get (dict `a` 1) `b`", ""),
            ("hasKey (dict `a` 1) `a`", "true"),
            ("keys (dict `b` 1 `a` 2) (dict `c` 3) | join `,`", "a,b,c"),
            ("values (dict `b` 1 `a` 2)", "[2 1]"),
            ("pick (dict `a` 1 `b` 2) `a` `c`", "map[a:1]"),
            ("omit (dict `a` 1 `b` 2) `a`", "map[b:2]"),
            ("pluck `a` (dict `a` 1) (dict `b` 2) (dict `a` 3)", "[1 3]"),
            ("dig `a` `b` `none` (dict `a` (dict `b` 1))", "1"),
            ("dig `a` `c` `none` (dict `a` (dict `b` 1))", "none"),
            (
                "merge (dict `a` 1 `d` (dict `x` 1)) (dict `a` 2 `b` 3 `d` (dict `y` 2))",
                "map[a:1 b:3 d:map[x:1 y:2]]",
            ),
            ("mergeOverwrite (dict `a` 1) (dict `a` 2)", "map[a:2]"),
        ]);
    }
}
