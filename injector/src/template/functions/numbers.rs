//! sprig's functions on numbers.

use gtmpl_ng::{Number, Value as TemplateValue};

use super::arguments::{at_least, count, exactly, fraction, printed, whole};
use super::{FunctionResult, Table, error, table};
use crate::template::rendering::{ITEM, charge_for};

pub(super) const TABLE: Table = table![
    ("add", |a| Ok(a.iter().map(whole).fold(0, i64::wrapping_add).into())),
    ("add1", |a| Ok(whole(&exactly::<1>("add1", a)?[0]).wrapping_add(1).into())),
    ("add1f", |a| Ok(float(fraction(&exactly::<1>("add1f", a)?[0]) + 1.0))),
    ("addf", |a| Ok(float(a.iter().map(fraction).sum()))),
    ("atoi", |a| Ok(printed(&exactly::<1>("atoi", a)?[0]).parse::<i64>().unwrap_or(0).into())),
    ("biggest", |a| fold("biggest", a, i64::max)),
    ("ceil", |a| Ok(float(fraction(&exactly::<1>("ceil", a)?[0]).ceil()))),
    ("div", |a| divide("div", a, i64::checked_div)),
    ("divf", |a| fold_fraction("divf", a, |a, b| a / b)),
    ("float64", |a| Ok(float(fraction(&exactly::<1>("float64", a)?[0])))),
    ("floor", |a| Ok(float(fraction(&exactly::<1>("floor", a)?[0]).floor()))),
    ("int", |a| Ok(whole(&exactly::<1>("int", a)?[0]).into())),
    ("int64", |a| Ok(whole(&exactly::<1>("int64", a)?[0]).into())),
    ("max", |a| fold("max", a, i64::max)),
    ("maxf", |a| fold_fraction("maxf", a, f64::max)),
    ("min", |a| fold("min", a, i64::min)),
    ("minf", |a| fold_fraction("minf", a, f64::min)),
    ("mod", |a| divide("mod", a, i64::checked_rem)),
    ("mul", |a| fold("mul", a, i64::wrapping_mul)),
    ("mulf", |a| fold_fraction("mulf", a, |a, b| a * b)),
    ("round", round),
    ("seq", seq),
    ("sub", |a| fold("sub", a, i64::wrapping_sub)),
    ("subf", |a| fold_fraction("subf", a, |a, b| a - b)),
    ("toDecimal", |a| Ok(octal(&printed(&exactly::<1>("toDecimal", a)?[0])).into())),
    ("until", until),
    ("untilStep", until_step),
];

fn float(number: f64) -> TemplateValue {
    TemplateValue::Number(Number::float(number))
}

fn fold(name: &str, arguments: &[TemplateValue], with: fn(i64, i64) -> i64) -> FunctionResult {
    let ([first], rest) = at_least(name, arguments)?;
    Ok(rest.iter().map(whole).fold(whole(first), with).into())
}

fn fold_fraction(
    name: &str,
    arguments: &[TemplateValue],
    with: fn(f64, f64) -> f64,
) -> FunctionResult {
    let ([first], rest) = at_least(name, arguments)?;
    Ok(float(rest.iter().map(fraction).fold(fraction(first), with)))
}

fn divide(
    name: &str,
    arguments: &[TemplateValue],
    with: fn(i64, i64) -> Option<i64>,
) -> FunctionResult {
    let [number, by] = exactly(name, arguments)?;
    let result = with(whole(number), whole(by));
    result.map(TemplateValue::from).ok_or_else(|| error(format!("{name}: {number} by {by}")))
}

fn round(arguments: &[TemplateValue]) -> FunctionResult {
    let ([number, places], rest) = at_least("round", arguments)?;
    let up_from = rest.first().map_or(0.5, fraction);
    let places = i32::try_from(whole(places)).unwrap_or_default().clamp(-300, 300);
    let scale = 10f64.powi(places);
    let scaled = fraction(number) * scale;
    let rest = scaled.fract();
    let rounded = if rest >= up_from { scaled.ceil() } else { scaled.floor() };
    Ok(float(rounded / scale))
}

