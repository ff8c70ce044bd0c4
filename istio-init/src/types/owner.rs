//! Owners of sockets: users and groups.

use std::fmt;
use std::str::FromStr;

use super::input_error::ValueError;

/// A user's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(u32);

/// A group's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid(u32);

/// Inclusive range of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UidRange {
    first: Uid,
    last: Uid,
}

/// Names of users and groups.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// Content of `/etc/passwd`, empty if there is none.
    pub passwd: String,
    /// Content of `/etc/group`, empty if there is none.
    pub group: String,
}

impl Uid {
    /// Default user of Istio's proxy.
    pub const PROXY: Self = Self(1337);

    /// Root.
    pub const ROOT: Self = Self(0);

    /// Returns the number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Gid {
    /// Root's group.
    pub const ROOT: Self = Self(0);

    /// Returns the number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl UidRange {
    /// Creates a range; `None` if it ends before it begins.
    pub fn new(first: Uid, last: Uid) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// Returns the lowest user of the range.
    pub fn first(self) -> Uid {
        self.first
    }

    /// Returns the highest user of the range.
    pub fn last(self) -> Uid {
        self.last
    }

    /// True if the range contains the user.
    pub fn contains(self, uid: Uid) -> bool {
        (self.first..=self.last).contains(&uid)
    }
}

impl From<Uid> for UidRange {
    fn from(uid: Uid) -> Self {
        Self { first: uid, last: uid }
    }
}

impl Accounts {
    /// Returns the user with this number or this name.
    pub fn user(&self, text: &str) -> Result<Uid, ValueError> {
        self.named_user(text).map_or_else(|| text.parse(), Ok)
    }

    /// Returns the user with this name.
    pub fn named_user(&self, name: &str) -> Option<Uid> {
        named(&self.passwd, name).map(Uid)
    }

    /// Returns the group with this number or this name.
    pub fn group(&self, text: &str) -> Result<Gid, ValueError> {
        named(&self.group, text).map(Gid).map_or_else(|| text.parse(), Ok)
    }
}

impl FromStr for Uid {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        number(text).map(Self).ok_or_else(|| no_such(text, "user", "/etc/passwd"))
    }
}

impl FromStr for Gid {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        number(text).map(Self).ok_or_else(|| no_such(text, "group", "/etc/group"))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Writes `1000` or `1000-2000`, the syntax of nftables and iptables.
impl fmt::Display for UidRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        if self.first == self.last { Ok(()) } else { write!(f, "-{}", self.last) }
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the third field of the line with this first field; both files have this format.
fn named(accounts: &str, name: &str) -> Option<u32> {
    accounts
        .lines()
        .find_map(|line| {
            let mut fields = line.split(':');
            (!name.is_empty() && fields.next() == Some(name)).then(|| fields.nth(1)).flatten()
        })
        .and_then(number)
}

fn number(text: &str) -> Option<u32> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // The highest number means "no change" to the kernel.
    text.parse().ok().filter(|number| is_decimal && *number != u32::MAX)
}

fn no_such(text: &str, what: &str, file: &str) -> ValueError {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return ValueError::new(format!("is not a {what} id"))
            .hint("use a number from 0 to 4294967294");
    }
    let error = ValueError::new(format!("is neither a {what} id nor a {what} of this image"));
    error.hint(format!("use the number, or add the name to {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_names_or_numbers() {
        let accounts = Accounts {
            passwd: "root:x:0:0::/:/bin/sh\nistio-proxy:x:1337:1338::/:\n".to_owned(),
            group: "root:x:0:\napp:x:5000:a,b\n77:x:9:\n".to_owned(),
        };
        assert_eq!(accounts.user("istio-proxy"), Ok(Uid(1337)));
        assert_eq!(accounts.user("4294967294"), Ok(Uid(4_294_967_294)));
        assert_eq!(accounts.group("app"), Ok(Gid(5000)));
        assert_eq!(accounts.group("77"), Ok(Gid(9)), "a name wins, as it does for iptables");
        for text in ["", "nobody", "4294967295", "-1", "+1", "0x1", "1 "] {
            assert!(accounts.user(text).is_err() && accounts.group(text).is_err(), "{text}");
        }
    }
}
