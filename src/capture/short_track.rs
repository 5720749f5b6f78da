//! MP4 files whose video is much shorter than the file. GStreamer's demuxer takes a track of less than a fifth of the file for a preview
//! and leaves it out, even if there is no other video.

use std::ops::Range;

use gstreamer as gst;
use gstreamer::prelude::*;

/// Has `demuxer` find a duration of the file in its box `moov` by which its longest video track is not too short.
pub(super) fn keep(demuxer: &gst::Element) {
    let Some(pad) = demuxer.static_pad("sink") else { return };
    // It pulls the whole box at once, unless it reads what it cannot seek in.
    pad.add_probe(gst::PadProbeType::PULL | gst::PadProbeType::BUFFER, |_, info| {
        if let Some(gst::PadProbeData::Buffer(buffer)) = &mut info.data
            && is_movie(buffer)
            && let Ok(mut bytes) = buffer.make_mut().map_writable()
        {
            shorten_movie(&mut bytes);
        }
        gst::PadProbeReturn::Ok
    });
}

fn is_movie(buffer: &gst::BufferRef) -> bool {
    let mut start = [0; 8];
    start.len() <= buffer.size()
        && buffer.copy_to_slice(0, &mut start).is_ok()
        && start[4..] == *b"moov"
}

/// A time on the scale of a track or of the file.
#[derive(Clone, Copy, Debug)]
struct MediaTime {
    ticks: u64,
    ticks_per_second: u64,
}

/// Lowers the duration of the file in `moov` to five times that of its longest video, where that is shorter than a fifth of it.
/// Returns whether it did.
fn shorten_movie(moov: &mut [u8]) -> bool {
    let shortened = || {
        let inside = 8..moov.len();
        let header = child(moov, inside.clone(), *b"mvhd")?;
        let (movie, field) = time_in(moov, header)?;
        let videos = children(moov, inside)
            .filter(|(kind, _)| kind == b"trak")
            .filter_map(|(_, track)| video_duration(moov, track));
        let in_movie = |video: MediaTime| {
            Some(
                u128::from(video.ticks) * u128::from(movie.ticks_per_second)
                    / u128::from(Some(video.ticks_per_second).filter(|ticks| 0 < *ticks)?),
            )
        };
        let longest = videos.filter_map(in_movie).max().filter(|ticks| 0 < *ticks)?;
        let most = u64::try_from(5 * longest).ok()?;
        (most < movie.ticks).then_some((most, field))
    };
    let Some((ticks, field)) = shortened() else { return false };
    let bytes = ticks.to_be_bytes();
    let width = field.len();
    moov[field].copy_from_slice(&bytes[bytes.len() - width..]);
    true
}

/// The duration of a track, if it is a video.
fn video_duration(bytes: &[u8], track: Range<usize>) -> Option<MediaTime> {
    let media = child(bytes, track, *b"mdia")?;
    let handler = child(bytes, media.clone(), *b"hdlr")?;
    // After version, flags and a reserved field.
    let is_video = bytes.get(handler.start + 8..handler.start + 12)? == b"vide";
    let (time, _) = time_in(bytes, child(bytes, media, *b"mdhd")?)?;
    is_video.then_some(time)
}

/// The duration in a header of a file or a track, and where it is.
fn time_in(bytes: &[u8], header: Range<usize>) -> Option<(MediaTime, Range<usize>)> {
    let content = bytes.get(header.clone())?;
    // After version, flags, and the times of creation and change.
    let (scale, width) = if content.first()? == &0 { (12, 4) } else { (20, 8) };
    let ticks_per_second = u32::from_be_bytes(*content.get(scale..)?.first_chunk()?).into();
    let field = scale + 4..scale + 4 + width;
    let ticks = content.get(field.clone())?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let place = header.start + field.start..header.start + field.end;
    Some((MediaTime { ticks, ticks_per_second }, place))
}

fn child(bytes: &[u8], parent: Range<usize>, wanted: [u8; 4]) -> Option<Range<usize>> {
    children(bytes, parent).find(|(kind, _)| *kind == wanted).map(|(_, content)| content)
}

/// The boxes in the content of another: their kinds and contents. Ends at a box that does not fit.
fn children(bytes: &[u8], parent: Range<usize>) -> impl Iterator<Item = ([u8; 4], Range<usize>)> {
    let mut at = parent.start;
    std::iter::from_fn(move || {
        let header: [u8; 8] = *bytes.get(at..parent.end)?.first_chunk()?;
        let size = u32::from_be_bytes(*header.first_chunk()?) as usize;
        let end = at.checked_add(size).filter(|end| 8 <= size && *end <= parent.end)?;
        let content = at + 8..end;
        at = end;
        Some((*header.last_chunk()?, content))
    })
}
