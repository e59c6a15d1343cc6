//! What is said to people while a command works: lines on standard error. Saying something never fails a command:
//! whoever has closed standard error does not want to hear it.

use std::fmt::Arguments;
use std::io::{Write, stderr};

/// Says one line, as `eprintln!` does, which would panic where nobody listens.
macro_rules! say {
    ($($part:tt)*) => { $crate::talk::line(format_args!($($part)*)) };
}

pub(crate) use say;

pub(crate) fn line(text: Arguments<'_>) {
    let _ = writeln!(stderr(), "{text}");
}
