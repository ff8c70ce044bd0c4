//! State of one rendering: its cost, the lists that grow in variables, and the compiled regular
//! expressions.
//!
//! Template functions are bare function pointers, so they find the state in a thread-local
//! variable.

use std::cell::RefCell;
use std::collections::HashMap;

use gtmpl_ng::{FuncError, Value as TemplateValue};
use regex::Regex;

use crate::budget;

/// A compiled expression.
#[derive(Clone)]
pub(in crate::template) struct Pattern {
    pub(in crate::template) regex: Regex,
    /// Units for matching a byte; in the worst case, each part of the expression visits it.
    pub(in crate::template) of_byte: usize,
}
/// Cost and state of one rendering.
#[derive(Default)]
struct Rendering {
    cost: usize,
    lists: Vec<Vec<TemplateValue>>,
    patterns: HashMap<String, Pattern>,
}

/// Runs the work as one rendering.
pub(crate) fn enter<T>(work: impl FnOnce() -> T) -> T {
    budget::with_state(&CURRENT, Rendering::default(), work)
}

/// Charges for a value before it is created: one unit per byte of text, [`ITEM`] per item.
pub(crate) fn charge(units: usize) -> Result<(), FuncError> {
    let failed = |problem: String| Err(FuncError::Generic(problem));
    if let Err(exhausted) = budget::spend(units) {
        return failed(exhausted.to_string());
    }
    let within = CURRENT.with_borrow_mut(|current| {
        let Some(rendering) = current else { return true };
        rendering.cost = rendering.cost.saturating_add(units);
        rendering.cost <= MOST_COST
    });
    if within {
        Ok(())
    } else {
        failed(format!("the template creates more than the {MOST_COST} bytes of values allowed"))
    }
}

/// Charges for `pieces` pieces of this size.
pub(crate) fn charge_for(pieces: usize, size: usize) -> Result<(), FuncError> {
    charge(pieces.saturating_mul(size))
}

/// Returns the cost of a value, about its size in bytes.
pub(crate) fn weight(value: &TemplateValue) -> usize {
    match value {
        TemplateValue::String(text) => text.len(),
        TemplateValue::Array(items) => items.iter().map(|item| ITEM + weight(item)).sum(),
        TemplateValue::Map(members) | TemplateValue::Object(members) => {
            let members = members.iter().map(|(key, value)| ITEM + key.len() + weight(value));
            MAPPING + members.sum::<usize>()
        }
        _ => 0,
    }
}

/// Stores a list that will grow and returns its handle; `None` outside a rendering.
pub(crate) fn keep(list: Vec<TemplateValue>) -> Option<TemplateValue> {
    let number = CURRENT.with_borrow_mut(|current| {
        let lists = &mut current.as_mut()?.lists;
        lists.push(list);
        Some(lists.len() - 1)
    })?;
    Some(TemplateValue::Object([(KEPT.to_owned(), TemplateValue::from(number))].into()))
}

/// Runs the work on the list behind a handle; `None` if the value is not a handle.
pub(crate) fn with_kept<T>(
    value: &TemplateValue,
    work: impl FnOnce(&mut Vec<TemplateValue>) -> T,
) -> Option<T> {
    let TemplateValue::Object(members) = value else { return None };
    let TemplateValue::Number(number) = members.get(KEPT)? else { return None };
    let number = usize::try_from(number.as_u64()?).ok()?;
    let exchange = |list| {
        CURRENT.with_borrow_mut(|current| {
            Some(std::mem::replace(current.as_mut()?.lists.get_mut(number)?, list))
        })
    };
    // Takes the list out meanwhile, as the work may charge and so borrow the state.
    let mut list = exchange(Vec::new())?;
    let done = work(&mut list);
    exchange(list);
    Some(done)
}

/// Returns the compiled pattern of an expression. The first use compiles it.
pub(crate) fn pattern(
    expression: &str,
    compile: impl FnOnce() -> Result<Pattern, FuncError>,
) -> Result<Pattern, FuncError> {
    let known = CURRENT.with_borrow(|current| current.as_ref()?.patterns.get(expression).cloned());
    if let Some(known) = known {
        return Ok(known);
    }
    let pattern = compile()?;
    CURRENT.with_borrow_mut(|current| {
        if let Some(rendering) = current {
            rendering.patterns.insert(expression.to_owned(), pattern.clone());
        }
    });
    Ok(pattern)
}

thread_local! {
    static CURRENT: RefCell<Option<Rendering>> = const { RefCell::new(None) };
}

/// Units for an item of a list or a mapping.
pub(crate) const ITEM: usize = 64;

/// Units for a mapping, in addition to those of its items.
pub(crate) const MAPPING: usize = 256;

/// Units for parsing a byte of YAML, which takes much longer than copying it.
pub(crate) const YAML: usize = 16;

/// Most units of one rendering.
const MOST_COST: usize = 64 << 20;

/// Key of a handle for the number of its list.
const KEPT: &str = "\u{0}kept";
