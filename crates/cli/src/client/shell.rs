//! Commands to copy into a shell.

/// The words of a command, each in quotes where a shell would take it for something else.
pub(crate) fn command_line<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    words.into_iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_what_was_meant() {
        let words =
            ["probe", "--require", "gpus>=4", "", "it's", "2026-11-16T09:00:00+01:00"].map(String::from);
        assert_eq!(command_line(&words), "probe --require 'gpus>=4' '' 'it'\\''s' 2026-11-16T09:00:00+01:00");
    }
}
