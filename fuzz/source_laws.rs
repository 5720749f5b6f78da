//! Laws for arbitrary bytes in place of messages of a source process: nothing panics, and every frame that the daemon takes can be read,
//! all of it.

use std::os::fd::AsFd;
use std::sync::Arc;

use foveate_source::frame::SampleFormat;
use foveate_source::ledger::{AcceptedFrame, Ledger};
use foveate_source::memory::WritableMemory;
use foveate_source::pool::PoolLimits;
use foveate_source::wire::FromSource;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// Bytes of a buffer: enough for small frames only.
const BYTES: usize = 1 << 16;

/// Panics if a law is broken by messages, each behind its length.
pub(crate) fn hold_for(bytes: &[u8]) {
    let (unix, whole) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let Ok((own, _theirs)) = socketpair(unix, whole, SocketFlags::CLOEXEC, None) else { return };
    let limits = PoolLimits { buffers_max: 2, bytes_max: 1 << 20, buffer_bytes_max: 1 << 19 };
    let mut ledger = Ledger::new(Arc::new(own), limits, 0);
    let Ok((_memory, file)) = WritableMemory::new(BYTES) else { return };
    assert_eq!(ledger.add(0, Some(file.as_fd())), Ok(BYTES as u64));
    let mut held = None;
    let mut left = bytes;
    while let Some((len, rest)) = left.split_first() {
        let (message, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        left = rest;
        match FromSource::decode(message) {
            Ok(FromSource::Frame(frame)) => {
                let _ = ledger.count(&frame.counts);
                let Ok(taken) = ledger.accept(&frame, u64::MAX) else { continue };
                read(&taken);
                held = Some(taken);
            }
            Ok(FromSource::Buffer(number)) => drop(ledger.add(number, Some(file.as_fd()))),
            Ok(FromSource::Gone(number)) => drop(ledger.remove(number)),
            Ok(FromSource::Counts(counts)) => drop(ledger.count(&counts)),
            Ok(FromSource::Ended) => held = None,
            Ok(FromSource::Failed(failure)) => drop(failure.text),
            Err(_) => {}
        }
    }
    drop(held);
}

/// Reads every sample.
fn read(frame: &AcceptedFrame) {
    let AcceptedFrame { buffer, layout, .. } = frame;
    match layout.samples {
        SampleFormat::Picture(format, _) => {
            let view = layout.picture(buffer.bytes()).expect("it was checked");
            for index in 0..format.plane_count() {
                for row in 0..view.kind().rows(index) {
                    std::hint::black_box(view.row(index, row).iter().max());
                }
            }
        }
        SampleFormat::Depth(_) => drop(layout.depth(buffer.bytes()).expect("it was checked")),
    }
}
