//! `bookahead schedule`: reserved and free capacity of each resource, as bars in the terminal or as SVG. And the time
//! line of one reservation, for `bookahead show --timeline`.

use super::dates::Dates;
use super::place::Place;
use super::session::{Session, by_clock};
use crate::output::{count, named_for, plural, save_and_tell, say};
use crate::table::{terminal_width, wants_colours};
use anyhow::Result;
use bookahead_api::when::When;
use bookahead_api::{
    Block, BlockKind, Reservation, ResourceSchedule, Role, Schedule, ScheduleQuery, Timestamp,
};
use bookahead_figure::{Bar, BarKind, Clock, Gantt};
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use clap::Args;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Width if the output is not a terminal.
const USUAL_WIDTH: usize = 100;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only this resource
    #[arg(value_name = "RESOURCE")]
    resource: Option<String>,

    /// Start of the chart [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<When>,

    /// End of the chart [default: one day after its start]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<When>,

    /// Only your own reservations and jobs; the free capacity still considers all
    #[arg(long)]
    mine: bool,

    /// Also write an SVG file; with several resources one file each, with the resource in its name
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    by_clock(&arguments.place, |session| schedule(arguments, session))
}

fn schedule(arguments: &Arguments, session: &Session) -> Result<()> {
    let read = |when: &Option<When>| when.as_ref().map(|when| session.read(when)).transpose();
    let resource = arguments.resource.as_deref().map(Into::into);
    let query = ScheduleQuery {
        resource,
        from: read(&arguments.from)?,
        until: read(&arguments.until)?,
        pixels: None,
    };
    let schedule = session.ask("fetching the schedule", session.timed_client().schedule(&query))?;
    let begin = query.from.unwrap_or_else(|| session.server_now()).time();
    let end = query.until.map_or(begin + Seconds(86_400), Timestamp::time);
    let window = Interval::new(begin, end);
    let owner = arguments.mine.then(|| session.user());
    session.print(&schedule, || print(&schedule, window, owner, &session.dates()))?;
    if let Some(path) = &arguments.svg {
        for resource in &schedule.resources {
            let several = schedule.resources.len() > 1;
            // A broker names a resource `site/resource`, which would be a path.
            let name = resource.resource.as_str().replace('/', "-");
            let path = if several { named_for(path, &name) } else { path.clone() };
            save_and_tell(&path, &picture(resource, window, owner))?;
        }
    }
    if schedule.resources.is_empty() {
        say!("no resources; list them with: bookahead sites");
    } else if !session.json && is_broker(session)? {
        say!("note: a broker shows only its own bookings; ask a site for its jobs and other reservations");
    }
    Ok(())
}

fn is_broker(session: &Session) -> Result<bool> {
    let sites = session.ask("listing sites", session.client.sites())?;
    Ok(sites.sites.first().is_some_and(|server| server.role == Role::Broker))
}

fn print(schedule: &Schedule, window: Interval, owner: Option<&str>, dates: &Dates) -> io::Result<()> {
    let colours = wants_colours();
    let width = terminal_width().unwrap_or(USUAL_WIDTH);
    // Printed without escaping, which would show the colour codes as text; names are escaped one by one.
    let pictures =
        schedule.resources.iter().map(|resource| bars(resource, window, owner, dates, width, colours));
    io::stdout().lock().write_all(pictures.collect::<Vec<_>>().join("\n").as_bytes())
}

/// A row of the chart, with its SGR colour and the kinds of blocks that it shows.
struct Lane {
    name: &'static str,
    colour: &'static str,
    kinds: &'static [BlockKind],
}

const LANES: [Lane; 5] = [
    Lane { name: "running", colour: "34", kinds: &[BlockKind::RunningJob] },
    Lane { name: "waiting", colour: "36", kinds: &[BlockKind::WaitingJob] },
    Lane { name: "held", colour: "33", kinds: &[BlockKind::Hold] },
    Lane { name: "reserved", colour: "32", kinds: &[BlockKind::Reservation] },
    Lane { name: "other", colour: "35", kinds: &[BlockKind::Foreign, BlockKind::Maintenance] },
];

/// Columns for the names of the lanes, with two blanks before and after.
const MARGIN: usize = 12;

