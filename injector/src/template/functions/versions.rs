//! sprig's functions on semantic versions and version constraints.

use std::cmp::Ordering;
use std::sync::LazyLock;

use go_types::SEMVER;
use gtmpl_ng::{FuncError, Value as TemplateValue};
use regex::{Captures, Regex};

use super::arguments::{exactly, text};
use super::{FunctionResult, Table, error, on_plain, table};
use crate::template::rendering::charge_for;
use crate::template::values::typed;

pub(super) const TABLE: Table = table![
    ("semver", |a| on_plain(a, semver)),
    ("semverCompare", |a| {
        on_plain(a, |a| {
            let [constraint, version] = exactly("semverCompare", a)?;
            let constraint = text(constraint)?;
            charge_for(constraint.len(), BYTE)?;
            Ok(fulfils(&Version::parse(text(version)?)?, constraint)?.into())
        })
    }),
];

fn semver(arguments: &[TemplateValue]) -> FunctionResult {
    let [version] = exactly("semver", arguments)?;
    let original = text(version)?;
    let version = Version::parse(original)?;
    let [major, minor, patch] = version.numbers;
    let fields = [
        ("Major", TemplateValue::from(major)),
        ("Minor", TemplateValue::from(minor)),
        ("Patch", TemplateValue::from(patch)),
        ("Prerelease", version.pre.as_str().into()),
        ("Metadata", version.metadata.as_str().into()),
        ("Original", original.into()),
        ("String", version.written().into()),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    Ok(TemplateValue::Object(fields.chain([typed(SEMVER)]).collect()))
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Version {
    numbers: [u64; 3],
    pre: String,
    metadata: String,
}

impl Version {
    /// Parses a version. Minor and patch may be missing, and a leading `v` is allowed.
    fn parse(version: &str) -> Result<Self, FuncError> {
        static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(&format!(r"^v?([0-9]+)(\.[0-9]+)?(\.[0-9]+)?{SUFFIXES}$")).ok()
        });
        charge_for(version.len(), BYTE)?;
        let wrong = || error(format!("{version:?} is not a semantic version such as 1.2.3"));
        let parts = FORM.as_ref().and_then(|form| form.captures(version)).ok_or_else(wrong)?;
        let number = |place| match group(&parts, place).trim_start_matches('.') {
            "" => Ok(0),
            digits => digits.parse::<u64>().map_err(|_| wrong()),
        };
        let pre = group(&parts, 5);
        let zeros = |part: &str| part.len() > 1 && part.starts_with('0') && is_digits(part);
        if pre.split('.').any(zeros) {
            return Err(wrong());
        }
        Ok(Self {
            numbers: [number(1)?, number(2)?, number(3)?],
            pre: pre.to_owned(),
            metadata: group(&parts, 8).to_owned(),
        })
    }

    fn written(&self) -> String {
        let [major, minor, patch] = self.numbers;
        let pre = if self.pre.is_empty() { String::new() } else { format!("-{}", self.pre) };
        let metadata = &self.metadata;
        let metadata = if metadata.is_empty() { String::new() } else { format!("+{metadata}") };
        format!("{major}.{minor}.{patch}{pre}{metadata}")
    }

    /// Compares by the precedence of <https://semver.org>.
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| precedence(&self.pre, &other.pre))
    }
}

