//! The functions that [`metered`](crate::template::rewrite::metered) writes into a template, and
//! the charge for all others.

use gtmpl_ng::{FuncError, Value as TemplateValue};

use super::arguments::{exactly, list, whole};
use super::{Func, FunctionResult};
use crate::template::rendering::{self, ITEM, charge, weight};
use crate::template::rewrite::metered::{APPEND, READ, STEP};

pub(super) const TABLE: &[(&str, Func)] = &[(APPEND, append), (READ, read), (STEP, step)];

/// Calls a function and charges for its result and for the arguments, which the engine has copied.
pub(super) fn charged(arguments: &[TemplateValue], function: Func) -> FunctionResult {
    charge(arguments.iter().map(weight).sum::<usize>() / COPIES)?;
    let result = function(arguments)?;
    charge(weight(&result))?;
    Ok(result)
}

/// Returns its argument, or the list if the argument is a list's handle.
fn read(arguments: &[TemplateValue]) -> FunctionResult {
    let [value] = exactly(READ, arguments)?;
    let copied = |list: &mut Vec<TemplateValue>| {
        charge(list.iter().map(|item| ITEM + weight(item)).sum())?;
        Ok(TemplateValue::Array(list.clone()))
    };
    rendering::with_kept(value, copied).unwrap_or_else(|| {
        charge(weight(value))?;
        Ok(value.clone())
    })
}

fn step(arguments: &[TemplateValue]) -> FunctionResult {
    let [units] = exactly(STEP, arguments)?;
    charge(usize::try_from(whole(units)).unwrap_or_default())?;
    Ok(TemplateValue::from(""))
}

/// Appends an item to a list or to the list of a handle; returns the handle.
fn append(arguments: &[TemplateValue]) -> FunctionResult {
    let [items, item] = exactly("append", arguments)?;
    charge(ITEM + weight(item))?;
    if rendering::with_kept(items, |list| list.push(item.clone())).is_some() {
        return Ok(items.clone());
    }
    charge(weight(items))?;
    let items: Vec<_> = list(items)?.iter().chain([item]).cloned().collect();
    let none = || FuncError::Generic("append: no template is rendered".to_owned());
    rendering::keep(items).ok_or_else(none)
}

/// Arguments are temporary copies: one in this many is charged.
const COPIES: usize = 4;