/// The chart of one resource: a title, the times, a row for each kind of use, in which the height of a column is its
/// share of the capacity, and the free capacity in numbers.
fn bars(
    schedule: &ResourceSchedule,
    window: Interval,
    owner: Option<&str>,
    dates: &Dates,
    width: usize,
    colours: bool,
) -> String {
    let columns = Columns::new(window, width.saturating_sub(MARGIN).max(20));
    let capacity = schedule.capacity.saturating_sub(schedule.lost);
    let lost = if schedule.lost > 0 {
        format!(", {} not usable now", count(schedule.lost.into()))
    } else {
        String::new()
    };
    let mut text = String::new();
    let head = crate::output::escaped(schedule.resource.as_str());
    let _ = writeln!(text, "{head}: {}{lost} ({})", count(schedule.capacity.into()), dates.zone_name());
    text += &columns.times(dates);
    for lane in &LANES {
        let blocks: Vec<&Block> = schedule
            .blocks
            .iter()
            .filter(|block| lane.kinds.contains(&block.kind))
            .filter(|block| belongs_to(block, owner))
            .collect();
        if blocks.is_empty() {
            continue;
        }
        let shares = columns.of(|cell| f64::from(taken(&blocks, cell)) / f64::from(schedule.capacity.max(1)));
        let row: String = shares.into_iter().map(height).collect();
        let row = row.trim_end();
        let row = if colours { format!("\u{1b}[{}m{row}\u{1b}[0m", lane.colour) } else { row.to_owned() };
        let _ = writeln!(text, "  {:<9} {row}", lane.name);
    }
    let all: Vec<&Block> = schedule.blocks.iter().collect();
    let free = columns.of(|cell| capacity.saturating_sub(taken(&all, cell)));
    let _ = writeln!(text, "  {:<9} {}", "free", figures(&free).trim_end());
    text + &maintenance(schedule, dates)
}

/// The maintenance windows by name. They concern everyone.
fn maintenance(schedule: &ResourceSchedule, dates: &Dates) -> String {
    let blocks = schedule.blocks.iter().filter(|block| block.kind == BlockKind::Maintenance);
    let line = |block: &Block| {
        let name = crate::output::escaped(block.name.as_deref().unwrap_or_default());
        let (begin, end) = (dates.short(block.begin), dates.short_end(block.begin, block.end));
        format!("  maintenance `{name}`: {begin} until {end}\n")
    };
    blocks.map(line).collect()
}

/// Whether a block is shown: all are, unless one owner's are wanted.
fn belongs_to(block: &Block, owner: Option<&str>) -> bool {
    owner.is_none_or(|owner| block.owner.as_ref().is_some_and(|name| name.as_str() == owner))
}

/// The maximum capacity in use at any moment of a cell.
fn taken(blocks: &[&Block], cell: Interval) -> u32 {
    let within: Vec<&&Block> = blocks
        .iter()
        .filter(|block| block.begin.time() < cell.end && cell.begin < block.end.time())
        .collect();
    // The use rises only where a block begins, so the maximum is at one of these instants.
    let begins = within.iter().map(|block| block.begin.time().max(cell.begin));
    let at = |instant: Time| {
        let there = within.iter().filter(|block| block.begin.time() <= instant && instant < block.end.time());
        there.map(|block| block.capacity).fold(0, u32::saturating_add)
    };
    begins.map(at).max().unwrap_or(0)
}

/// A block character of the height of a share. Any share above zero is visible.
fn height(share: f64) -> char {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if share <= 0.0 {
        return ' ';
    }
    let at = (share * 8.0).ceil().clamp(1.0, 8.0) as usize - 1;
    HEIGHTS.get(at).copied().unwrap_or('█')
}

/// Prints each number at its first column, followed by a line while it stays the same.
fn figures(values: &[u32]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while let Some(value) = values.get(at) {
        let same = values[at..].iter().take_while(|next| *next == value).count();
        let number = value.to_string();
        // Too few columns for the number.
        let shown = if number.len() < same {
            format!("{number:─<width$} ", width = same - 1)
        } else {
            "·".repeat(same)
        };
        text += &shown;
        at += same;
    }
    text
}

/// Columns of equal duration over a window.
struct Columns {
    window: Interval,
    count: usize,
}

impl Columns {
    fn new(window: Interval, count: usize) -> Columns {
        Columns { window, count }
    }

    fn instant(&self, column: usize) -> Time {
        let length = i128::from(self.window.length().0) * column as i128 / self.count as i128;
        self.window.begin + Seconds(i64::try_from(length).unwrap_or(i64::MAX))
    }

