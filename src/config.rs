//! The configuration: parsed strictly, validated once, then trusted.
