//! TCP connections of tests.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};

use crate::wait::HANG;

/// A connection that gives up before a test hangs.
///
/// The kernel ends a read or write that has a time limit with `EINTR` where the process was stopped and continued, whether or not it
/// handles signals. These continue.
#[derive(Debug)]
pub struct Connection(pub TcpStream);

impl Connection {
    pub fn open(address: impl ToSocketAddrs) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(HANG))?;
        stream.set_write_timeout(Some(HANG))?;
        Ok(Self(stream))
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        uninterrupted(|| self.0.read(buffer))
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        uninterrupted(|| self.0.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

fn uninterrupted(mut transfer: impl FnMut() -> Result<usize>) -> Result<usize> {
    loop {
        match transfer() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
