//! Files of pictures through the engine, of any size and in any number.
//!
//! [`FolderReader`] decodes them ahead on threads of its own, samples those of one size together, and gives their tokens in the order of
//! the files. A file that cannot be read is an item like any other.

mod decode;
mod list;
mod prefetch;
mod reader;

pub use self::decode::{DecodeError, DecodeOptions, DecodedPicture, GrayFacts, decode};
pub use self::list::{ENDINGS, ListError, list};
pub use self::reader::{FolderReader, PictureView, SampledPicture, SampledView, look_at};
