//! race