    fn of<T>(&self, value: impl Fn(Interval) -> T) -> Vec<T> {
        let cell = |column| {
            let begin = self.instant(column);
            // A window with fewer seconds than columns has cells of no length, which no block would overlap.
            Interval::new(begin, self.instant(column + 1).max(begin + Seconds(1)))
        };
        (0..self.count).map(|column| value(cell(column))).collect()
    }

    /// The column of an instant; None outside the window.
    fn column(&self, at: Time) -> Option<usize> {
        let inside = self.window.begin <= at && at < self.window.end;
        let length = i128::from(self.window.length().0.max(1));
        let column = i128::from((at - self.window.begin).0) * self.count as i128 / length;
        inside.then(|| usize::try_from(column).ok()).flatten()
    }

    /// A line of round wall times, each above its column.
    fn times(&self, dates: &Dates) -> String {
        const STEPS: [i64; 13] =
            [60, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 604_800, 2_419_200];
        // Width of `Mon 16 Nov` and a blank.
        const ROOM: usize = 11;
        let most = (self.count / ROOM).max(1) as i64;
        let step = STEPS.into_iter().find(|step| self.window.length().0 / step <= most);
        let step = step.unwrap_or_else(|| self.window.length().0 / most);
        let mut line = vec![' '; self.count];
        let mut at = dates.first_round(self.window.begin, Seconds(step));
        let mut free_from = 0;
        while at < self.window.end {
            let label = dates.tick(at, step >= 86_400);
            if let Some(column) = self.column(at).filter(|column| *column >= free_from)
                && column + label.chars().count() <= self.count
            {
                for (place, character) in label.chars().enumerate() {
                    line[column + place] = character;
                }
                free_from = column + label.chars().count() + 1;
            }
            at = at + Seconds(step);
        }
        format!("{}{}\n", " ".repeat(MARGIN), line.into_iter().collect::<String>().trim_end())
    }
}

fn kind_word(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::RunningJob => "running job",
        BlockKind::WaitingJob => "waiting job",
        BlockKind::Hold => "hold",
        BlockKind::Reservation => "reservation",
        BlockKind::Foreign => "other reservation",
        BlockKind::Maintenance => "maintenance",
    }
}

fn picture(schedule: &ResourceSchedule, window: Interval, owner: Option<&str>) -> String {
    let bar = |block: &Block| Bar {
        interval: Interval::new(block.begin.time(), block.end.time()),
        capacity: Capacity(block.capacity),
        label: match (block.kind, &block.name, &block.owner) {
            (BlockKind::Maintenance, Some(name), _) => name.clone(),
            (_, _, Some(owner)) => owner.to_string(),
            (kind, _, None) => kind_word(kind).to_owned(),
        },
        kind: match block.kind {
            BlockKind::RunningJob | BlockKind::WaitingJob => BarKind::Job,
            BlockKind::Hold => BarKind::Held,
            BlockKind::Reservation | BlockKind::Foreign | BlockKind::Maintenance => BarKind::Reservation,
        },
    };
    let bars = schedule.blocks.iter().filter(|block| belongs_to(block, owner)).map(bar).collect();
    let title = format!("Schedule of {}", schedule.resource);
    let clock = Clock::Utc { unix_of_zero: 0 };
    let (range, now) = (Some(window), Some(schedule.now.time()));
    let unit = "capacity".to_owned();
    Gantt { clock, range, now, unit, ..Gantt::new(title, Capacity(schedule.capacity), bars) }.to_svg()
}

/// Prints the parts of a reservation on a common time axis.
pub(crate) fn print_timeline(reservation: &Reservation, dates: &Dates) -> io::Result<()> {
    io::stdout()
        .lock()
        .write_all(timeline(reservation, dates, terminal_width().unwrap_or(USUAL_WIDTH)).as_bytes())
}

