//! The book of a site: commands in, answers and events out.
