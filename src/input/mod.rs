//! Placeholder: see ARCHITECTURE.md.

pub mod har;
