//! How a word gets through a shell as it is: between single quotes nothing has a meaning, in every shell that follows
//! POSIX (Shell Command Language, 2.2.2). It relies on the other side to have such a shell; csh and fish are none.

/// A word as a POSIX shell has to be given it; None where it contains a NUL, which no argument can.
pub fn quoted(word: &str) -> Option<String> {
    if word.contains('\0') {
        return None;
    }
    // A single quote ends the quoted part, stands escaped, and begins the next part.
    Some(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_stand_between_single_quotes_and_quotes_are_escaped() {
        for (word, expected) in [
            ("", "''"),
            ("squeue", "'squeue'"),
            ("a b", "'a b'"),
            ("$(id)`id`\\", "'$(id)`id`\\'"),
            ("it's", r"'it'\''s'"),
            ("'", r"''\'''"),
            ("two\nlines", "'two\nlines'"),
        ] {
            assert_eq!(quoted(word).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_word_with_a_nul_cannot_be_quoted() {
        assert_eq!(quoted("a\0b"), None);
    }
}
