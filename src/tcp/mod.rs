//! Placeholder: see ARCHITECTURE.md.
