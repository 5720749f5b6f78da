//! Objects and names in JSON. serde's derive would also read an array as an object, and name Rust's types in its errors.

use serde_core::de::value::UnitDeserializer;
use serde_core::de::{Deserialize, Error};

#[doc(hidden)]
pub use serde_core;

/// Values with names, in order.
pub trait Named: Sized {
    /// All values.
    fn all() -> Vec<Self>;

    /// Name of the value.
    fn name(&self) -> &'static str;
}

/// `names!(Enum { Variant = "name", ... })` gives each variant its name, in `Display` and in JSON. With `else Variant = "name"` after the
/// braces, an unknown name is read as that variant instead of being an error.
#[macro_export]
macro_rules! names {
    ($Enum:ident { $($Variant:ident = $name:literal),+ $(,)? } $(else $Other:ident = $other:literal)?) => {
        const _: () = {
            use $crate::json::serde_core::de::{Deserialize, Deserializer, Error};
            use $crate::json::serde_core::ser::{Serialize, Serializer};

            impl $Enum {
                /// All that have a name of their own, in order.
                pub const ALL: [Self; [$($name),+].len()] = [$(Self::$Variant),+];

                /// Name of the value.
                pub const fn name(self) -> &'static str {
                    match self { $(Self::$Variant => $name,)+ $(Self::$Other => $other,)? }
                }

                /// The one of [`ALL`](Self::ALL) with this name.
                pub fn from_name(name: &str) -> Option<Self> {
                    Self::ALL.into_iter().find(|known| known.name() == name)
                }
            }

            impl $crate::json::Named for $Enum {
                fn all() -> Vec<Self> {
                    Self::ALL.into()
                }

                fn name(&self) -> &'static str {
                    (*self).name()
                }
            }

            impl ::std::fmt::Display for $Enum {
                fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                    f.pad(self.name())
                }
            }

            impl Serialize for $Enum {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.name())
                }
            }

            impl<'de> Deserialize<'de> for $Enum {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let name = String::deserialize(deserializer)?;
                    Self::from_name(&name)
                        $(.or(Some(Self::$Other)))?
                        .ok_or_else(|| D::Error::unknown_variant(&name, &[$($name),+]))
                }
            }
        };
    };
}

/// `object!(Struct { "key": field, ...; "key": field, ... })` makes a struct a JSON object. Fields after the semicolon are omitted
/// where they have their type's default, and may be absent; an `Option` may always be absent. With `, strict` after the braces,
/// unknown keys are errors; with `where check`, so is an object that this function refuses with a text.
#[macro_export]
macro_rules! object {
    (
        $Struct:ident {
            $($key:literal: $field:ident),+ $(,)?
            $(; $($option_key:literal: $option:ident),+ $(,)?)?
        } $(, $strict:ident)? $(where $check:path)?
    ) => {
        const _: () = {
            use $crate::json::serde_core::de::{
                Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor,
            };
            use $crate::json::serde_core::ser::{Serialize, SerializeMap, Serializer};

            impl Serialize for $Struct {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    let mut object = serializer.serialize_map(None)?;
                    $(object.serialize_entry($key, &self.$field)?;)+
                    $($(if !$crate::json::is_default(&self.$option) {
                        object.serialize_entry($option_key, &self.$option)?;
                    })+)?
                    object.end()
                }
            }

            impl<'de> Deserialize<'de> for $Struct {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_map(ObjectVisitor)
                }
            }

            struct ObjectVisitor;

            impl<'de> Visitor<'de> for ObjectVisitor {
                type Value = $Struct;

                fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$Struct, A::Error> {
                    $(let mut $field = None;)+
                    $($(let mut $option = None;)+)?
                    while let Some(key) = map.next_key::<String>()? {
                        let is_repeated = match key.as_str() {
                            $($key => $field.replace(map.next_value()?).is_some(),)+
                            $($($option_key => $option.replace(map.next_value()?).is_some(),)+)?
                            _ => {
                                let is_strict = false $(|| stringify!($strict) == "strict")?;
                                if is_strict {
                                    let keys = &[$($key,)+ $($($option_key),+)?];
                                    return Err(A::Error::unknown_field(&key, keys));
                                }
                                map.next_value::<IgnoredAny>()?;
                                false
                            }
                        };
                        if is_repeated {
                            return Err(A::Error::custom(format_args!("duplicate field `{key}`")));
                        }
                    }
                    let object = $Struct {
                        $($field: $field.map_or_else(|| $crate::json::absent($key), Ok)?,)+
                        $($($option: $option.unwrap_or_default(),)+)?
                    };
                    $($check(&object).map_err(A::Error::custom)?;)?
                    Ok(object)
                }
            }
        };
    };
}

#[doc(hidden)]
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Value of a field whose key is absent: `None` for an `Option`, an error for all else.
#[doc(hidden)]
pub fn absent<'de, T: Deserialize<'de>, E: Error>(key: &'static str) -> Result<T, E> {
    T::deserialize(UnitDeserializer::<E>::new()).map_err(|_| E::missing_field(key))
}
