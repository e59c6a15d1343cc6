//! Complete pictures are well-formed, reproducible and of bounded size for any values. Uses a small XML checker; the
//! appearance is not tested.

use bookahead_figure::{
    Bar, BarKind, BarSeries, BarValue, Bars, Chart, Clock, Gantt, Heatmap, Join, LinePoint, LineSeries,
    Lines, MAX_BARS, MAX_COLUMNS, MAX_GROUPS, MAX_MARKERS, MAX_PANELS, MAX_PARTIES, MAX_RECTANGLES, MAX_ROWS,
    MAX_SEQUENCE_ROWS, MessageStyle, Multiples, POINTS_PER_COLUMN, Panel, Port, Row, Sequence, Series, Side,
    StateDiagram, StateEdge, StateNode, Style,
};
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use proptest::prelude::*;

/// The first error in `svg`, if any: unbalanced tags, attributes without quotes, unescaped markup in text, invalid
/// numbers.
fn fault(svg: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let (text, from_tag) = rest.split_at(start);
        let Some(end) = from_tag.find('>') else { return Some("a tag without an end".into()) };
        let tag = &from_tag[1..end];
        if text.contains('>') || !entities_are_known(text) {
            return Some(format!("bare markup in {text:?}"));
        }
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(format!("</{name}> closes something else"));
            }
        } else {
            let name = tag.split([' ', '/']).next().unwrap_or("");
            if let Some(fault) = attribute_fault(tag.strip_suffix('/').unwrap_or(tag), name) {
                return Some(fault);
            }
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        rest = &from_tag[end + 1..];
    }
    (!open.is_empty() || !rest.trim().is_empty()).then(|| format!("left open: {open:?}"))
}

fn attribute_fault(tag: &str, name: &str) -> Option<String> {
    let mut rest = tag[name.len()..].trim();
    while !rest.is_empty() {
        let Some((key, quoted)) = rest.split_once("=\"") else { return Some(format!("no value in {tag:?}")) };
        let Some((value, after)) = quoted.split_once('"') else {
            return Some(format!("no quote in {tag:?}"));
        };
        let words = value.contains("NaN") || value.contains("inf") || value.contains("e+");
        if words || !entities_are_known(value) || key.contains(char::is_whitespace) {
            return Some(format!("{key} is {value:?} in {tag:?}"));
        }
        rest = after.trim();
    }
    None
}

fn entities_are_known(text: &str) -> bool {
    let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
    text.split('&').skip(1).all(|after| known.iter().any(|entity| after.starts_with(entity)))
}

fn assert_sound(svg: &str) {
    assert_eq!(fault(svg), None, "{svg}");
    for needed in ["role=\"img\"", "<title>", "<desc>", "prefers-color-scheme"] {
        assert!(svg.contains(needed), "{needed} is missing");
    }
    for external in ["href", "<script", "<image", "@import"] {
        assert!(!svg.contains(external), "{external} reaches outside");
    }
}

fn chart(points: &[(Time, f64)]) -> Chart {
    let panels = [Style::Step, Style::Area]
        .map(|style| Panel::new("Backlog", "hours", vec![Series::new("easy", style, points.to_vec())]));
    Chart::new("Chart", panels.to_vec())
}

/// Extreme values.
const ODD: [f64; 9] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -0.0, 3.0];

fn lines(points: &[LinePoint]) -> Lines {
    let ours = LineSeries::new("easy", points.to_vec());
    let theirs = LineSeries { dashed: true, ..ours.clone() };
    Lines::new("Lines", "processors", "seconds", vec![ours, theirs])
}

fn multiples(points: &[LinePoint], panels: usize) -> Multiples {
    let panel = |index: usize| (format!("panel {index}"), lines(points).series);
    Multiples::new(lines(points), 3, (0..panels).map(panel).collect())
}

fn bars(values: &[Option<BarValue>]) -> Bars {
    let series = ["easy", "fcfs"].map(|name| BarSeries::new(name, values.to_vec())).to_vec();
    let groups = (0..values.len()).map(|index| format!("group {index}")).collect();
    Bars::new("Bars", "seconds", groups, series)
}

