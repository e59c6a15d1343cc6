//! The text of a calendar: lines that end as RFC 5545 says, folded where they are long, with what is text escaped.

use bookahead_protocol::Name;

/// A line has at most so many bytes, without its end.
const LONGEST: usize = 75;

/// A calendar that is being written.
pub(super) struct Calendar(String);

impl Calendar {
    /// With nothing in it.
    pub(super) fn begin(party: &Name, version: &str) -> Calendar {
        let mut calendar = Calendar(String::new());
        calendar.line("BEGIN", "VCALENDAR");
        calendar.line("VERSION", "2.0");
        calendar.text("PRODID", &format!("-//Bookahead//bookahead {version}//EN"));
        calendar.text("NAME", &format!("Reservations at {party}"));
        calendar.text("X-WR-CALNAME", &format!("Reservations at {party}"));
        calendar.line("REFRESH-INTERVAL;VALUE=DURATION", "PT5M");
        calendar
    }

    /// A value that is not text: an instant, a number, a word.
    pub(super) fn line(&mut self, name: &str, value: &str) {
        self.folded(&format!("{name}:{value}"));
    }

    /// A value that is text.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        let mut escaped = String::with_capacity(text.len());
        for sign in text.chars() {
            match sign {
                '\\' | ';' | ',' => escaped.extend(['\\', sign]),
                '\n' => escaped.push_str("\\n"),
                // Nothing else of the kind may stand in a line.
                control if control.is_control() => {}
                other => escaped.push(other),
            }
        }
        self.line(name, &escaped);
    }

    /// A line that is too long goes on in the next, which then begins with a space.
    fn folded(&mut self, line: &str) {
        let mut length = 0;
        for sign in line.chars() {
            if length + sign.len_utf8() > LONGEST {
                self.0.push_str("\r\n ");
                length = 1;
            }
            self.0.push(sign);
            length += sign.len_utf8();
        }
        self.0.push_str("\r\n");
    }

    /// All of it.
    pub(super) fn end(mut self) -> String {
        self.line("END", "VCALENDAR");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_folded_between_characters_and_can_be_unfolded() {
        let long = "ünïcödé; and, more \\ ".repeat(20);
        let mut calendar = Calendar::begin(&"north".into(), "0.1.0");
        calendar.text("SUMMARY", &format!("{long}\nsecond line\r"));
        let text = calendar.end();
        assert!(text.ends_with("END:VCALENDAR\r\n") && text.starts_with("BEGIN:VCALENDAR\r\n"));
        assert!(text.split("\r\n").all(|line| line.len() <= LONGEST), "{text}");
        assert!(!text.replace("\r\n", "").contains(['\r', '\n']));
        let unfolded = text.replace("\r\n ", "");
        let summary = unfolded.split("\r\n").find_map(|line| line.strip_prefix("SUMMARY:")).unwrap();
        let plain =
            summary.replace("\\n", "\n").replace("\\;", ";").replace("\\,", ",").replace("\\\\", "\\");
        assert_eq!(plain, format!("{long}\nsecond line"));
    }
}
