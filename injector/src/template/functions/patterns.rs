//! sprig's functions on regular expressions. Go's syntax is RE2's, which `regex` supports except
//! for the names of a few Unicode classes.

use gtmpl_ng::{FuncError, Value as TemplateValue};
use regex::{Match, NoExpand, RegexBuilder};

use super::arguments::{exactly, strings, text, whole};
use super::{FunctionResult, Table, error, on_plain, table};
use crate::template::rendering::{self, ITEM, Pattern, charge, charge_for};

pub(super) const TABLE: Table = table![
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

impl Pattern {
    fn new(value: &TemplateValue) -> Result<Self, FuncError> {
        let expression = text(value)?;
        rendering::pattern(expression, || Self::compile(expression))
    }

    /// Compiles an expression. Its memory is known only by trying, with increasing limits.
    fn compile(expression: &str) -> Result<Self, FuncError> {
        charge(COMPILATION)?;
        charge_for(expression.len(), PARSED)?;
        let mut size = LEAST_MEMORY;
        loop {
            charge(size)?;
            match RegexBuilder::new(expression).size_limit(size).build() {
                Ok(regex) => return Ok(Self { regex, of_byte: size / LEAST_MEMORY }),
                Err(regex::Error::CompiledTooBig(_)) if size < MOST_MEMORY => size *= 4,
                Err(problem) => return Err(error(problem.to_string())),
            }
        }
    }

    /// Returns the first matches, at most `most`. The search for each may scan the whole rest of
    /// the subject.
    fn matches<'a>(&self, subject: &'a str, most: usize) -> Result<Vec<Match<'a>>, FuncError> {
        charge_for(subject.len(), self.of_byte)?;
        let mut matches = Vec::new();
        for found in self.regex.find_iter(subject).take(most) {
            charge_for((subject.len() - found.end()) / 4, self.of_byte)?;
            charge(ITEM)?;
            matches.push(found);
        }
        Ok(matches)
    }
}

/// Returns the maximum number of matches; a negative number means all.
fn most(value: &TemplateValue) -> usize {
    usize::try_from(whole(value)).unwrap_or(usize::MAX)
}

fn is_match(arguments: &[TemplateValue]) -> FunctionResult {
    let [regex, subject] = exactly("regexMatch", arguments)?;
    Ok((!Pattern::new(regex)?.matches(text(subject)?, 1)?.is_empty()).into())
}

fn find(arguments: &[TemplateValue]) -> FunctionResult {
    let [regex, subject] = exactly("regexFind", arguments)?;
    let found = Pattern::new(regex)?.matches(text(subject)?, 1)?;
    Ok(found.first().map_or("", Match::as_str).into())
}

fn find_all(arguments: &[TemplateValue]) -> FunctionResult {
    let [regex, subject, number] = exactly("regexFindAll", arguments)?;
    let matches = Pattern::new(regex)?.matches(text(subject)?, most(number))?;
    Ok(strings(matches.iter().map(Match::as_str)))
}

fn replace_all(arguments: &[TemplateValue]) -> FunctionResult {
    let [regex, subject, replacement] = exactly("regexReplaceAll", arguments)?;
    let (pattern, subject, replacement) =
        (Pattern::new(regex)?, text(subject)?, text(replacement)?);
    charge_for(pattern.matches(subject, usize::MAX)?.len(), replacement.len())?;
    // References to capture groups may copy all of the matched text.
    charge_for(replacement.matches('$').count(), subject.len())?;
    Ok(pattern.regex.replace_all(subject, replacement).into_owned().into())
}

fn replace_all_literal(arguments: &[TemplateValue]) -> FunctionResult {
    let [regex, subject, replacement] = exactly("regexReplaceAllLiteral", arguments)?;
    let (pattern, subject, replacement) =
        (Pattern::new(regex)?, text(subject)?, text(replacement)?);
    charge_for(pattern.matches(subject, usize::MAX)?.len(), replacement.len())?;
    Ok(pattern.regex.replace_all(subject, NoExpand(replacement)).into_owned().into())
}

fn split(arguments: &[TemplateValue]) -> FunctionResult {
    let [regex, subject, number] = exactly("regexSplit", arguments)?;
    let (pattern, subject, most) = (Pattern::new(regex)?, text(subject)?, most(number));
    pattern.matches(subject, most)?;
    Ok(strings(pattern.regex.splitn(subject, most)))
}

fn quote_meta(arguments: &[TemplateValue]) -> FunctionResult {
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

/// Units for compiling an expression; `PARSED` is for parsing a byte of it.
const COMPILATION: usize = 64 << 10;
const PARSED: usize = 256;

/// Bytes of the smallest compiled expression; `MOST_MEMORY` is for the largest.
const LEAST_MEMORY: usize = 4 << 10;
const MOST_MEMORY: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use crate::template::functions::check;

    #[test]
    fn results_equal_sprig() {
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
