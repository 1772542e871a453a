//! One suite: everything that is tested from outside.

mod cli;
mod docs;