fn heatmap(cells: &[Vec<Option<f64>>]) -> Heatmap {
    let columns = cells.iter().map(Vec::len).max().unwrap_or(0);
    let names = |count: usize| (0..count).map(|index| format!("name {index}")).collect();
    Heatmap { cells: cells.to_vec(), ..Heatmap::new("Heatmap", names(columns), names(cells.len())) }
}

fn bar(begin: i64, end: i64, capacity: u32, kind: BarKind) -> Bar {
    let interval = Interval::new(Time(begin), Time(end));
    Bar { interval, capacity: Capacity(capacity), label: "j1".to_owned(), kind }
}

#[test]
fn the_checker_finds_faults() {
    for wrong in
        ["<a>", "<a></b>", "<a b=c/>", "<a b=\"NaN\"/>", "<a>x & y</a>", "</a>", "<a b=\"x/>", "text"]
    {
        assert!(fault(wrong).is_some(), "{wrong}");
    }
    assert_eq!(fault("<a b=\"1\">x &amp; y<c/></a>"), None);
}

#[test]
fn nothing_makes_a_picture_too() {
    assert_sound(&Chart::default().to_svg());
    assert_sound(&chart(&[]).to_svg());
    assert_sound(&Chart::new("", vec![Panel::default()]).to_svg());
    assert_sound(&Lines::default().to_svg());
    assert_sound(&Lines { x_log: true, y_log: true, ..lines(&[]) }.to_svg());
    assert_sound(&Multiples::default().to_svg());
    assert_sound(&multiples(&[], 4).to_svg());
    assert_sound(&Lines::new("", "", "", vec![LineSeries::distribution("none", &[f64::NAN])]).to_svg());
    assert_sound(&Bars::default().to_svg());
    assert_sound(&bars(&[]).to_svg());
    assert_sound(&bars(&[None, None]).to_svg());
    assert_sound(&Heatmap::default().to_svg());
    assert_sound(&heatmap(&[vec![], vec![None]]).to_svg());
    assert_sound(&Gantt::new("", Capacity(0), vec![]).to_svg());
    assert_sound(&Gantt::new("Idle", Capacity(128), vec![bar(5, 5, 3, BarKind::Job)]).to_svg());
}

#[test]
fn one_point_and_odd_values_are_drawn() {
    assert_sound(&chart(&[(Time(7), 3.0)]).to_svg());
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE, -0.0];
    let times = [Time::MIN, Time(-1), Time(0), Time(1), Time::MAX, Time(i64::MAX - 1), Time(0)];
    let points: Vec<_> = times.into_iter().zip(odd).collect();
    for maximum in odd {
        let mut chart = chart(&points);
        chart.panels[0].maximum = Some(maximum);
        assert_sound(&chart.to_svg());
        chart.range = Some(Interval::new(Time::MIN, Time::MAX));
        chart.clock = Clock::Utc { unix_of_zero: i64::MAX };
        assert_sound(&chart.to_svg());
    }
}

#[test]
fn odd_numbers_are_drawn() {
    let pairs = || ODD.into_iter().flat_map(|a| ODD.map(|b| (a, b)));
    let points: Vec<_> = pairs().map(|(x, y)| LinePoint { x, y, margin: Some(x) }).collect();
    let values: Vec<_> =
        pairs().map(|(value, margin)| Some(BarValue { value, margin: Some(margin) })).collect();
    let cells: Vec<_> = ODD.map(|odd| vec![Some(odd), None, Some(1.0)]).to_vec();
    for (odd, other) in pairs() {
        let y_maximum = Some(odd);
        assert_sound(&Lines { y_maximum, ..lines(&points) }.to_svg());
        assert_sound(&Lines { y_maximum, x_log: true, ..lines(&points) }.to_svg());
        let alone = lines(&[LinePoint { x: odd, y: other, margin: Some(odd) }]);
        assert_sound(&Lines { y_log: true, ..alone }.to_svg());
        for x_log in [false, true] {
            let covers = Some((odd, other));
            assert_sound(&Lines { x_covers: covers, y_covers: covers, x_log, ..lines(&points) }.to_svg());
        }
        assert_sound(&lines(&[LinePoint { x: odd, y: other, margin: Some(other) }]).to_svg());
        assert_sound(&bars(&[Some(BarValue { value: odd, margin: Some(other) })]).to_svg());
        assert_sound(&Heatmap { range: Some((odd, other)), ..heatmap(&cells) }.to_svg());
        assert_sound(&heatmap(&[vec![Some(odd), Some(other)]]).to_svg());
    }
    assert_sound(&bars(&values).to_svg());
    assert_sound(&Lines { y_log: true, ..lines(&points) }.to_svg());
}

