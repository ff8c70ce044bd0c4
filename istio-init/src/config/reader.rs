//! Parser of flags and variables that collects all errors.

use std::str::FromStr;

use super::list;
use crate::args::env::Variable;
use crate::args::flags::Flag;
use crate::args::{Args, Source};
use crate::types::input_error::{InputError, ValueError};

/// Parses values and collects errors.
pub(super) struct Reader<'a> {
    pub(super) args: &'a Args,
    pub(super) errors: Vec<InputError>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Reader<'a> {
    /// Parses a number. `once` is a hint for a flag that had no value in older versions.
    pub(super) fn number<T: FromStr<Err = ValueError>>(
        &mut self,
        flag: Flag,
        once: &str,
    ) -> Option<T> {
        let typed = self.args.flag(flag);
        let with_history = |error: ValueError| {
            if once.is_empty() || !typed.text.starts_with('-') {
                return error;
            }
            let now = flag.spec().help;
            error.hint(format!("{once}; today it takes a value: {now}"))
        };
        let read = typed.text.parse().map_err(with_history);
        read.map_err(|error| self.reject(typed.source, &typed.text, error)).ok()
    }

    /// Parses the list of a flag that accepts no `*`.
    pub(super) fn list<T: FromStr<Err = ValueError> + PartialEq>(&mut self, flag: Flag) -> Vec<T> {
        let typed = self.args.flag(flag);
        self.each(typed.source, &typed.text, str::parse)
    }

    /// Parses a list, in order and without duplicates.
    pub(super) fn each<T: PartialEq>(
        &mut self,
        source: Source,
        text: &str,
        read: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Vec<T> {
        let mut values = Vec::new();
        for value in self.elements(source, text, list::split(text), read) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }

    /// Parses elements. Reports the first errors only.
    pub(super) fn elements<'t, T>(
        &mut self,
        source: Source,
        text: &str,
        elements: impl Iterator<Item = &'t str>,
        read: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Vec<T> {
        let mut values = Vec::new();
        let mut wrong = 0_usize;
        for element in elements {
            match read(element) {
                Ok(value) => values.push(value),
                Err(_) if wrong >= MAX_REPORTED => wrong += 1,
                Err(error) => {
                    wrong += 1;
                    let mut words = element.split_whitespace();
                    let is_list = words.clone().count() > 1 && words.all(|word| read(word).is_ok());
                    let error = if is_list { error.hint("use commas, not blanks") } else { error };
                    self.reject(source, element, error);
                }
            }
        }
        if wrong > MAX_REPORTED {
            let rest = wrong - MAX_REPORTED;
            let error = ValueError::new(format!("has {rest} more invalid elements"));
            self.reject(source, text, error);
        }
        values
    }

    pub(super) fn variable(&self, variable: Variable) -> &'a str {
        self.args.variable(variable).unwrap_or(variable.default())
    }

    pub(super) fn reject(&mut self, source: Source, value: &str, error: ValueError) {
        let error = InputError { source: source.to_string(), value: value.to_owned(), error };
        self.errors.push(error);
    }
}

/// A few errors are enough to show that a list is invalid.
const MAX_REPORTED: usize = 8;
