//! Runs with names.
