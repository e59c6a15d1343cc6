//! How pictures look: sizes, colours and the style sheet, for light and dark mode.
//! The colours follow Okabe and Ito, which stay apart in every common kind of colour blindness; they are set
//! as classes and not as CSS variables, which some renderers ignore. Nothing here draws.

/// The width of every picture, in pixels.
pub(crate) const WIDTH: f64 = 960.0;
/// Room for the numbers and the label of the y axis.
pub(crate) const LEFT: f64 = 72.0;
/// Room for half of the last label of the time axis.
pub(crate) const RIGHT: f64 = 40.0;
/// The width that is left for data; also the number of pixel columns.
pub(crate) const PLOT_WIDTH: f64 = WIDTH - LEFT - RIGHT;
/// Room above the first and below the last thing drawn.
pub(crate) const MARGIN: f64 = 16.0;

/// The size of ordinary text.
pub(crate) const TEXT: f64 = 12.0;
/// The size of the picture's title.
pub(crate) const TITLE: f64 = 16.0;
/// The size of labels inside bars.
pub(crate) const SMALL: f64 = 10.0;

/// How many series have a colour of their own; further ones repeat the colours in dashes.
pub(crate) const COLOURS: usize = 7;
/// How many dash patterns there are, the unbroken line included.
pub(crate) const DASHES: usize = 3;

