//! Kubernetes quantities: validation, comparison and canonical form.

use serde_json::Value;

/// True if the text is a non-negative `resource.Quantity` of `apimachinery`: a decimal number with
/// a binary, decimal or exponent suffix. A number without digits is 0. Negative quantities are
/// rejected because no container may request one.
pub fn may_be_asked_for(value: &str) -> bool {
    let negative = value.strip_prefix('-');
    let unsigned = negative.or_else(|| value.strip_prefix('+')).unwrap_or(value);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let points = number.len() - digits;
    // More digits are not a realistic amount, and keep the API server busy for minutes.
    let sensible = digits <= 30;
    let exponent = suffix.strip_prefix(['e', 'E']).is_some_and(|power| {
        let power = power.strip_prefix(['+', '-']).unwrap_or(power);
        let digits = power.bytes().all(|byte| byte.is_ascii_digit());
        digits && power.parse::<u32>().is_ok_and(|power| power <= 18)
    });
    let suffixes =
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let allowed = negative.is_none() || number.bytes().all(|byte| b"0.".contains(&byte));
    let known = suffixes.contains(&suffix) || exponent;
    !value.is_empty() && allowed && sensible && points <= 1 && known
}

/// True if the member `key` of the object in `field` of a pod is a quantity. The API server writes
/// `2000m` as `2`, which is not a change.
pub fn is_one(field: &str, key: &str) -> bool {
    ["limits", "requests"].contains(&field) || ["divisor", "sizeLimit"].contains(&key)
}

/// Returns the approximate number of a quantity for comparisons; `None` for any other value.
pub fn parse(quantity: &Value) -> Option<f64> {
    let text = match quantity {
        Value::Number(number) => return number.as_f64(),
        Value::String(text) => text.as_str(),
        _ => return None,
    };
    let scaled =
        SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)));
    let (number, factor) = scaled.unwrap_or((text, 1.0));
    if !text.is_empty() && is_bare(number) {
        return Some(0.0);
    }
    number.parse::<f64>().ok().map(|number| number * factor)
}

/// Returns the quantity as Kubernetes writes it: an integer with the largest suffix for which it
/// stays one (`3000m` is `3`, `2048Mi` is `2Gi`). `None` for values that are not quantities, for
/// exponents (`1e3`), for fractions of a nano, and for quantities out of range.
pub fn canonical(quantity: &Value) -> Option<String> {
    let text = match quantity {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    let (digits, suffix) =
        text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let number = match digits {
        bare if !text.is_empty() && is_bare(bare) => 0,
        _ => format!("{whole}{fraction}").parse::<i128>().ok()?,
    };
    let decimals = i32::try_from(fraction.len()).ok()?;
    if let Some(power) =
        BINARY.iter().position(|binary| *binary == suffix).filter(|power| *power > 0)
    {
        let scale = 10_i128.checked_pow(fraction.len().try_into().ok()?)?;
        let bytes = number.checked_mul(1024_i128.checked_pow(power.try_into().ok()?)?)?;
        let bytes = bytes.checked_add(scale - 1)?.div_euclid(scale);
        if bytes.abs() < 1024 {
            return decimal(bytes, 0);
        }
        let mut power = 0;
        let mut bytes = bytes;
        while bytes % 1024 == 0 && power + 1 < BINARY.len() {
            bytes /= 1024;
            power += 1;
        }
        return Some(format!("{bytes}{}", BINARY[power]));
    }
    let place = DECIMAL.iter().position(|decimal| *decimal == suffix)?;
    decimal(number, 3 * i32::try_from(place).ok()? - NANO - decimals)
}

/// Returns the quantity in units of 1/`parts`, rounded away from 0. `None` for values that are not
/// quantities, and for results beyond 64 bits.
pub fn rounded_up(quantity: &Value, parts: i128) -> Option<i64> {
    let Some(text) = canonical(quantity) else {
        // The quantity has an exponent.
        let number = parse(quantity)?.to_string().parse::<i128>().ok()?;
        return number.checked_mul(parts)?.try_into().ok();
    };
    let (digits, suffix) =
        text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let place = |suffixes: &[&str]| suffixes.iter().position(|one| *one == suffix);
    let number = digits.parse::<i128>().ok()?.checked_mul(parts)?;
    let (factor, below) = match place(&DECIMAL) {
        Some(place) => (10_i128.checked_pow(3 * u32::try_from(place).ok()?)?, 1_000_000_000),
        None => (1024_i128.checked_pow(place(&BINARY)?.try_into().ok()?)?, 1),
    };
    let number = number.checked_mul(factor)?;
    let rest = (number % below).signum();
    (number / below + rest).try_into().ok()
}

/// True if a number has no digits. Kubernetes parses it as 0.
fn is_bare(number: &str) -> bool {
    ["", "."].contains(&number.strip_prefix(['+', '-']).unwrap_or(number))
}

/// Returns a number times a power of ten with a decimal suffix.
fn decimal(mut number: i128, mut exponent: i32) -> Option<String> {
    if number == 0 {
        return Some("0".to_owned());
    }
    while number % 10 == 0 {
        number /= 10;
        exponent += 1;
    }
    let place = exponent.min(EXA).checked_add(NANO)?.div_euclid(3);
    let suffix = DECIMAL.get(usize::try_from(place).ok()?)?;
    let zeros = (exponent + NANO - 3 * place).try_into().ok()?;
    Some(format!("{}{suffix}", number.checked_mul(10_i128.checked_pow(zeros)?)?))
}

/// True if two quantities are equal.
pub fn same(a: &Value, b: &Value) -> bool {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs(),
        _ => false,
    }
}

/// Suffixes of powers of 1024, beginning with 1024^0.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Suffixes of powers of 1000, from nano to exa.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// Exponents of the first and the last decimal suffix: 10^-9 and 10^18.
const NANO: i32 = 9;
const EXA: i32 = 18;

const SUFFIXES: [(&str, f64); 15] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_have_the_canonical_form_of_kubernetes() {
        for (quantity, written) in [
            (json!("3000m"), Some("3")),
            (json!("0.5"), Some("500m")),
            (json!(4), Some("4")),
            (json!(1000), Some("1k")),
            (json!("1.5Gi"), Some("1536Mi")),
            (json!("2048Mi"), Some("2Gi")),
            (json!("512Ki"), Some("512Ki")),
            (json!("0.5Ki"), Some("512")),
            (json!("1G"), Some("1G")),
            (json!("1500M"), Some("1500M")),
            (json!("100m"), Some("100m")),
            (json!("0Gi"), Some("0")),
            (json!("Mi"), Some("0")),
            (json!("."), Some("0")),
            (json!("-0"), Some("0")),
            (json!(""), None),
            (json!("1e3"), None),
            (json!("two"), None),
            (json!(null), None),
        ] {
            assert_eq!(canonical(&quantity).as_deref(), written, "{quantity}");
        }
    }

    #[test]
    fn quantities_compare_as_numbers() {
        for (quantity, number) in [
            (json!("100m"), Some(0.1)),
            (json!("+"), Some(0.0)),
            (json!("Mi"), Some(0.0)),
            (json!(""), None),
            (json!("2"), Some(2.0)),
            (json!(2), Some(2.0)),
            (json!("1.5Gi"), Some(1_610_612_736.0)),
            (json!("1e3"), Some(1000.0)),
            (json!("2E"), Some(2e18)),
            (json!("two"), None),
            (json!(null), None),
        ] {
            assert_eq!(parse(&quantity), number, "{quantity}");
        }
    }
}
