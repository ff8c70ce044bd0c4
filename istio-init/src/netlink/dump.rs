//! List requests.

use rustix::io::Errno;

use super::message::{
    Attributes, DONE, DUMP, ERROR, Header, INTERRUPTED, Messages, outcome, received,
};
use super::nf_tables::{FIXED_LENGTH, INET, message_type};
use super::socket::{RECEIVE_BUFFER, Socket};

/// Sends a list request and returns the payload of each listed object. Repeats the request if the
/// kernel reports that objects changed during the listing.
pub(crate) fn dump(
    socket: &Socket,
    kind: u16,
    fixed: &[u8],
    fill: &dyn Fn(&mut Attributes),
) -> Result<Vec<Vec<u8>>, Errno> {
    let mut request = Messages::default();
    request.push(Header { kind, flags: DUMP, sequence: 1 }, fixed, fill);
    let mut buffer = vec![0; RECEIVE_BUFFER];
    'again: loop {
        socket.send(request.as_bytes())?;
        let mut listed = Vec::new();
        let mut is_interrupted = false;
        loop {
            for message in received(socket.receive(&mut buffer)?) {
                is_interrupted |= message.flags & INTERRUPTED != 0;
                match message.kind {
                    DONE if is_interrupted => continue 'again,
                    DONE => return Ok(listed),
                    ERROR => outcome(message.payload)?,
                    _ => listed.push(message.payload.to_vec()),
                }
            }
        }
    }
}

/// Lists objects of `nf_tables` in tables of the family inet. Returns the attributes of each.
pub(crate) fn dump_inet(
    socket: &Socket,
    kind: u16,
    fill: &dyn Fn(&mut Attributes),
) -> Result<Vec<Vec<u8>>, Errno> {
    let mut listed = dump(socket, message_type(kind), &INET, fill)?;
    listed.retain_mut(|payload| {
        let is_whole = payload.len() >= FIXED_LENGTH;
        payload.drain(..FIXED_LENGTH.min(payload.len()));
        is_whole
    });
    Ok(listed)
}
