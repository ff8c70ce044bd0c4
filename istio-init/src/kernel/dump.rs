//! Lists what the kernel has of one kind.

use rustix::io::Errno;

use super::message::{
    Attributes, DONE, DUMP, ERROR, Header, INTERRUPTED, Messages, outcome, received,
};
use super::nf_tables::{FIXED_LENGTH, INET, message_type};
use super::socket::{RECEIVE_BUFFER, Socket};

/// The attributes of each thing of the kind that the request, filled in, is about; asks again
/// when they change in the meantime.
pub(super) fn dump(
    socket: &Socket,
    kind: u16,
    fill: impl Fn(&mut Attributes),
) -> Result<Vec<Vec<u8>>, Errno> {
    let mut buffer = vec![0; RECEIVE_BUFFER];
    'again: loop {
        let mut request = Messages::default();
        let header = Header { kind: message_type(kind), flags: DUMP, sequence: 1 };
        request.push(header, &INET, &fill);
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
                    _ => listed.extend(message.payload.get(FIXED_LENGTH..).map(<[u8]>::to_vec)),
                }
            }
        }
    }
}
