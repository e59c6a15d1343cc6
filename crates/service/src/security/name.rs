//! Names of users: one rule for tokens, `Bookahead-User`, certificates and configurations. Names that look the same
//! in a list or a log must be the same user, so invisible characters are refused.

use bookahead_protocol::Name;

/// Longest name in characters: longer than any account or mail address.
const LONGEST_NAME: usize = 255;

/// A user name: 1 to 255 visible characters. `None` for other texts.
pub fn user_name(text: &str) -> Option<Name> {
    // Counts no further than necessary: the text comes from a caller and may be long.
    let fits = !text.is_empty() && text.chars().take(LONGEST_NAME + 1).count() <= LONGEST_NAME;
    (fits && text.chars().all(is_visible)).then(|| Name::from(text))
}

/// Whether a character is visible and does not change the text direction.
pub(crate) fn is_visible(character: char) -> bool {
    !character.is_control()
        && !character.is_whitespace()
        && !is_ignorable(character)
        && !is_blank(character)
        && !has_no_meaning(character)
}

/// Default_Ignorable_Code_Point of Unicode 16: joiners, selectors, fillers, tags, and direction marks.
fn is_ignorable(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Other characters without ink: annotation marks, blanks of Braille, music and Khitan, and controls of
/// hieroglyphs.
fn is_blank(character: char) -> bool {
    matches!(character, '\u{70f}' | '\u{2800}' | '\u{fff9}'..='\u{fffc}' | '\u{13430}'..='\u{1343f}' | '\u{16fe4}'
        | '\u{1d159}')
}

/// Private use and noncharacters: their appearance depends on the font.
fn has_no_meaning(character: char) -> bool {
    // The last two code points of each plane are noncharacters, hence the mask.
    matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}' | '\u{f0000}'..)
        || character as u32 & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_of_characters_that_can_be_seen() {
        for name in
            ["ada", "grün", "ada@example.org", "a.b-c_d+e", "李雷", "अदा", "আদা", "שרה", "é", "e\u{301}", "😀"]
        {
            assert!(user_name(name).is_some(), "{name:?}");
        }
        let invisible = "\u{0}\u{7f}\u{85}\u{a0}\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}\u{1680}\u{17b4}\u{17b5}\u{180b}\u{180e}\
            \u{180f}\u{2003}\u{200b}\u{200d}\u{200e}\u{2028}\u{202e}\u{2060}\u{2066}\u{206f}\u{2800}\u{3000}\u{3164}\
            \u{e000}\u{f8ff}\u{fdd0}\u{fe00}\u{fe0f}\u{feff}\u{ffa0}\u{fff0}\u{fff9}\u{fffc}\u{fffe}\u{13430}\u{1bca0}\u{1d159}\
            \u{1d173}\u{1d17a}\u{1fffe}\u{e0001}\u{e0061}\u{e0100}\u{e01ef}\u{e0fff}\u{f0000}\u{10ffff}";
        for character in invisible.chars() {
            for name in [format!("{character}"), format!("ada{character}"), format!("{character}ada")] {
                assert!(user_name(&name).is_none(), "{name:?}");
            }
        }
    }
}