/// Compares pre-releases. A release follows its pre-releases.
fn precedence(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut of_a, mut of_b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (of_a.next(), of_b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// True if a version satisfies one of the alternatives of a constraint, such as `>= 1.2, < 2 ||
/// ~3`.
fn fulfils(version: &Version, constraint: &str) -> Result<bool, FuncError> {
    let form = || Some((FORM.as_ref()?, PART.as_ref()?, RANGE.as_ref()?));
    let (form, part, range) = form().ok_or_else(|| error("semverCompare: no patterns"))?;
    let wrong = || error(format!("semverCompare: {constraint:?} is not a constraint"));
    let constraint = range.replace_all(constraint, |found: &Captures<'_>| {
        format!(">= {}, <= {} ", &found[1], &found[11])
    });
    let mut fulfilled = false;
    for alternative in constraint.split("||") {
        if !form.is_match(alternative) {
            return Err(wrong());
        }
        let bounds = part.captures_iter(alternative).map(|found| Bound::from_captures(&found));
        let bounds = bounds.collect::<Result<Vec<_>, _>>()?;
        fulfilled |= bounds.iter().all(|bound| bound.holds(version));
    }
    Ok(fulfilled)
}

/// One comparison of a constraint.
struct Bound {
    operator: String,
    than: Version,
    /// Number of given components: major, minor, patch.
    given: usize,
}

impl Bound {
    fn from_captures(found: &Captures<'_>) -> Result<Self, FuncError> {
        let numbers = [3, 4, 5].map(|place| group(found, place).trim_start_matches('.'));
        let given = numbers.iter().take_while(|number| !["", "x", "X", "*"].contains(number));
        let given = given.count();
        let mut filled = numbers;
        filled[given..].fill("0");
        let version = format!("{}{}", filled.join("."), group(found, 6));
        Ok(Self { operator: group(found, 1).to_owned(), than: Version::parse(&version)?, given })
    }

    fn holds(&self, version: &Version) -> bool {
        let [major, minor, _] = self.than.numbers;
        let order = version.cmp(&self.than);
        let same = |places: usize| version.numbers[..places] == self.than.numbers[..places];
        if !version.pre.is_empty() && self.than.pre.is_empty() {
            return self.operator == "!=" && self.given == 3;
        }
        match self.operator.as_str() {
            "!=" if self.given == 2 && same(2) => precedence(&version.pre, &self.than.pre).is_ne(),
            "!=" if self.given == 1 => version.numbers[0] != major,
            "!=" => order.is_ne(),
            ">" if self.given == 1 => version.numbers[0] > major,
            ">" if self.given == 2 => version.numbers[..2] > self.than.numbers[..2],
            ">" => order.is_gt(),
            "<" => order.is_lt(),
            ">=" | "=>" => order.is_ge(),
            "<=" | "=<" if self.given == 3 => order.is_le(),
            "<=" | "=<" if self.given == 2 => version.numbers[..2] <= self.than.numbers[..2],
            "<=" | "=<" => version.numbers[0] <= major,
            "^" => {
                let fixed = match (major, minor) {
                    _ if self.given == 1 => 1,
                    (1.., _) => 1,
                    _ if self.given == 2 => 2,
                    (0, 1..) => 2,
                    _ => 3,
                };
                order.is_ge() && same(fixed)
            }
            "" | "=" if self.given == 3 => order.is_eq(),
            _ => {
                let any = self.than.numbers == [0; 3] && (self.given == 0 || self.given == 3);
                order.is_ge() && (any || same(self.given.clamp(1, 2)))
            }
        }
    }
}

fn group<'a>(found: &'a Captures<'_>, place: usize) -> &'a str {
    found.get(place).map_or("", |group| group.as_str())
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Units for matching a byte against the patterns.
const BYTE: usize = 32;

/// Pre-release and metadata of a version.
const SUFFIXES: &str =
    r"(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?";
const NUMBERS: &str = r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?";
const OPERATORS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";

/// Comparisons separated by blanks or commas.
static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let one = format!(r"(?:{OPERATORS})\s*{NUMBERS}{SUFFIXES}");
    Regex::new(&format!(r"^\s*{one}\s*((?:\s+|,\s*){one}\s*)*$")).ok()
});

static PART: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"({OPERATORS})\s*({NUMBERS}{SUFFIXES})")).ok());

/// Hyphen range: `1.2 - 3`.
static RANGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let version = format!("{NUMBERS}{SUFFIXES}");
    Regex::new(&format!(r"\s*({version})\s+-\s+({version})\s*")).ok()
});

#[cfg(test)]
mod tests {
    use crate::template::functions::check;

    #[test]
    fn results_equal_sprig() {
        check(&[
            ("(semver `v1.2.3-rc.1+b`).Prerelease", "rc.1"),
            ("(semver `1.2`).Minor", "2"),
            ("(semver `v1.2`).String", "1.2.0"),
            ("semver `a`", "error: \"a\" is not a semantic version such as 1.2.3"),
            ("semverCompare `>=1.30-0` `v1.31.2-gke.1`", "true"),
            ("semverCompare `>=1.30` `v1.31.2-gke.1`", "false"),
            ("semverCompare `^1.2.0` `1.9.0`", "true"),
            ("semverCompare `~1.2.0` `1.3.0`", "false"),
            ("semverCompare `1.2.x` `1.2.9`", "true"),
            ("semverCompare `1.2 - 3` `3.9.0`", "true"),
            ("semverCompare `>1, <2 || 3` `3.1.0`", "true"),
            ("semverCompare `nope` `3.1.0`", "error: semverCompare: \"nope\" is not a constraint"),
        ]);
    }
}