fn octal(text: &str) -> i64 {
    i64::from_str_radix(text, 8).unwrap_or_default()
}

fn until(arguments: &[TemplateValue]) -> FunctionResult {
    let [end] = exactly("until", arguments)?;
    let end = whole(end);
    steps("until", 0, end, if end < 0 { -1 } else { 1 }).map(TemplateValue::Array)
}

fn until_step(arguments: &[TemplateValue]) -> FunctionResult {
    let [start, end, step] = exactly("untilStep", arguments)?;
    steps("untilStep", whole(start), whole(end), whole(step)).map(TemplateValue::Array)
}

/// Returns the numbers from `start`, up to but excluding `end`.
fn steps(
    name: &str,
    start: i64,
    end: i64,
    step: i64,
) -> Result<Vec<TemplateValue>, gtmpl_ng::FuncError> {
    if step == 0 || (end < start) != (step < 0) {
        return Ok(Vec::new());
    }
    let many = end.abs_diff(start) / step.unsigned_abs();
    charge_for(count(name, &TemplateValue::from(many))?, ITEM)?;
    let mut items = Vec::new();
    let mut number = start;
    while (step > 0 && number < end) || (step < 0 && number > end) {
        items.push(TemplateValue::from(number));
        number = number.saturating_add(step);
    }
    Ok(items)
}

fn seq(arguments: &[TemplateValue]) -> FunctionResult {
    let numbers: Vec<_> = arguments.iter().map(whole).collect();
    let toward = |start: i64, end: i64| if end < start { -1 } else { 1 };
    let (start, step, end) = match numbers[..] {
        [end] => (1, toward(1, end), end),
        [start, end] => (start, toward(start, end), end),
        [start, step, end] => (start, step, end),
        _ => return Ok("".into()),
    };
    let beyond = end.saturating_add(if step < 0 { -1 } else { 1 });
    let items = steps("seq", start, beyond, step)?;
    Ok(items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ").into())
}

#[cfg(test)]
mod tests {
    use crate::template::functions::check;

    #[test]
    fn results_equal_sprig() {
        check(&[
            ("add 1 2 `3`", "6"),
            ("add1 1", "2"),
            ("sub 5 2", "3"),
            ("div 7 2", "3"),
            ("div 7 0", "error: div: 7 by 0"),
            ("mod 7 2", "1"),
            ("mul 1 2 3", "6"),
            ("max 1 2 3", "3"),
            ("min 1 2 3", "1"),
            ("biggest 1 3", "3"),
            ("addf 1.5 2 2", "5.5"),
            ("subf 7.5 2 3", "2.5"),
            ("divf 10 2 4", "1.25"),
            ("mulf 1.5 2 2", "6"),
            ("maxf 1 2.5 3", "3"),
            ("minf 1.5 2 3", "1.5"),
            ("ceil 123.001", "124"),
            ("floor 123.9999", "123"),
            ("round 123.555555 3", "123.556"),
            ("atoi `42`", "42"),
            ("atoi `x`", "0"),
            ("int 3.9", "3"),
            ("int64 `12`", "12"),
            ("int `0x1f`", "31"),
            ("int `010`", "8"),
            ("int `3.0`", "3"),
            ("int ` 5`", "0"),
            ("toDecimal `777`", "511"),
            ("until 5 | join ` `", "0 1 2 3 4"),
            ("untilStep 3 6 2 | join ` `", "3 5"),
            ("seq 5", "1 2 3 4 5"),
            ("seq -3", "1 0 -1 -2 -3"),
            ("seq 0 2", "0 1 2"),
            ("seq 0 2 10", "0 2 4 6 8 10"),
            ("seq 0 -2 -5", "0 -2 -4"),
            ("until 10000000 | len", "error: until: 10000000 is not between 0 and 1048576"),
        ]);
    }
}