#[test]
fn a_logarithmic_y_axis_has_powers_of_ten_and_leaves_zero_out() {
    let at = |x: f64, y: f64, margin: f64| LinePoint { x, y, margin: Some(margin) };
    let points = [at(1.0, 0.1, 0.01), at(2.0, 0.0, 0.0), at(3.0, 30.0, 40.0)];
    let svg = Lines { y_log: true, ..lines(&points) }.to_svg();
    for number in ["0.1", "1", "10", "100"] {
        assert!(svg.contains(&format!(">{number}</text>")), "{number}: {svg}");
    }
    // Two points of each of the two series; the whisker that would reach below zero ends at the edge.
    assert_eq!(svg.matches("class=\"point\"").count(), 4, "{svg}");
}

#[test]
fn an_axis_covers_the_range_of_the_paper() {
    let few =
        lines(&[LinePoint { x: 10.0, y: 2.0, margin: None }, LinePoint { x: 20.0, y: 3.0, margin: None }]);
    let label = |svg: &str, number: &str| svg.contains(&format!(">{number}</text>"));
    let ours = few.to_svg();
    assert!(!label(&ours, "160") && !label(&ours, "40"), "{ours}");
    let covering = Lines { x_covers: Some((0.0, 160.0)), y_covers: Some((0.0, 40.0)), ..few }.to_svg();
    assert!(label(&covering, "160") && label(&covering, "40"), "{covering}");
}

#[test]
fn points_of_a_paper_have_markers_and_no_line() {
    let ours = LineSeries::new("wait", vec![LinePoint { x: 1.0, y: 5.0, margin: None }]);
    let paper = LineSeries::published("wait", [(1.0, 20.0), (2.0, 71.0)]);
    let svg = Lines::new("Waits", "%", "minutes", vec![ours, paper]).to_svg();
    assert!(svg.contains(">wait (published)</text>") && svg.contains("<title>wait, 2: 71</title>"), "{svg}");
    // The curve of our own series, and its sample in the legend.
    assert_eq!(svg.matches("class=\"curve ").count(), 2, "{svg}");
    let bars = vec![
        BarSeries::new("wait", vec![Some(BarValue { value: 5.0, margin: None }), None]),
        BarSeries::published("wait", [Some(20.0), None]),
    ];
    let svg = Bars::new("Waits", "minutes", vec!["10%".to_owned(), "20%".to_owned()], bars).to_svg();
    assert!(svg.contains("<title>10%, wait (published): 20</title>"), "{svg}");
    assert_eq!(svg.matches("faint0 published").count(), 2, "bars and legend: {svg}");
}

#[test]
fn a_distribution_counts_equal_values_together() {
    let curve = LineSeries::distribution("waits", &[4.0, 1.0, f64::NAN, 1.0, 2.0]);
    assert_eq!(curve.join, Join::Steps);
    let points: Vec<_> = curve.points.iter().map(|point| (point.x, point.y)).collect();
    assert_eq!(points, [(1.0, 0.0), (1.0, 50.0), (2.0, 75.0), (4.0, 100.0)]);
    let svg =
        Lines::new("Waits", "s", "%", vec![curve.clone(), LineSeries { name: "b".into(), ..curve }]).to_svg();
    assert!(svg.contains(">waits</text>") && !svg.contains("class=\"marker"), "{svg}");
}

