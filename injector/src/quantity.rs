//! Kubernetes' quantities, as far as they have to be compared.

use serde_json::Value;

/// The number that a quantity stands for, near enough to compare it with another one; `None` for
/// what is none.
pub fn parse(quantity: &Value) -> Option<f64> {
    let text = match quantity {
        Value::Number(number) => return number.as_f64(),
        Value::String(text) => text.as_str(),
        _ => return None,
    };
    let scaled =
        SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)));
    let (number, factor) = scaled.unwrap_or((text, 1.0));
    number.parse::<f64>().ok().map(|number| number * factor)
}

/// Whether two quantities are one number.
pub fn same(a: &Value, b: &Value) -> bool {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs(),
        _ => false,
    }
}

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
    fn quantities_are_numbers() {
        for (quantity, number) in [
            (json!("100m"), Some(0.1)),
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
