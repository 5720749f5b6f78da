//! Numeric codes of enums in a ring.

/// `codes!(Enum { Variant = number, ... })` maps variants to their numbers in a ring.
#[macro_export]
macro_rules! codes {
    ($Enum:ident { $($Variant:ident = $code:literal),+ $(,)? }) => {
        impl $Enum {
            /// Number of the value in a ring.
            pub const fn code(self) -> u32 {
                match self { $(Self::$Variant => $code),+ }
            }

            /// The variant of a number in a ring.
            pub const fn from_code(code: u32) -> Option<Self> {
                match code { $($code => Some(Self::$Variant),)+ _ => None }
            }
        }
    };
}
