//! The numbers that stand for words in a ring.

/// `codes!(Enum { Variant = number, ... })` gives each variant the number that stands for it in a ring.
#[macro_export]
macro_rules! codes {
    ($Enum:ident { $($Variant:ident = $code:literal),+ $(,)? }) => {
        impl $Enum {
            /// The number that stands for it in a ring.
            pub const fn code(self) -> u32 {
                match self { $(Self::$Variant => $code),+ }
            }

            /// What a number in a ring stands for.
            pub const fn from_code(code: u32) -> Option<Self> {
                match code { $($code => Some(Self::$Variant),)+ _ => None }
            }
        }
    };
}
