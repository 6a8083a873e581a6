//! Frames: a length and JSON.

use std::io::{self, ErrorKind, Read, Write};

use super::Message;

/// The largest frame. A delta of 12 operations with 1,024 hosts stays far below it.
pub const FRAME: usize = 64 << 20;

/// Writes one message.
///
/// # Errors
/// The socket's, or `InvalidInput` if the message is larger than [`FRAME`].
pub fn write(to: &mut impl Write, message: &Message) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    if body.len() > FRAME {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the message is too long"));
    }
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
    frame.extend_from_slice(&body);
    to.write_all(&frame)?;
    to.flush()
}

/// Reads one message.
///
/// # Errors
/// The socket's, or `InvalidData` if it is no message.
pub fn read(from: &mut impl Read) -> io::Result<Message> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len) as usize;
    if len > FRAME {
        return Err(io::Error::new(ErrorKind::InvalidData, "the frame is too long"));
    }
    // Read as it comes, so that a false length allocates no more than was really sent.
    let mut body = Vec::new();
    from.take(len as u64).read_to_end(&mut body)?;
    if body.len() < len {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&body).map_err(|e| io::Error::new(ErrorKind::InvalidData, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames() {
        let mut bytes = Vec::new();
        write(&mut bytes, &Message::Alive { done: 7 }).unwrap();
        write(&mut bytes, &Message::Ready).unwrap();
        let mut from = &bytes[..];
        assert!(matches!(read(&mut from).unwrap(), Message::Alive { done: 7 }));
        assert!(matches!(read(&mut from).unwrap(), Message::Ready));
        assert_eq!(read(&mut from).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(read(&mut &[255, 255, 255, 255, 1][..]).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(read(&mut &[0, 0, 0, 2, b'{', b'}'][..]).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