fn timeline(reservation: &Reservation, dates: &Dates, width: usize) -> String {
    let begins = reservation.slots.iter().map(|slot| slot.begin.time()).min();
    let ends = reservation.slots.iter().map(|slot| slot.end.time()).max();
    let Some((begin, end)) = begins.zip(ends) else { return String::new() };
    let columns = Columns::new(Interval::new(begin, end), width.saturating_sub(MARGIN).max(20));
    let parts = plural(reservation.slots.len() as u64, "part");
    let mut text = format!("\n{parts} ({})\n{}", dates.zone_name(), columns.times(dates));
    for (part, slot) in reservation.slots.iter().enumerate() {
        let own = Interval::new(slot.begin.time(), slot.end.time());
        let row: String = columns
            .of(|cell| own.begin < cell.end && cell.begin < own.end)
            .into_iter()
            .map(|there| if there { '█' } else { ' ' })
            .collect();
        let _ = writeln!(text, "  part {:<4} {}", part + 1, row.trim_end());
        let what =
            format!("{} of {}", count(slot.capacity.into()), crate::output::escaped(slot.resource.as_str()));
        let _ = writeln!(text, "{}{what}", " ".repeat(MARGIN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn block(kind: BlockKind, begin: &str, end: &str, capacity: u32, owner: &str) -> Block {
        Block {
            kind,
            begin: at(begin),
            end: at(end),
            capacity,
            id: None,
            owner: Some(owner.into()),
            state: None,
            name: None,
            missing: None,
        }
    }

    fn cluster() -> ResourceSchedule {
        ResourceSchedule {
            resource: "cluster".into(),
            capacity: 64,
            now: at("2026-11-15T08:00:00Z"),
            lost: 0,
            blocks: vec![
                block(BlockKind::RunningJob, "2026-11-15T07:00:00Z", "2026-11-15T12:00:00Z", 32, "ada"),
                block(BlockKind::Reservation, "2026-11-15T16:00:00Z", "2026-11-15T20:00:00Z", 64, "bob"),
            ],
            levels: None,
            free: Vec::new(),
        }
    }

    fn day() -> Interval {
        Interval::new(at("2026-11-15T08:00:00Z").time(), at("2026-11-16T08:00:00Z").time())
    }

    #[test]
    fn a_schedule_shows_what_is_taken_and_what_is_free_and_fits() {
        let dates = Dates::new(TimeZone::UTC, at("2026-11-15T08:00:00Z"));
        let text = bars(&cluster(), day(), None, &dates, 60, false);
        assert_eq!(
            text,
            "cluster: 64 (UTC)\n\
             \u{20}           12:00       18:00       Mon 00:00\n"
                .replace("            12:00", &format!("{}12:00", " ".repeat(MARGIN + 8)))
                .to_owned()
                + "  running   ▄▄▄▄▄▄▄▄\n"
                + "  reserved                  ████████\n"
                + "  free      32───── 64───── 0────── 64─────────────────────\n",
            "{text}"
        );
        for width in 40..140 {
            let text = bars(&cluster(), day(), None, &dates, width, false);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}\n{text}");
        }
        let own = bars(&cluster(), day(), Some("bob"), &dates, 60, false);
        assert!(!own.contains("running") && own.contains("reserved") && own.contains("32─"), "{own}");
    }

    #[test]
    fn maintenance_is_listed_by_name_below_the_chart() {
        let dates = Dates::new(TimeZone::UTC, at("2026-11-15T08:00:00Z"));
        let mut cluster = cluster();
        let weekly = Block {
            owner: None,
            name: Some("weekly".into()),
            ..block(BlockKind::Maintenance, "2026-11-15T22:00:00Z", "2026-11-16T02:00:00Z", 64, "")
        };
        cluster.blocks.push(weekly);
        let text = bars(&cluster, day(), Some("bob"), &dates, 60, false);
        assert!(text.ends_with("\n  maintenance `weekly`: today 22:00 until tomorrow 02:00\n"), "{text}");
    }

    #[test]
    fn the_most_that_is_taken_at_a_time_counts() {
        let blocks = [
            block(BlockKind::Hold, "2026-11-15T08:00:00Z", "2026-11-15T08:30:00Z", 3, "ada"),
            block(BlockKind::Hold, "2026-11-15T08:30:00Z", "2026-11-15T09:00:00Z", 4, "ada"),
            block(BlockKind::Hold, "2026-11-15T08:45:00Z", "2026-11-15T09:30:00Z", 5, "ada"),
        ];
        let blocks: Vec<&Block> = blocks.iter().collect();
        let cell = Interval::new(at("2026-11-15T08:10:00Z").time(), at("2026-11-15T09:10:00Z").time());
        assert_eq!(taken(&blocks, cell), 9);
        assert_eq!([height(0.0), height(0.001), height(0.5), height(2.0)], [' ', '▁', '▄', '█']);
    }
}
