//! Flags with a value of true or false, as Go programs have them.

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction};

/// A flag that is true if it has no value.
pub(crate) trait Switch {
    /// Makes the argument such a flag. A value follows an equals sign.
    fn switch(self, default: bool) -> Self;
}

impl Switch for Arg {
    fn switch(self, default: bool) -> Self {
        self.num_args(0..=1)
            .require_equals(true)
            .default_value(if default { TRUE } else { "false" })
            .default_missing_value(TRUE)
            .value_name("true|false")
            .hide_possible_values(true)
            .value_parser(BoolishValueParser::new())
            .action(ArgAction::Set)
    }
}

const TRUE: &str = "true";
