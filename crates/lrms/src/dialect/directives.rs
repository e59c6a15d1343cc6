//! Options in a user's script (`#SBATCH`, `#PBS`, `#BSUB`) where the service submits with its own account. The batch system
//! then reads them with the rights of that account, which may be an operator's: a negative nice value would overtake all other
//! jobs. So only options of a list are passed on, each on a line of its own with its full name; options that Bookahead sets
//! have no effect; everything else is refused by name, also an abbreviation. With an account for each user nothing is
//! checked here, because the user could give the same options to the batch system.

use crate::error::LrmsError;

/// How a batch system reads options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `--long=value`, `--long value`, `-s value`, `-svalue`.
    Long,
    /// `-s value`, `-svalue`.
    Letters,
    /// `-word value`.
    Words,
}

/// The options of a batch system that a script may have. A `=` at the end marks those with a value; a letter and a `/` before
/// the name are the short form.
pub(crate) struct Directives {
    pub(crate) prefix: &'static str,
    pub(crate) style: Style,
    /// Passed on.
    pub(crate) passed: &'static [&'static [&'static str]],
    /// Left out, because Bookahead sets them.
    pub(crate) own: &'static [&'static str],
}

struct Known<'a> {
    full: String,
    has_value: bool,
    is_passed: bool,
    short: Option<&'a str>,
}

impl Directives {
    /// The lines to pass on for those of a script.
    pub(crate) fn checked<'a>(&self, lines: impl Iterator<Item = &'a str>) -> Result<Vec<String>, LrmsError> {
        let mut checked = Vec::new();
        for line in lines {
            let options = line.trim_start().strip_prefix(self.prefix).unwrap_or_default();
            self.check(options, &mut checked)
                .map_err(|why| LrmsError::Malformed(format!("{:?}: {why}", line.trim())))?;
        }
        Ok(checked)
    }

    fn check(&self, options: &str, checked: &mut Vec<String>) -> Result<(), String> {
        let mut words = words(options)?.into_iter();
        while let Some(word) = words.next() {
            let mut rest = Some(word);
            while let Some(word) = rest.take() {
                let (known, attached) = self.known(&word).ok_or_else(|| self.refusal(&word))?;
                let value = match (known.has_value, attached) {
                    (true, Some(value)) => Some(value),
                    (true, None) => Some(words.next().ok_or_else(|| format!("{word} needs a value"))?),
                    (false, None) => None,
                    // `-Qv` is `-Q -v`.
                    (false, Some(more)) if known.short.is_some() && !word.starts_with("--") => {
                        rest = Some(format!("-{more}"));
                        None
                    }
                    (false, Some(_)) => return Err(format!("{word} has no value")),
                };
                if known.is_passed {
                    checked.push(self.line(&known, value.as_deref()));
                }
            }
        }
        Ok(())
    }

    /// The option of a word, and what follows it in the word.
    fn known(&self, word: &str) -> Option<(Known<'_>, Option<String>)> {
        let passed = self.passed.iter().copied().flatten().map(|option| (option, true));
        let all = passed.chain(self.own.iter().map(|option| (option, false)));
        all.into_iter().find_map(|(option, is_passed)| {
            let (short, name) = match option.split_once('/') {
                Some((short, name)) => (Some(short), name),
                None => (None, *option),
            };
            let (name, has_value) = match name.strip_suffix('=') {
                Some(name) => (name, true),
                None => (name, false),
            };
            let known = |full: &str| Known { full: full.to_owned(), has_value, is_passed, short };
            match self.style {
                Style::Words => (word == format!("-{name}")).then(|| (known(word), None)),
                Style::Letters => {
                    let attached = word.strip_prefix(&format!("-{name}"))?;
                    Some((
                        known(&format!("-{name}")),
                        Some(attached.to_owned()).filter(|text| !text.is_empty()),
                    ))
                }
                Style::Long => {
                    let full = format!("--{name}");
                    let rest =
                        word.strip_prefix(&full).filter(|rest| rest.is_empty() || rest.starts_with('='));
                    if let Some(rest) = rest {
                        return Some((known(&full), rest.strip_prefix('=').map(str::to_owned)));
                    }
                    let attached = word.strip_prefix(&format!("-{}", short?))?;
                    Some((known(&full), Some(attached.to_owned()).filter(|text| !text.is_empty())))
                }
            }
        })
    }

    fn line(&self, known: &Known<'_>, value: Option<&str>) -> String {
        let quoted = |value: &str| match value.contains([' ', '#']) {
            true => format!("\"{value}\""),
            false => value.to_owned(),
        };
        let value = value.map(quoted);
        let joint = if self.style == Style::Long { "=" } else { " " };
        let value = value.map(|value| format!("{joint}{value}")).unwrap_or_default();
        format!("{} {}{value}", self.prefix, known.full)
    }

    fn refusal(&self, word: &str) -> String {
        let name = word.split('=').next().unwrap_or(word);
        let names = self
            .passed
            .iter()
            .copied()
            .flatten()
            .map(|option| option.rsplit('/').next().unwrap_or(option).trim_end_matches('='));
        let dashes = if self.style == Style::Long { "--" } else { "-" };
        let names: Vec<String> = names.map(|name| format!("{dashes}{name}")).collect();
        format!(
            "{name} is not allowed in a script here, because jobs run under the account of the service; remove it. Allowed, \
             with their full names: {}",
            names.join(", ")
        )
    }
}

