//! decoders
