//! Integers written with a fraction or an exponent.

use serde_json::Value;

/// Returns the value with `8080.0` and `8.08e3` as integers, as Go writes them in JSON. An API
/// server rejects a port of `8080.0`.
pub(super) fn numbers(mut value: Value) -> Value {
    match &mut value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                value = whole.into();
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = numbers(item.take());
            }
        }
        Value::Object(members) => {
            for member in members.values_mut() {
                *member = numbers(member.take());
            }
        }
        _ => {}
    }
    value
}

/// Returns the number as an integer if it has no fraction and fits into 64 bits.
fn whole(number: f64) -> Option<i64> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    let fits = number.fract() == 0.0 && (-BEYOND..BEYOND).contains(&number);
    #[expect(clippy::cast_possible_truncation, reason = "nothing is lost of what fits")]
    fits.then_some(number as i64)
}