/// Words of a line, up to a comment. Quotes are removed.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (_, '\\') | (_, '\0'..='\x08' | '\x0a'..='\x1f' | '\x7f') => {
                return Err("options may not contain a backslash or control characters".into());
            }
            (Some(open), _) if character == open => quote = None,
            (Some(_), '"' | '\'') => return Err("a value may not contain quotes".into()),
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(character);
            }
            (None, '#') if word.is_none() => return Ok(words),
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".into());
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Directives = Directives {
        prefix: "#SBATCH",
        style: Style::Long,
        passed: &[&["mail-type=", "e/error="], &["Q/quiet", "v/verbose"]],
        own: &["p/partition=", "t/time="],
    };
    const LETTERS: Directives =
        Directives { prefix: "#PBS", style: Style::Letters, passed: &[&["m="]], own: &["N="] };
    const WORDS: Directives =
        Directives { prefix: "#BSUB", style: Style::Words, passed: &[&["u=", "N"]], own: &["J="] };

    fn checked(of: &Directives, options: &str) -> Result<Vec<String>, String> {
        let line = format!("{} {options}", of.prefix);
        of.checked([&*line].into_iter()).map_err(|why| why.to_string())
    }

    #[test]
    fn options_of_the_list_are_passed_with_their_full_names_and_ours_are_left_out() {
        for (options, lines) in [
            ("--mail-type=END", vec!["#SBATCH --mail-type=END"]),
            ("--mail-type END -p west # --nice", vec!["#SBATCH --mail-type=END"]),
            ("-e 'a b' -t9", vec!["#SBATCH --error=\"a b\""]),
            ("-ea#b", vec!["#SBATCH --error=\"a#b\""]),
            ("-Qv", vec!["#SBATCH --quiet", "#SBATCH --verbose"]),
            ("--error=--nice", vec!["#SBATCH --error=--nice"]),
            ("", vec![]),
        ] {
            assert_eq!(checked(&LONG, options).unwrap(), lines, "{options}");
        }
        assert_eq!(checked(&LETTERS, "-N x -mabe").unwrap(), ["#PBS -m abe"]);
        assert_eq!(checked(&WORDS, "-u ada -N -J x").unwrap(), ["#BSUB -u ada", "#BSUB -N"]);
    }

    #[test]
    fn all_others_are_refused_by_name() {
        for (of, options, name) in [
            (&LONG, "--nice=-100000", "--nice"),
            (&LONG, "--mail-type=END --nic", "--nic"),
            (&LONG, "-Q -H", "-H"),
            (&LONG, "-QH", "-H"),
            (&LONG, "--mail", "--mail"),
            (&LONG, "--quiet=--nice", "has no value"),
            (&LONG, "--error", "needs a value"),
            (&LONG, "word", "word"),
            (&LONG, "--error=a\\ --nice", "backslash"),
            (&LONG, "--error='a", "not closed"),
            (&LONG, "--error='a\"b'", "quotes"),
            (&LETTERS, "-p 1000", "-p"),
            (&WORDS, "-sp 100", "-sp"),
            (&WORDS, "-Nx", "-Nx"),
        ] {
            let why = checked(of, options).unwrap_err();
            assert!(why.contains(name), "{options}: {why}");
        }
    }
}
