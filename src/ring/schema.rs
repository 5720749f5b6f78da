//! A description of the segment's structs, for programs that generate code or print fields.

use super::abi;
use super::text::Text;

/// Every struct of a segment, in the order of its definition.
pub const STRUCTS: [&Struct; 10] = [
    &abi::SegmentHeader::SCHEMA,
    &abi::CameraBlock::SCHEMA,
    &abi::CameraFrameBlock::SCHEMA,
    &abi::ChannelBlock::SCHEMA,
    &abi::PlaneEntry::SCHEMA,
    &abi::LiveBlock::SCHEMA,
    &abi::StateBlock::SCHEMA,
    &abi::SlotHeader::SCHEMA,
    &abi::FixationBlock::SCHEMA,
    &abi::TokenRecord::SCHEMA,
];

/// A struct without padding.
#[derive(Debug)]
pub struct Struct {
    /// Name of the struct in Rust and in the documentation.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: usize,
    /// Purpose of the struct, in lines of Markdown.
    pub about: &'static [&'static str],
    /// Fields of the struct, by offset.
    pub fields: &'static [Field],
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// Name of the field in every language.
    pub name: &'static str,
    /// Offset in the struct, in bytes.
    pub offset: usize,
    /// Type.
    pub form: Form,
    /// Unit of its numbers.
    pub unit: Option<&'static str>,
    /// Meaning, in lines of Markdown.
    pub about: &'static [&'static str],
}

/// Type of a field.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// A text of so many bytes, padded with at least one NUL.
    Text(usize),
    /// An unsigned integer of 8 bits.
    U8,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 64 bits.
    U64,
    /// A signed integer of 32 bits.
    I32,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// A struct.
    Struct(&'static Struct),
    /// An array with this many items.
    Array(&'static Form, usize),
}

impl Form {
    /// Size in bytes.
    pub const fn bytes(&self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::F64 => 8,
            Self::Text(bytes) => *bytes,
            Self::Struct(described) => described.bytes,
            Self::Array(item, count) => item.bytes() * *count,
        }
    }
}

/// A type that a field may have.
pub(super) trait HasForm {
    const FORM: Form;
}

macro_rules! forms {
    ($($Number:ty: $Form:ident),+) => {
        $(impl HasForm for $Number {
            const FORM: Form = Form::$Form;
        })+
    };
}

forms!(u8: U8, u16: U16, u32: U32, u64: U64, i32: I32, f32: F32, f64: F64);

impl<const BYTES: usize> HasForm for Text<BYTES> {
    const FORM: Form = Form::Text(BYTES);
}

impl<T: HasForm, const COUNT: usize> HasForm for [T; COUNT] {
    const FORM: Form = Form::Array(&T::FORM, COUNT);
}

/// Defines structs, and describes them: `[offset] field: Type, unit NAME;` with its meaning as documentation.
macro_rules! structs {
    ($(
        $(#[doc = $about:literal])+
        $Struct:ident $(align $align:literal)? {$(
            $(#[doc = $meaning:literal])+
            [$offset:literal] $field:ident: $Field:ty $(, unit $unit:ident)?;
        )+}
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
        #[repr(C)]
        $(#[repr(align($align))])?
        pub struct $Struct {$(
            $(#[doc = $meaning])+
            pub $field: $Field,
        )+}

        impl $Struct {
            /// Fields and meaning of the struct.
            pub const SCHEMA: $crate::schema::Struct = $crate::schema::Struct {
                name: stringify!($Struct),
                bytes: size_of::<Self>(),
                about: &[$($about),+],
                fields: &[$($crate::schema::Field {
                    name: stringify!($field),
                    offset: $offset,
                    form: <$Field as $crate::schema::HasForm>::FORM,
                    unit: [$(Some(stringify!($unit)),)? None][0],
                    about: &[$($meaning),+],
                }),+],
            };
        }

        impl $crate::schema::HasForm for $Struct {
            const FORM: $crate::schema::Form = $crate::schema::Form::Struct(&Self::SCHEMA);
        }

        $(const _: () = assert!(std::mem::offset_of!($Struct, $field) == $offset);)+
    )+};
}

pub(super) use structs;
