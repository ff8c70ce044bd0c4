//! Go's built-in functions in the engine's implementation. The engine itself evaluates `and` and
//! `or`, with short circuit.

use gtmpl_ng::{Value as TemplateValue, funcs};

use super::arguments::whole;
use super::{FunctionResult, Table, table};
use crate::template::rendering::{charge, charge_for, weight};

pub(super) const TABLE: Table = table![
    ("call", funcs::call),
    ("html", funcs::html),
    ("js", funcs::js),
    ("not", funcs::not),
    ("print", funcs::print),
    ("printf", printf),
    ("println", funcs::println),
    ("urlquery", funcs::urlquery),
];

/// Charges for widths, and for arguments that the format uses more than once.
fn printf(arguments: &[TemplateValue]) -> FunctionResult {
    if let [TemplateValue::String(format), rest @ ..] = arguments {
        let numbers = format.split(|c: char| !c.is_ascii_digit());
        charge(
            numbers.filter_map(|width| width.parse::<usize>().ok()).fold(0, usize::saturating_add),
        )?;
        let largest = rest.iter().map(weight).max().unwrap_or_default();
        charge_for(format.matches('[').count(), largest)?;
        let widest = rest.iter().map(|width| whole(width).unsigned_abs()).max().unwrap_or_default();
        let widest = usize::try_from(widest).unwrap_or(usize::MAX).min(MOST_WIDTH);
        charge_for(format.matches('*').count(), widest)?;
    }
    funcs::printf(arguments)
}

/// Greatest width that the engine supports.
const MOST_WIDTH: usize = 1_000_000;