#[test]
fn small_multiples_share_axes_and_legend() {
    let point = |x, y| LinePoint { x, y, margin: None };
    let svg = multiples(&[point(1.0, 10.0), point(5.0, 50.0)], 5).to_svg();
    assert_sound(&svg);
    assert_eq!(svg.matches("class=\"heading\"").count(), 5);
    // The numbers of the y axis in both rows, those of the x axis below each of the three columns.
    assert_eq!(svg.matches(">50</text>").count(), 2, "{svg}");
    assert_eq!(svg.matches(">3</text>").count(), 3, "{svg}");
    assert_eq!(svg.matches(">easy (published)</text>").count(), 1);
    assert!(multiples(&[], 50).to_svg().contains(&format!("showing the first {MAX_PANELS} of 50 panels")));
}

#[test]
fn every_value_is_written() {
    let point = |x, y| LinePoint { x, y, margin: Some(0.25) };
    let svg = lines(&[point(8.0, 1.0), point(2.0, 4.0)]).to_svg();
    assert!(svg.contains("<title>easy, 8: 1 ± 0.25</title>"), "{svg}");
    assert!(svg.contains(">easy</text>") && svg.contains(">easy (published)</text>"));
    let svg = bars(&[Some(BarValue { value: -1234.5, margin: None }), None]).to_svg();
    assert!(svg.contains("<title>group 0, easy: -1,234</title>"), "{svg}");
    assert_eq!(svg.matches("class=\"value\"").count(), 2);
    let map = Heatmap { unit: "%".to_owned(), ..heatmap(&[vec![Some(97.0), Some(3.0)], vec![None]]) };
    let svg = Heatmap { range: Some((0.0, 100.0)), ..map }.to_svg();
    assert!(svg.contains("<title>name 0, name 0: 97 %</title>") && svg.contains(">97</text>"), "{svg}");
    assert_eq!(svg.matches("<title>name 1, name 1: no value</title>").count(), 1);
    assert!(svg.contains(">0 %</text>") && svg.contains(">100 %</text>") && svg.contains(">no value</text>"));
}

#[test]
fn huge_bars_are_drawn() {
    let all = [BarKind::Job, BarKind::Reservation, BarKind::Delayed, BarKind::Held];
    let bars: Vec<Bar> = all.map(|kind| bar(i64::MIN, i64::MAX, u32::MAX, kind)).to_vec();
    for machine in [0, 1, 100, u32::MAX] {
        let mut gantt = Gantt::new("Huge", Capacity(machine), bars.clone());
        gantt.now = Some(Time::MAX);
        assert_sound(&gantt.to_svg());
        gantt.range = Some(Interval::new(Time::MAX, Time::MIN));
        assert_sound(&gantt.to_svg());
        gantt.range = Some(Interval::new(Time::MIN, Time::MAX));
        assert_sound(&gantt.to_svg());
        assert!(gantt.to_svg().contains("overbooked by up to"));
    }
}

#[test]
fn text_cannot_leave_its_place() {
    let nasty = "</title><script>\"'&\0\u{b}]]>\u{202e}";
    let mut gantt = Gantt::new(nasty, Capacity(4), vec![bar(0, 1000, 4, BarKind::Held)]);
    gantt.bars[0].label = nasty.to_owned();
    gantt.unit = nasty.to_owned();
    assert_sound(&gantt.to_svg());
    let mut chart = chart(&[(Time(0), 1.0), (Time(9), 2.0)]);
    chart.title = nasty.to_owned();
    for panel in &mut chart.panels {
        panel.title = nasty.to_owned();
        panel.y_label = nasty.to_owned();
        panel.series.push(Series::new(nasty, Style::Step, vec![(Time(0), 1.0)]));
    }
    assert_sound(&chart.to_svg());
}

#[test]
fn numbers_keep_nasty_names_in_their_place() {
    let nasty = || "</title><script>\"'&\0\u{b}]]>\u{202e} ".repeat(9);
    let point = LinePoint { x: 1.0, y: 2.0, margin: Some(0.5) };
    let series = vec![LineSeries { dashed: true, ..LineSeries::new(nasty(), vec![point]) }];
    assert_sound(&Lines::new(nasty(), nasty(), nasty(), series).to_svg());
    let values = vec![Some(BarValue { value: 1.0, margin: None })];
    let series = vec![BarSeries::new(nasty(), values)];
    assert_sound(&Bars::new(nasty(), nasty(), vec![nasty()], series).to_svg());
    let map = Heatmap::new(nasty(), vec![nasty()], vec![nasty()]);
    let cells = vec![vec![Some(1.5)]];
    assert_sound(&Heatmap { x_label: nasty(), y_label: nasty(), unit: nasty(), cells, ..map }.to_svg());
}