/// The style sheet of every picture. Its selectors start at the picture's own class, so that pictures can be
/// put into a page without restyling it.
pub(crate) const STYLE_SHEET: &str = "\
.bookahead{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-size:12px}
.bookahead text{fill:#57606a}
.bookahead .page{fill:#fff}
.bookahead .title{font-size:16px;font-weight:600;fill:#1f2328}
.bookahead .heading{font-weight:600;fill:#1f2328}
.bookahead .middle{text-anchor:middle}
.bookahead .end{text-anchor:end}
.bookahead .grid{stroke:#e6e9ed;stroke-width:1;shape-rendering:crispEdges}
.bookahead .axis{stroke:#8c959f;stroke-width:1;shape-rendering:crispEdges}
.bookahead .now{stroke:#1f2328;stroke-width:1.5;stroke-dasharray:5 3}
.bookahead .curve{fill:none;stroke:currentColor;stroke-width:1.4;stroke-linejoin:round;stroke-linecap:round}
.bookahead .area{fill:currentColor;fill-opacity:.16;stroke:none}
.bookahead .dash1{stroke-dasharray:6 3}
.bookahead .dash2{stroke-dasharray:2 3}
.bookahead .bar{fill:currentColor;stroke:#fff;stroke-width:1}
.bookahead .fine{stroke:none}
.bookahead .reservation .bar{fill:url(#bookahead-hatch);stroke:currentColor}
.bookahead .reservation .fine{stroke:none}
.bookahead .held .bar{fill-opacity:.22;stroke:currentColor;stroke-dasharray:3 2}
.bookahead .held .fine{stroke:none}
.bookahead .bar.over{fill:#b3200f;fill-opacity:1;stroke:#fff;stroke-dasharray:none}
.bookahead .label{font-size:10px;text-anchor:middle;fill:#1f2328;stroke:#fff;stroke-width:2.5;stroke-opacity:.75;\
stroke-linejoin:round;paint-order:stroke;pointer-events:none}
.bookahead .label.over{fill:#fff;stroke:none}
.bookahead .hatch-ground{fill:#f6e3ee}
.bookahead .hatch-line{stroke:currentColor;stroke-width:2}
.bookahead .column{fill:currentColor;stroke:currentColor;stroke-width:1}
.bookahead .faint1 .column{fill-opacity:.5}
.bookahead .faint2 .column{fill-opacity:.2}
.bookahead .marker{fill:currentColor;stroke:currentColor;stroke-width:1.4;stroke-dasharray:none}
.bookahead .marker.published{fill:#fff}
.bookahead .whisker{fill:none;stroke:currentColor;stroke-width:1.2;stroke-dasharray:none}
.bookahead .whisker.ink{stroke:#1f2328}
.bookahead .colour0{color:#0072b2}
.bookahead .colour1{color:#d55e00}
.bookahead .colour2{color:#009e73}
.bookahead .colour3{color:#a0568a}
.bookahead .colour4{color:#c58a00}
.bookahead .colour5{color:#3d444d}
.bookahead .colour6{color:#4aa3d8}
.bookahead .job,.bookahead .job0{color:#8fbfe0}
.bookahead .job1{color:#a9cfe9}
.bookahead .job2{color:#78aed6}
.bookahead .reservation{color:#a0568a}
.bookahead .delayed{color:#f0b93a}
.bookahead .held{color:#57606a}
@media (prefers-color-scheme:dark){
.bookahead text{fill:#9da7b3}
.bookahead .page{fill:#0d1117}
.bookahead .title,.bookahead .heading{fill:#f0f3f6}
.bookahead .grid{stroke:#262c36}
.bookahead .axis{stroke:#656d76}
.bookahead .now{stroke:#f0f3f6}
.bookahead .bar,.bookahead .bar.over{stroke:#0d1117}
.bookahead .fine{stroke:none}
.bookahead .bar.over{fill:#ff6a52}
.bookahead .label{fill:#f0f3f6;stroke:#0d1117}
.bookahead .label.over{fill:#0d1117;stroke:none}
.bookahead .hatch-ground{fill:#3a2233}
.bookahead .marker.published{fill:#0d1117}
.bookahead .whisker.ink{stroke:#f0f3f6}
.bookahead .colour0{color:#4aa8e8}
.bookahead .colour1{color:#ff8a3d}
.bookahead .colour2{color:#2fcf9f}
.bookahead .colour3{color:#e09ac6}
.bookahead .colour4{color:#f0c040}
.bookahead .colour5{color:#d0d7de}
.bookahead .colour6{color:#a5dbff}
.bookahead .job,.bookahead .job0{color:#2d6a96}
.bookahead .job1{color:#245678}
.bookahead .job2{color:#377cad}
.bookahead .reservation{color:#c987b3}
.bookahead .delayed{color:#a87a10}
.bookahead .held{color:#9da7b3}
}
";

/// Hatching, so that a reservation stands out without colour. Two pictures in one page may define it twice: the
/// definitions are the same.
pub(crate) const HATCH: &str = "\
<defs><pattern id=\"bookahead-hatch\" class=\"reservation\" width=\"6\" height=\"6\" \
patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<rect class=\"hatch-ground\" x=\"0\" y=\"0\" width=\"6\" height=\"6\"/>\
<line class=\"hatch-line\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\"/></pattern></defs>
";

/// How many shades a heatmap has.
pub(crate) const HEAT_LEVELS: usize = 11;

/// The shades of heatmaps and the numbers on them, as a style sheet of its own. More stands further from the
/// page: darker on white, lighter on black. One hue, ever darker, is plain to every kind of eye; between the
/// shades with dark and those with light numbers is a leap, so that all numbers are legible.
pub(crate) const HEAT_STYLE: &str = "\
<style>
.bookahead .cell{stroke:#fff;stroke-width:2}
.bookahead .absent{fill:none;stroke:#d0d7de;stroke-width:1;stroke-dasharray:3 2}
.bookahead .heat0{fill:#eef3f9}
.bookahead .heat1{fill:#dde8f3}
.bookahead .heat2{fill:#c9dcee}
.bookahead .heat3{fill:#b1cde6}
.bookahead .heat4{fill:#8bb4d9}
.bookahead .heat5{fill:#649ac9}
.bookahead .heat6{fill:#3b7ab3}
.bookahead .heat7{fill:#286aa5}
.bookahead .heat8{fill:#1b5890}
.bookahead .heat9{fill:#104777}
.bookahead .heat10{fill:#08345c}
.bookahead .on-heat0,.bookahead .on-heat1,.bookahead .on-heat2,.bookahead .on-heat3,.bookahead .on-heat4,.bookahead .on-heat5{fill:#1f2328}
.bookahead .on-heat6,.bookahead .on-heat7,.bookahead .on-heat8,.bookahead .on-heat9,.bookahead .on-heat10{fill:#fff}
@media (prefers-color-scheme:dark){
.bookahead .cell{stroke:#0d1117}
.bookahead .absent{stroke:#3d444d}
.bookahead .heat0{fill:#1b2430}
.bookahead .heat1{fill:#1c3147}
.bookahead .heat2{fill:#1d3f60}
.bookahead .heat3{fill:#204e79}
.bookahead .heat4{fill:#275f92}
.bookahead .heat5{fill:#3171aa}
.bookahead .heat6{fill:#4f8fc6}
.bookahead .heat7{fill:#70a8d8}
.bookahead .heat8{fill:#93c0e6}
.bookahead .heat9{fill:#b7d7f2}
.bookahead .heat10{fill:#dcecfa}
.bookahead .on-heat0,.bookahead .on-heat1,.bookahead .on-heat2,.bookahead .on-heat3,.bookahead .on-heat4,.bookahead .on-heat5{fill:#f0f3f6}
.bookahead .on-heat6,.bookahead .on-heat7,.bookahead .on-heat8,.bookahead .on-heat9,.bookahead .on-heat10{fill:#0d1117}
}
</style>
";

/// A generous guess at how wide `text` is drawn: without fonts to measure, better too wide than overlapping.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(|character| width_in_em(character) * size).sum()
}

fn width_in_em(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.4,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
        'A'..='Z' => 0.72,
        '\u{1100}'.. => 1.0,
        _ => 0.6,
    }
}

/// As much of `text` as fits into `width`, with an ellipsis where something had to go.
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
