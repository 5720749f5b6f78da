//! Whether a JPEG is whole. Decoders show the part of a cut one that is there, and gray below it.

use std::io::{self, BufRead, ErrorKind, Read};

/// Start of image.
const SOI: u8 = 0xD8;

/// End of image.
const EOI: u8 = 0xD9;

/// Whether a picture that begins with SOI goes on to its marker EOI. What follows that does not matter: cameras pad files, and phones
/// append a video.
///
/// # Errors
///
/// If it cannot be read.
pub fn has_end(jpeg: impl BufRead) -> io::Result<bool> {
    match find_end(jpeg) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        found => found,
    }
}

fn find_end(mut jpeg: impl BufRead) -> io::Result<bool> {
    let mut is_begun = false;
    loop {
        jpeg.skip_until(0xFF)?;
        let mut code = [0xFF];
        while code == [0xFF] {
            jpeg.read_exact(&mut code)?;
        }
        match code[0] {
            EOI => return Ok(true),
            // The next one of a stream that lost the end of this one.
            SOI if is_begun => return Ok(false),
            SOI => is_begun = true,
            // A byte of 0xFF in a scan, a restart, and others without a length.
            0..=0xBF | 0xD0..=0xD7 => {}
            // A segment, perhaps with the EOI of a thumbnail.
            _ => skip_segment(&mut jpeg)?,
        }
    }
}

fn skip_segment(jpeg: &mut impl BufRead) -> io::Result<()> {
    let mut length = [0; 2];
    jpeg.read_exact(&mut length)?;
    // It counts its own two bytes.
    let rest = u64::from(u16::from_be_bytes(length)).saturating_sub(2);
    let skipped = io::copy(&mut jpeg.take(rest), &mut io::sink())?;
    if skipped == rest { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
}
