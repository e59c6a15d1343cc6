//! Sizes, colours and the style sheet, for light and dark mode. The colours are those of Okabe and Ito, which are
//! distinct with every common kind of colour blindness. They are CSS classes and not CSS variables, which some
//! renderers ignore.

/// Standard width of a picture, in pixels.
pub(crate) const WIDTH: f64 = 960.0;
/// Space for the numbers and the label of the y axis, in pixels.
pub(crate) const LEFT: f64 = 72.0;
/// Space for half of the last label of the time axis, in pixels.
pub(crate) const RIGHT: f64 = 40.0;
/// Width of the plot, which is also the number of pixel columns.
pub(crate) const PLOT_WIDTH: f64 = WIDTH - LEFT - RIGHT;
/// Space above the first and below the last element, in pixels.
pub(crate) const MARGIN: f64 = 16.0;

/// Font size of ordinary text, in pixels.
pub(crate) const TEXT: f64 = 12.0;
/// Font size of the title, in pixels.
pub(crate) const TITLE: f64 = 16.0;
/// Font size of labels inside bars, in pixels.
pub(crate) const SMALL: f64 = 10.0;

/// Number of colours of series; further series repeat them with dashes.
pub(crate) const COLOURS: usize = 7;
/// Number of dash patterns, including the solid line.
pub(crate) const DASHES: usize = 3;

/// The style sheet of every picture. Its selectors start with the class of the picture, so that embedding pictures in a
/// page does not change the style of the page.
pub(crate) const STYLE_SHEET: &str = include_str!("css/theme.css");

/// Hatching, so that reservations are visible without colour. Several pictures in one page may define it, because the
/// definitions are the same.
pub(crate) const HATCH: &str = "\
<defs><pattern id=\"bookahead-hatch\" class=\"reservation\" width=\"6\" height=\"6\" \
patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<rect class=\"hatch-ground\" x=\"0\" y=\"0\" width=\"6\" height=\"6\"/>\
<line class=\"hatch-line\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\"/></pattern></defs>
";

/// Number of shades of a heatmap.
pub(crate) const HEAT_LEVELS: usize = 11;

/// The style sheet for the shades of heatmaps and the numbers on them. Larger values contrast more with the page:
/// darker on white, lighter on black. A single hue is clear with any kind of colour vision. There is a jump between the
/// shades with dark and those with light numbers, so that all numbers are legible.
pub(crate) const HEAT_STYLE: &str = include_str!("css/heat.css");

/// An upper estimate of the width of `text` in pixels. Fonts are not available for measuring, and too wide is better
/// than overlapping.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(|character| width_in_em(character) * size).sum()
}

fn width_in_em(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.4,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
        'A'..='Z' => 0.72,
        // Wide scripts begin with Hangul. Narrower symbols above it get too much space, which does no harm.
        '\u{1100}'.. => 1.0,
        _ => 0.6,
    }
}

/// Cuts `text` to `width` pixels, with an ellipsis if it was cut.
pub(crate) fn fit(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut room = width - text_width("…", size);
    for character in text.chars() {
        room -= width_in_em(character) * size;
        if room < 0.0 {
            break;
        }
        kept.push(character);
    }
    // A blank before the ellipsis would look like the end of a sentence.
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_to_fit() {
        assert_eq!(fit("short", TEXT, 100.0), "short");
        let cut = fit(&"long ".repeat(100), TEXT, 100.0);
        assert!(cut.ends_with("long…") || cut.ends_with('…'));
        assert!(text_width(&cut, TEXT) <= 100.0);
        assert_eq!(fit("anything", TEXT, -5.0), "…");
    }

    /// The relative luminance of a colour, as the Web Content Accessibility Guidelines define it.
    fn luminance(hex: &str) -> f64 {
        let full = if hex.len() == 3 {
            hex.chars().flat_map(|digit| [digit, digit]).collect()
        } else {
            hex.to_owned()
        };
        let part = |from: usize| {
            let share = f64::from(u8::from_str_radix(&full[from..from + 2], 16).unwrap()) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
    }

    fn fill_of(sheet: &str, class: &str) -> f64 {
        let rule = sheet.lines().find(|line| line.split(['{', ',']).any(|part| part == class)).unwrap();
        luminance(rule.split_once("fill:#").unwrap().1.trim_end_matches('}'))
    }

    #[test]
    fn numbers_on_every_shade_are_legible_in_both_modes() {
        let (light, dark) = HEAT_STYLE.split_once("@media").unwrap();
        for (sheet, more_is_darker) in [(light, true), (dark, false)] {
            let shades: Vec<f64> =
                (0..HEAT_LEVELS).map(|level| fill_of(sheet, &format!(".bookahead .heat{level}"))).collect();
            assert!(shades.is_sorted_by(|a, b| (a > b) == more_is_darker), "{shades:?}");
            for (level, shade) in shades.into_iter().enumerate() {
                let text = fill_of(sheet, &format!(".bookahead .on-heat{level}"));
                let contrast = (shade.max(text) + 0.05) / (shade.min(text) + 0.05);
                assert!(contrast >= 4.5, "shade {level}: {contrast}");
            }
        }
    }
}
