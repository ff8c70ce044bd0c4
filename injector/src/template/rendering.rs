//! State of one rendering: what it has cost, the lists that grow in variables, and the regular
//! expressions that it has compiled.
//!
//! Functions of templates are bare function pointers, so they find it through the thread.

use std::cell::RefCell;
use std::collections::HashMap;

use gtmpl_ng::{FuncError, Value as Datum};
use regex::Regex;

use crate::budget;

/// A compiled expression.
#[derive(Clone)]
pub(in crate::template) struct Pattern {
    pub(in crate::template) regex: Regex,
    /// The units of matching a byte, in the worst case those of each part of the expression.
    pub(in crate::template) of_byte: usize,
}

/// Costs and state of one rendering.
#[derive(Default)]
struct Rendering {
    cost: usize,
    lists: Vec<Vec<Datum>>,
    patterns: HashMap<String, Pattern>,
}

/// Does the work as one rendering.
pub(crate) fn enter<T>(work: impl FnOnce() -> T) -> T {
    let _restored = Restore(CURRENT.replace(Some(Rendering::default())));
    work()
}

/// Charges for what is about to be made: a unit for each byte of a text, [`ITEM`] for each item.
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
        failed(format!("the template makes more than the {MOST_COST} bytes of values allowed"))
    }
}

/// Charges for as many pieces of a size.
pub(crate) fn charge_for(pieces: usize, size: usize) -> Result<(), FuncError> {
    charge(pieces.saturating_mul(size))
}

/// The units of a value: about the bytes it takes.
pub(crate) fn weight(datum: &Datum) -> usize {
    match datum {
        Datum::String(text) => text.len(),
        Datum::Array(items) => items.iter().map(|item| ITEM + weight(item)).sum(),
        Datum::Map(members) | Datum::Object(members) => {
            let members = members.iter().map(|(key, value)| ITEM + key.len() + weight(value));
            MAPPING + members.sum::<usize>()
        }
        _ => 0,
    }
}

/// Keeps a list that is to grow, and gives what stands for it. Without a rendering there is none.
pub(crate) fn keep(list: Vec<Datum>) -> Option<Datum> {
    let number = CURRENT.with_borrow_mut(|current| {
        let lists = &mut current.as_mut()?.lists;
        lists.push(list);
        Some(lists.len() - 1)
    })?;
    Some(Datum::Object([(KEPT.to_owned(), Datum::from(number))].into()))
}

/// Does something with the list that a value stands for, if it does for one.
pub(crate) fn with_kept<T>(datum: &Datum, work: impl FnOnce(&mut Vec<Datum>) -> T) -> Option<T> {
    let Datum::Object(members) = datum else { return None };
    let Datum::Number(number) = members.get(KEPT)? else { return None };
    let number = usize::try_from(number.as_u64()?).ok()?;
    let exchange = |list| {
        CURRENT.with_borrow_mut(|current| {
            Some(std::mem::replace(current.as_mut()?.lists.get_mut(number)?, list))
        })
    };
    // The work may charge for what it does.
    let mut list = exchange(Vec::new())?;
    let done = work(&mut list);
    exchange(list);
    Some(done)
}

/// The pattern of an expression, compiled by its first use.
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

/// Puts the rendering back that went on before, also after a panic.
struct Restore(Option<Rendering>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rendering>> = const { RefCell::new(None) };
}

/// Units of an item of a list or a mapping.
pub(crate) const ITEM: usize = 64;

/// Units of a mapping beside those of its items.
pub(crate) const MAPPING: usize = 256;

/// Units of reading a byte of YAML, which takes much longer than to copy it.
pub(crate) const YAML: usize = 16;

/// Units of one rendering.
const MOST_COST: usize = 64 << 20;

/// Under this key a value has the number of the list that it stands for.
const KEPT: &str = "\u{0}kept";
