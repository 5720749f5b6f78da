//! The orientation in EXIF data, as numbers of any width: cameras write 16 bits, and some programs 32.

/// The tag of the orientation.
const ORIENTATION: u16 = 0x0112;

/// The orientation, 1 to 8, in EXIF data, which is a TIFF file: its header, and a directory. `None` if it has none, or is damaged.
pub fn orientation(tiff: &[u8]) -> Option<u8> {
    let is_big_endian = match tiff.first_chunk()? {
        b"II*\0" => false,
        b"MM\0*" => true,
        _ => return None,
    };
    let u16_at = |at: usize| {
        let bytes = *tiff.get(at..)?.first_chunk()?;
        Some(if is_big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    };
    let u32_at = |at: usize| {
        let bytes = *tiff.get(at..)?.first_chunk()?;
        Some(if is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    };
    let directory = u32_at(4)? as usize;
    // Each entry has a tag, a type, a count, and a value of up to four bytes.
    let entries = (0..usize::from(u16_at(directory)?)).map(|index| directory + 2 + 12 * index);
    let entry = entries
        .take_while(|entry| *entry < tiff.len())
        .find(|entry| u16_at(*entry) == Some(ORIENTATION) && u32_at(entry + 4) == Some(1))?;
    let value = match u16_at(entry + 2)? {
        1 => (*tiff.get(entry + 8)?).into(),
        3 => u16_at(entry + 8)?.into(),
        4 => u32_at(entry + 8)?,
        _ => return None,
    };
    u8::try_from(value).ok().filter(|orientation| (1..=8).contains(orientation))
}