#[test]
fn the_kinds_in_use_are_in_the_legend() {
    let bars = vec![bar(0, 9, 1, BarKind::Job), bar(0, 9, 1, BarKind::Reservation)];
    let svg = Gantt::new("Two", Capacity(4), bars).to_svg();
    assert!(svg.contains(">job</text>") && svg.contains(">reservation</text>"));
    assert!(!svg.contains(">delayed job</text>") && !svg.contains(">overbooked</text>"));
    assert!(svg.contains("<title>job j1, 0 d 00:00:00 to 0 d 00:00:09, processors: 1</title>"), "{svg}");
}

#[test]
fn pictures_of_long_logs_stay_small() {
    let points: Vec<_> = (0..200_000).map(|i| (Time(i), (i * 7919 % 1009) as f64)).collect();
    let svg = chart(&points).to_svg();
    let longest_command = "L1000.5 1000.5".len();
    assert!(svg.len() < 4 * 960 * POINTS_PER_COLUMN * longest_command, "{} bytes", svg.len());

    let jobs: Vec<_> = (0..10_000).map(|i| bar(i * 10, i * 10 + 10 + i % 7, 2, BarKind::Job)).collect();
    let svg = Gantt::new("Many", Capacity(8), jobs).to_svg();
    assert!(svg.contains(&format!("showing the largest {MAX_BARS} of 10000 jobs and reservations")));
    assert!(svg.matches("<path").count() <= MAX_BARS);
}

#[test]
fn pictures_of_many_numbers_stay_small() {
    let points: Vec<_> = (0..50_000)
        .map(|i| LinePoint { x: f64::from(i), y: f64::from(i % 997), margin: Some(1.0) })
        .collect();
    assert!(lines(&points).to_svg().len() < 3 * 960 * POINTS_PER_COLUMN * "L1000.5 1000.5".len());
    let markers = |count| lines(&points[..count]).to_svg().matches("class=\"point\"").count();
    assert_eq!((markers(MAX_MARKERS), markers(MAX_MARKERS + 1)), (2 * MAX_MARKERS, 0));
    let svg = bars(&vec![Some(BarValue { value: 1.0, margin: None }); 5000]).to_svg();
    assert!(svg.contains("showing the first 100 of 5000 groups"));
    assert_eq!(svg.matches("class=\"value\"").count(), 2 * MAX_GROUPS);
    let svg = heatmap(&vec![vec![Some(1.0); 500]; 300]).to_svg();
    assert!(svg.contains("showing the first 60 of 300 rows; showing the first 60 of 500 columns"));
    assert_eq!(svg.matches("class=\"value\"").count(), MAX_ROWS * MAX_COLUMNS);
}

#[test]
fn scattered_bars_are_bounded_too() {
    let held = (0..2000).flat_map(|i| [bar(0, 10, 1, BarKind::Job), bar(0, 100 + i, 1, BarKind::Job)]);
    let scattered = (0..20).map(|i| bar(10 + i, 11 + i, 2000, BarKind::Delayed));
    let svg = Gantt::new("Scattered", Capacity(4000), held.chain(scattered).collect()).to_svg();
    assert_sound(&svg);
    assert!(svg.contains("showing the largest"));
    assert!(svg.matches('M').count() <= MAX_RECTANGLES + 100);
}

#[test]
fn diagrams_of_nothing_are_drawn_and_long_sequences_are_bounded() {
    assert_sound(&Sequence::default().to_svg());
    assert_sound(&StateDiagram::default().to_svg());
    let rows = (0..MAX_SEQUENCE_ROWS as i64 + 9).map(|at| Row::Note { party: 0, label: "n".to_owned(), at });
    let parties = vec!["p".to_owned(); MAX_PARTIES + 1];
    let many = Sequence { title: "Many".to_owned(), parties, rows: rows.collect() };
    let svg = many.to_svg();
    assert_sound(&svg);
    assert!(svg.contains("showing the first 24 of 25 parties; showing the first 2000 of 2009 rows"));
    assert_eq!(svg.matches("class=\"note-box\"").count(), MAX_SEQUENCE_ROWS);
}

