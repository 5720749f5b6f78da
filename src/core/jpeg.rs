//! Reads from a JPEG without decoding it where it ends, how large it is, and how it is turned. Decoders show the part of a cut picture
//! that is there, and gray below it.

use std::io::{self, BufRead, ErrorKind};

use crate::exif;
use crate::geometry::extent::Extent;

/// Start of image.
const SOI: u8 = 0xD8;

/// End of image.
const EOI: u8 = 0xD9;

/// Application data, of EXIF and others.
const APP1: u8 = 0xE1;

/// First bytes of EXIF data.
const EXIF: &[u8] = b"Exif\0\0";

/// Size and orientation in the header of a JPEG file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Width and height in pixels, as stored; `None` if it does not say so.
    pub extent: Option<Extent>,
    /// The orientation of its EXIF data, 1 to 8; `None` if it has none.
    pub orientation: Option<u8>,
    /// Bytes up to its marker EOI, and with it; `None` if it is cut off. What follows does not matter: cameras pad files, and phones
    /// append a video.
    pub bytes: Option<u64>,
}

/// Reads a picture that begins with SOI up to its end.
///
/// # Errors
///
/// If it cannot be read.
pub fn outline(jpeg: impl BufRead) -> io::Result<Outline> {
    let mut outline = Outline { extent: None, orientation: None, bytes: None };
    let mut jpeg = Counted { read: jpeg, bytes: 0 };
    match find_end(&mut jpeg, &mut outline) {
        Ok(is_whole) => outline.bytes = is_whole.then_some(jpeg.bytes),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
        Err(error) => return Err(error),
    }
    Ok(outline)
}

/// Whether a picture that begins with SOI goes on to its end.
///
/// # Errors
///
/// If it cannot be read.
pub fn has_end(jpeg: impl BufRead) -> io::Result<bool> {
    outline(jpeg).map(|outline| outline.bytes.is_some())
}

/// The header of a picture, which comes before its first scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Size of the picture.
    pub extent: Extent,
    /// 1 for gray, 3 for colour, 4 for CMYK.
    pub components: u8,
}

impl FrameHeader {
    /// The header of a picture that begins with SOI; `None` if the bytes end before the header, or are damaged.
    pub fn of(jpeg: &[u8]) -> Option<Self> {
        let mut rest = jpeg.strip_prefix(&[0xFF, SOI])?;
        loop {
            // Bytes of 0xFF may fill the space before a marker.
            let fill = rest.iter().take_while(|byte| **byte == 0xFF).count();
            let code = *rest.get(fill).filter(|_| 0 < fill)?;
            let segment = &rest[fill + 1..];
            let length = usize::from(u16::from_be_bytes(*segment.first_chunk()?));
            match code {
                // Tables of Huffman and arithmetic coding, and an extension, lie between the codes of frames.
                0xC4 | 0xC8 | 0xCC => {}
                0xC0..=0xCF => {
                    let &[_, _, _, height_high, height_low, width_high, width_low, components] =
                        segment.first_chunk()?;
                    let width = u16::from_be_bytes([width_high, width_low]);
                    let height = u16::from_be_bytes([height_high, height_low]);
                    return Some(Self {
                        extent: Extent::new(width.into(), height.into()),
                        components,
                    });
                }
                _ => {}
            }
            rest = segment.get(length.max(2)..)?;
        }
    }
}

/// Whether the end was found.
fn find_end(jpeg: &mut Counted<impl BufRead>, outline: &mut Outline) -> io::Result<bool> {
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
            code => read_segment(jpeg, code, outline)?,
        }
    }
}

fn read_segment(
    jpeg: &mut Counted<impl BufRead>,
    code: u8,
    outline: &mut Outline,
) -> io::Result<()> {
    let mut length = [0; 2];
    jpeg.read_exact(&mut length)?;
    // It counts its own two bytes.
    let mut segment = vec![0; usize::from(u16::from_be_bytes(length)).saturating_sub(2)];
    jpeg.read_exact(&mut segment)?;
    match code {
        // A frame: its precision, height and width. The others are tables and extensions.
        0xC0..=0xCF if ![0xC4, 0xC8, 0xCC].contains(&code) => {
            if let [_, y1, y0, x1, x0, ..] = segment[..] {
                let [width, height] = [[x1, x0], [y1, y0]].map(u16::from_be_bytes).map(u32::from);
                outline.extent = outline.extent.or(Some(Extent::new(width, height)));
            }
        }
        APP1 => {
            let exif = segment.strip_prefix(EXIF).and_then(exif::orientation);
            outline.orientation = outline.orientation.or(exif);
        }
        _ => {}
    }
    Ok(())
}

/// A reader that counts the bytes read.
struct Counted<R> {
    read: R,
    bytes: u64,
}

impl<R: BufRead> Counted<R> {
    fn skip_until(&mut self, byte: u8) -> io::Result<()> {
        let skipped = self.read.skip_until(byte)?;
        self.bytes += skipped as u64;
        if skipped == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.read.read_exact(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::{Extent, FrameHeader};

    /// SOI, a comment, tables of Huffman, and a frame of 258 x 3 pixels.
    const HEADER: &[u8] = &[
        0xFF, 0xD8, 0xFF, 0xFE, 0, 4, 0xFF, 0xC0, 0xFF, 0xFF, 0xC4, 0, 3, 9, 0xFF, 0xC2, 0, 17, 8,
        0, 3, 1, 2, 4,
    ];

    #[test]
    fn a_header_has_size_and_components() {
        let header = FrameHeader { extent: Extent::new(258, 3), components: 4 };
        assert_eq!(FrameHeader::of(HEADER), Some(header));
    }

    #[test]
    fn no_part_of_a_header_is_taken_for_one() {
        for length in 0..HEADER.len() {
            assert_eq!(FrameHeader::of(&HEADER[..length]), None, "{length} bytes");
        }
        // A length of its own two bytes at least, so that a damaged one ends, too.
        assert_eq!(
            FrameHeader::of(&[&[0xFF, 0xD8][..], &[0xFF, 0xFE, 0, 0].repeat(9)].concat()),
            None
        );
    }
}
