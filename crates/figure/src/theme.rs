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
.bookahead .hatch-line{stroke:#a0568a;stroke-width:2}
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
.bookahead .hatch-line{stroke:#c987b3}
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

/// The hatching of reservations, so that they stand out without colour. Two pictures in one page may define
/// it twice: the definitions are the same.
pub(crate) const HATCH: &str = "\
<defs><pattern id=\"bookahead-hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
patternTransform=\"rotate(45)\"><rect class=\"hatch-ground\" x=\"0\" y=\"0\" width=\"6\" height=\"6\"/>\
<line class=\"hatch-line\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\"/></pattern></defs>
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
}