fn any_row() -> impl Strategy<Value = Row> {
    let style = prop_oneof![
        Just(MessageStyle::Call),
        Just(MessageStyle::Answer),
        Just(MessageStyle::Lost),
        Just(MessageStyle::Duplicate)
    ];
    let message = (0..5_usize, 0..5_usize, ".*", any::<i64>(), any::<Option<i64>>(), style).prop_map(
        |(from, to, label, sent, arrived, style)| Row::Message { from, to, label, sent, arrived, style },
    );
    let groups = proptest::collection::vec(proptest::collection::vec(0..6_usize, 0..4), 0..4);
    prop_oneof![
        4 => message,
        1 => (0..5_usize, ".*", any::<i64>()).prop_map(|(party, label, at)| Row::Note { party, label, at }),
        1 => (0..5_usize, any::<i64>()).prop_map(|(party, at)| Row::Crash { party, at }),
        1 => (0..5_usize, any::<i64>()).prop_map(|(party, at)| Row::Restart { party, at }),
        1 => (groups, any::<i64>()).prop_map(|(groups, at)| Row::Partition { groups, at }),
        1 => any::<i64>().prop_map(|at| Row::Heal { at }),
    ]
}

fn any_state() -> impl Strategy<Value = StateNode> {
    ("[a-d]?.*", any::<bool>(), any::<bool>(), any::<u8>(), any::<u8>())
        .prop_map(|(name, over, start, column, row)| StateNode { name, over, start, column, row })
}

fn any_port() -> impl Strategy<Value = Port> {
    let side = prop_oneof![Just(Side::Left), Just(Side::Right), Just(Side::Top), Just(Side::Bottom)];
    (side, any::<f64>())
}

fn any_bar() -> impl Strategy<Value = Bar> {
    let kind = prop_oneof![
        Just(BarKind::Job),
        Just(BarKind::Reservation),
        Just(BarKind::Delayed),
        Just(BarKind::Held)
    ];
    (any::<i64>(), any::<i64>(), 0..100_u32, ".*", kind).prop_map(|(begin, length, capacity, label, kind)| {
        let interval = Interval::starting(Time(begin), Seconds(length));
        Bar { interval, capacity: Capacity(capacity), label, kind }
    })
}

fn any_clock() -> impl Strategy<Value = Clock> {
    prop_oneof![
        Just(Clock::SinceStart),
        any::<i64>().prop_map(|start| Clock::Since(Time(start))),
        any::<i64>().prop_map(|unix_of_zero| Clock::Utc { unix_of_zero }),
    ]
}

fn any_range() -> impl Strategy<Value = Option<Interval>> {
    proptest::option::of(any::<(i64, i64)>().prop_map(|(begin, end)| Interval::new(Time(begin), Time(end))))
}

