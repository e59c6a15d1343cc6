//! Files in the repository that our own commands generate: the example log and the pictures of the documents. They must
//! equal the present output; with `BOOKAHEAD_UPDATE=1` in the environment they are written again.

use crate::documents::{folder_with_examples, run};
use crate::repository::root;
use bookahead_figure::{LinePoint, LineSeries, Lines};
use std::fs;

/// Commands, the file that they write, and its path in the repository.
const GENERATED: [(&[&str], &str, &str); 5] = [
    (
        &[
            "bookahead workload generate --jobs 800 --processors 128 --load 0.85 --seed 7 --requests popular -o week.swf",
        ],
        "week.swf",
        "examples/week.swf",
    ),
    (
        &[
            "bookahead workload reservations examples/week.swf --book-ahead 4h --window 8h -o requests.csv --jobs-out rest.swf",
            "bookahead simulate rest.swf --reservations requests.csv --gantt gantt.svg --gantt-from 130000 --gantt-to 330000",
        ],
        "gantt.svg",
        "docs/images/gantt.svg",
    ),
    (
        &["bookahead simulate examples/week.swf --compare --svg schedulers.svg"],
        "schedulers.svg",
        "docs/images/schedulers.svg",
    ),
    (
        &[
            "bookahead whatif examples/week.swf --at 280000 --request processors=48,duration=3h,ahead=2h,window=24h --gantt plan.svg",
        ],
        "plan.after.svg",
        "docs/images/whatif.svg",
    ),
    (
        &[
            "bookahead simulate-grid examples/grid/broker-of-brokers.toml --trace-svg crash.svg --from 10100ms --until 16s",
        ],
        "crash.svg",
        "docs/images/crash.svg",
    ),
];

#[test]
fn the_example_and_the_pictures_are_what_the_commands_write() {
    for (commands, written, kept) in GENERATED {
        let folder = folder_with_examples();
        for command in commands {
            run(kept, command, folder.path());
        }
        let current = fs::read(folder.path().join(written)).unwrap();
        // The README says that a broker crashes in this picture, which depends on the time of one message.
        let shows_crash =
            !kept.ends_with("crash.svg") || String::from_utf8_lossy(&current).contains(">crash<");
        assert!(
            shows_crash,
            "{kept}: no party crashes; set `at` of the fault in the example to another moment"
        );
        assert_kept(kept, &current);
    }
}

/// Compares a file of the repository with its present contents; with `BOOKAHEAD_UPDATE=1` writes it first.
#[track_caller]
pub(crate) fn assert_kept(kept: &str, current: &[u8]) {
    let kept_path = root().join(kept);
    if std::env::var_os("BOOKAHEAD_UPDATE").is_some_and(|value| value == "1") {
        fs::write(&kept_path, current).unwrap();
    }
    let same = fs::read(&kept_path).is_ok_and(|bytes| bytes == current);
    assert!(same, "{kept} is out of date; run this test with BOOKAHEAD_UPDATE=1");
}

/// A picture of the table under a heading of a page: the first column is x, the others are the series. Cells are numbers,
/// with their margins or without: `0.85 ± 0.36`.
struct Picture {
    page: &'static str,
    heading: &'static str,
    kept: &'static str,
    title: &'static str,
    labels: [&'static str; 2],
    columns: std::ops::Range<usize>,
    /// Upper end of the y axis, if it is not the highest value.
    highest: Option<f64>,
    y_log: bool,
}

const GROWTH: Picture = Picture {
    page: "docs/performance.md",
    heading: "### Growth",
    kept: "docs/images/growth-profile.svg",
    title: "Operations on a profile",
    labels: ["spans or reservations", "µs"],
    columns: 1..4,
    highest: None,
    y_log: false,
};

const SCALE: Picture = Picture {
    page: "docs/explanation/scale.md",
    heading: "### The knee",
    kept: "docs/images/scale-latency.svg",
    title: "99% of the requests are answered within",
    labels: ["requests an hour", "seconds"],
    columns: 1..5,
    highest: None,
    y_log: true,
};

const PICTURES: [Picture; 6] = [
    GROWTH,
    Picture { kept: "docs/images/growth-ledger.svg", title: "Operations at a site", columns: 4..7, ..GROWTH },
    SCALE,
    Picture {
        heading: "### How busy the first broker is",
        kept: "docs/images/scale-busy.svg",
        title: "The first broker is busy",
        labels: ["requests an hour", "share of the time"],
        highest: Some(1.0),
        y_log: false,
        ..SCALE
    },
    Picture {
        heading: "### How many brokers",
        kept: "docs/images/scale-brokers.svg",
        title: "A broker is busy",
        labels: ["brokers below the first", "share of the time"],
        columns: 1..3,
        highest: Some(1.0),
        y_log: false,
        ..SCALE
    },
    Picture {
        heading: "### More sites",
        kept: "docs/images/scale-sites.svg",
        title: "Time of the first broker for a request",
        labels: ["sites", "milliseconds"],
        columns: 1..3,
        ..SCALE
    },
];

#[test]
fn the_pictures_of_growth_are_drawn_from_their_tables() {
    for picture in PICTURES {
        let text = fs::read_to_string(root().join(picture.page)).unwrap();
        let table = text.split_once(picture.heading).unwrap().1.split_once("![").unwrap().0;
        let row = |line: &str| -> Vec<String> {
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        let mut rows = table.lines().filter(|line| line.starts_with('|')).map(row);
        let heads = rows.next().unwrap();
        let rows: Vec<Vec<String>> = rows.skip(1).collect();
        let series = picture.columns.map(|column| {
            let points = rows.iter().filter(|row| !row[column].is_empty()).map(|row| {
                let number = |text: &str| text.trim().replace(',', "").parse::<f64>().unwrap();
                let (y, margin) = match row[column].split_once('±') {
                    Some((y, margin)) => (number(y), Some(number(margin))),
                    None => (number(&row[column]), None),
                };
                LinePoint { x: number(&row[0]), y, margin }
            });
            let head = heads[column].split(':').next_back().unwrap_or_default().trim();
            LineSeries::new(head.to_owned(), points.collect())
        });
        let [x, y] = picture.labels;
        let chart = Lines::new(picture.title, x, y, series.collect());
        let chart = Lines { x_log: true, y_log: picture.y_log, y_maximum: picture.highest, ..chart };
        assert_kept(picture.kept, chart.to_svg().as_bytes());
    }
}
