//! sprig's functions on regular expressions. The syntax is RE2's, of which `regex` has all but the
//! names of a few Unicode classes.

use gtmpl_ng::{FuncError, Value as Datum};
use regex::{NoExpand, Regex, RegexBuilder};

use super::arguments::{exactly, strings, text, whole};
use super::{Outcome, Table, error, on_plain};

pub(super) const TABLE: Table = &[
    ("mustRegexFind", |a| on_plain(a, find)),
    ("mustRegexFindAll", |a| on_plain(a, find_all)),
    ("mustRegexMatch", |a| on_plain(a, is_match)),
    ("mustRegexReplaceAll", |a| on_plain(a, replace_all)),
    ("mustRegexReplaceAllLiteral", |a| on_plain(a, replace_all_literal)),
    ("mustRegexSplit", |a| on_plain(a, split)),
    ("regexFind", |a| on_plain(a, find)),
    ("regexFindAll", |a| on_plain(a, find_all)),
    ("regexMatch", |a| on_plain(a, is_match)),
    ("regexQuoteMeta", |a| on_plain(a, quote_meta)),
    ("regexReplaceAll", |a| on_plain(a, replace_all)),
    ("regexReplaceAllLiteral", |a| on_plain(a, replace_all_literal)),
    ("regexSplit", |a| on_plain(a, split)),
];

fn pattern(datum: &Datum) -> Result<Regex, FuncError> {
    let built = RegexBuilder::new(text(datum)?).size_limit(MOST_MEMORY).build();
    built.map_err(|problem| error(problem.to_string()))
}

/// How many matches: fewer than none means all.
fn most(datum: &Datum) -> usize {
    usize::try_from(whole(datum)).unwrap_or(usize::MAX)
}

fn is_match(arguments: &[Datum]) -> Outcome {
    let [regex, subject] = exactly("regexMatch", arguments)?;
    Ok(pattern(regex)?.is_match(text(subject)?).into())
}

fn find(arguments: &[Datum]) -> Outcome {
    let [regex, subject] = exactly("regexFind", arguments)?;
    Ok(pattern(regex)?.find(text(subject)?).map_or("", |found| found.as_str()).into())
}

fn find_all(arguments: &[Datum]) -> Outcome {
    let [regex, subject, number] = exactly("regexFindAll", arguments)?;
    let regex = pattern(regex)?;
    Ok(strings(regex.find_iter(text(subject)?).take(most(number)).map(|found| found.as_str())))
}

fn replace_all(arguments: &[Datum]) -> Outcome {
    let [regex, subject, replacement] = exactly("regexReplaceAll", arguments)?;
    let replaced = pattern(regex)?.replace_all(text(subject)?, text(replacement)?).into_owned();
    Ok(replaced.into())
}

fn replace_all_literal(arguments: &[Datum]) -> Outcome {
    let [regex, subject, replacement] = exactly("regexReplaceAllLiteral", arguments)?;
    let replacement = NoExpand(text(replacement)?);
    Ok(pattern(regex)?.replace_all(text(subject)?, replacement).into_owned().into())
}

fn split(arguments: &[Datum]) -> Outcome {
    let [regex, subject, number] = exactly("regexSplit", arguments)?;
    Ok(strings(pattern(regex)?.splitn(text(subject)?, most(number))))
}

fn quote_meta(arguments: &[Datum]) -> Outcome {
    let [subject] = exactly("regexQuoteMeta", arguments)?;
    let mut quoted = String::new();
    for c in text(subject)?.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    Ok(quoted.into())
}

/// Bytes of one compiled expression.
const MOST_MEMORY: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::super::check;

    #[test]
    fn sprigs_results() {
        check(&[
            ("regexMatch `^[A-Za-z0-9._%+-]+@[a-z.]+$` `test@acme.com`", "true"),
            ("regexFindAll `[2,4,6,8]` `123456789` -1", "[2 4 6 8]"),
            ("regexFindAll `[2,4,6,8]` `123456789` 2", "[2 4]"),
            ("regexFind `[a-zA-Z][1-9]` `abcd1234`", "d1"),
            ("regexReplaceAll `a(x*)b` `-ab-axxb-` `${1}W`", "-W-xxW-"),
            ("regexReplaceAllLiteral `a(x*)b` `-ab-axxb-` `${1}`", "-${1}-${1}-"),
            ("regexSplit `z+` `pizza` -1 | join `,`", "pi,a"),
            ("regexQuoteMeta `1.2.3`", r"1\.2\.3"),
        ]);
    }
}