proptest! {
    #![proptest_config(bookahead_tests::cases::cases(256))]

    #[test]
    fn any_schedule_makes_one_sound_picture(
        bars in proptest::collection::vec(any_bar(), 0..40),
        machine in 0..500_u32, clock in any_clock(), range in any_range(), now in any::<Option<i64>>(),
    ) {
        let now = now.map(Time);
        let gantt = Gantt { clock, range, now, ..Gantt::new("Any", Capacity(machine), bars) };
        let svg = gantt.to_svg();
        prop_assert_eq!(fault(&svg), None);
        prop_assert_eq!(gantt.to_svg(), svg);
    }

    #[test]
    fn any_sequence_makes_one_sound_picture_and_text(
        rows in proptest::collection::vec(any_row(), 0..40),
        parties in proptest::collection::vec(".*", 0..5), title in ".*",
    ) {
        let sequence = Sequence { title, parties, rows };
        let svg = sequence.to_svg();
        prop_assert_eq!(fault(&svg), None);
        prop_assert_eq!(sequence.to_svg(), svg);
        prop_assert_eq!(sequence.to_text(), sequence.to_text());
    }

    #[test]
    fn any_states_make_one_sound_picture(
        states in proptest::collection::vec(any_state(), 0..6),
        links in proptest::collection::vec(
            (0..6_usize, ".*", 0..6_usize, any_port(), any_port(), any::<f64>()), 0..8), title in ".*",
    ) {
        let name = |place: usize| states.get(place).map_or_else(String::new, |state| state.name.clone());
        let edge = |(from, label, to, leave, arrive, label_at)| {
            StateEdge { from: name(from), label, to: name(to), leave, arrive, label_at }
        };
        let moves = links.into_iter().map(edge).collect();
        let diagram = StateDiagram { title, states: states.clone(), moves };
        let svg = diagram.to_svg();
        prop_assert_eq!(fault(&svg), None);
        prop_assert_eq!(diagram.to_svg(), svg);
    }

    #[test]
    fn any_series_makes_one_sound_picture(
        points in proptest::collection::vec((any::<i64>().prop_map(Time), any::<f64>()), 0..60),
        clock in any_clock(), range in any_range(), title in ".*",
    ) {
        let chart = Chart { clock, range, title, ..chart(&points) };
        let svg = chart.to_svg();
        prop_assert_eq!(fault(&svg), None);
        prop_assert_eq!(chart.to_svg(), svg);
    }

    #[test]
    fn any_numbers_make_sound_pictures(
        numbers in proptest::collection::vec(any::<(f64, f64, Option<f64>)>(), 0..40),
        maximum in any::<Option<f64>>(), range in any::<Option<(f64, f64)>>(), x_log in any::<bool>(),
    ) {
        let points: Vec<_> = numbers.iter().map(|&(x, y, margin)| LinePoint { x, y, margin }).collect();
        let lines = Lines { x_log, y_maximum: maximum, ..lines(&points) };
        prop_assert_eq!(fault(&lines.to_svg()), None);
        prop_assert_eq!(lines.to_svg(), lines.to_svg());
        let values: Vec<f64> = points.iter().map(|point| point.x).collect();
        let panels = vec![
            ("waits".to_owned(), vec![LineSeries::distribution("waits", &values)]),
            ("points".to_owned(), vec![LineSeries::published("points", values.iter().map(|&x| (x, x)))]),
        ];
        let multiples = Multiples::new(Lines { x_covers: range, y_covers: range, ..lines }, numbers.len(), panels);
        prop_assert_eq!(fault(&multiples.to_svg()), None);
        let values: Vec<_> = numbers.iter().map(|&(value, _, margin)| Some(BarValue { value, margin })).collect();
        prop_assert_eq!(fault(&bars(&values).to_svg()), None);
        prop_assert_eq!(bars(&values).to_svg(), bars(&values).to_svg());
        let cells: Vec<_> = numbers.iter().map(|&(a, b, c)| vec![Some(a), c, Some(b)]).collect();
        let map = Heatmap { range, ..heatmap(&cells) };
        prop_assert_eq!(fault(&map.to_svg()), None);
        prop_assert_eq!(map.to_svg(), map.to_svg());
    }

    #[test]
    fn any_names_make_sound_pictures(
        names in proptest::collection::vec(".*", 0..30), title in ".*", x_label in ".*", unit in ".*",
    ) {
        let value = |index: usize| Some(BarValue { value: index as f64, margin: Some(1.0) });
        let values: Vec<_> = (0..names.len()).map(value).collect();
        let series: Vec<_> = names.iter().map(|name| BarSeries::new(name, values.clone())).collect();
        let bars = Bars::new(&title, &x_label, names.clone(), series);
        prop_assert_eq!(fault(&bars.to_svg()), None);
        let points = vec![LinePoint { x: 1.0, y: 2.0, margin: None }];
        let series: Vec<_> = names.iter().map(|name| LineSeries::new(name, points.clone())).collect();
        prop_assert_eq!(fault(&Lines::new(&title, &x_label, &unit, series).to_svg()), None);
        let cells = vec![vec![Some(1.5), None]; names.len()];
        let map = Heatmap { cells, x_label, unit, ..Heatmap::new(title, names.clone(), names) };
        prop_assert_eq!(fault(&map.to_svg()), None);
    }
}
