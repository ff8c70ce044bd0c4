//! Users whose outbound traffic is not captured: `[[protocols:]ports:]uids`.

use super::ExcludedUsers;
use super::list::split;
use crate::types::input_error::ValueError;
use crate::types::owner::{Accounts, UidRange};
use crate::types::protocol::Protocol;

/// Parses one element, such as `1000-1999`, `22,8000-9000:0` or `tcp:*:1000`.
pub(super) fn read(text: &str, accounts: &Accounts) -> Result<ExcludedUsers, ValueError> {
    let parts: Vec<&str> = text.split(':').collect();
    let (protocols, ports, users) = match *parts {
        [users] => ("", "", users),
        [ports, users] => ("", ports, users),
        [protocols, ports, users] => (protocols, ports, users),
        _ => return Err(ValueError::new("has too many parts").hint(FORM)),
    };
    let users: Vec<UidRange> =
        split(users).map(|part| user_range(part.trim(), accounts)).collect::<Result<_, _>>()?;
    if users.is_empty() {
        return Err(ValueError::new("names no user").hint(FORM));
    }
    let ports = match ports.trim() {
        "" | "*" => Vec::new(),
        list => split(list).map(str::parse).collect::<Result<_, _>>()?,
    };
    let mut protocols = split(protocols).map(str::parse).collect::<Result<Vec<_>, _>>()?;
    protocols.dedup();
    if protocols.is_empty() && !ports.is_empty() {
        protocols = Protocol::ALL.to_vec();
    }
    Ok(ExcludedUsers { protocols, ports, users })
}

fn user_range(text: &str, accounts: &Accounts) -> Result<UidRange, ValueError> {
    // A name may contain a dash.
    if let Ok(user) = accounts.user(text) {
        return Ok(user.into());
    }
    let Some((first, last)) = text.split_once('-') else {
        return accounts.user(text).map(UidRange::from);
    };
    let range = UidRange::new(first.parse()?, last.parse()?);
    range.ok_or_else(|| ValueError::new("is a range of users that ends before it begins"))
}

const FORM: &str = "write [[protocols:]ports:]uids, such as 1000-1999 or tcp:22,8000-9000:0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_one_to_three_parts() {
        let read = |text| read(text, &Accounts::default());
        let all = read("0,1000-1999").unwrap();
        assert!(all.protocols.is_empty() && all.ports.is_empty());
        assert_eq!(all.users[1].to_string(), "1000-1999");
        let both = read("22,8000-9000:0").unwrap();
        assert_eq!((both.protocols.len(), both.ports.len()), (2, 2));
        let udp = read("udp:*:1000").unwrap();
        assert_eq!((udp.protocols, udp.ports), (vec![Protocol::Udp], vec![]));
        for text in ["", ":", "tcp:", "22:", "sctp:1:1", "a", "2000-1000", "1:1:1:1", "1-", "1--2"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
