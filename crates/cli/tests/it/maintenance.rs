//! Recurring maintenance windows of a site, over both changes of daylight-saving time: in probes, refusals, the
//! schedule and the calendar.

use crate::asking::Asking;
use jiff::civil::{Date, time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use serde_json::{Value, json};

const SITE: &str = "name = \"north\"\n\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 64\n\n\
                    [[maintenance]]\nname = \"daily\"\nrule = \"FREQ=DAILY\"\nfrom = \"08:00\"\nto = \"12:00\"\n\
                    zone = \"Europe/Zurich\"\n";

/// The day before and the day after each of the next two changes.
fn days(zone: &TimeZone) -> Vec<Date> {
    let changes = zone.following(Timestamp::now() + 72.hours()).take(2);
    let around = changes.flat_map(|change| {
        let day = change.timestamp().to_zoned(zone.clone()).date();
        [day.yesterday().unwrap(), day.tomorrow().unwrap()]
    });
    around.collect()
}

fn at(day: Date, hour: i8, zone: &TimeZone) -> Zoned {
    day.to_datetime(time(hour, 0, 0, 0)).to_zoned(zone.clone()).unwrap()
}

fn text(time: &Zoned) -> String {
    time.timestamp().to_string()
}

#[test]
fn maintenance_keeps_its_times_over_both_changes_of_the_clock_in_probe_refusal_schedule_and_calendar() {
    let zone = TimeZone::get("Europe/Zurich").unwrap();
    let asking = Asking::site(SITE);
    let calendar = asking.service.ask("GET", "/v1/calendar.ics", "", "").body.replace("\r\n ", "");
    assert!(asking.ends(0, &["calendar"]).out.contains("SUMMARY:Maintenance: daily"));
    let days = days(&zone);
    let offsets: Vec<i32> = days.iter().map(|day| at(*day, 8, &zone).offset().seconds()).collect();
    assert!(offsets[0] != offsets[1] && offsets[2] != offsets[3], "{offsets:?}");
    for day in days {
        let [six, eight, noon, three] = [6, 8, 12, 15].map(|hour| at(day, hour, &zone));
        let window = ["--capacity", "1", "--duration", "1h", "--from"];
        // Within the window: refused by name, with the first start after it.
        let (start, end) = (text(&eight), text(&at(day, 11, &zone)));
        let inside = [&["probe"], &window[..], &[&start, "--until", &end]].concat();
        let refused = asking.ends(3, &inside).err;
        for words in
            ["no-room: not before ", "12:00: maintenance `daily` until ", "blocked by maintenance `daily`"]
        {
            assert!(refused.contains(words), "'{words}' is missing: {refused}");
        }
        let document = refusal(&asking, &eight);
        assert_eq!(document["not_before"], json!(text(&noon)), "{document}");
        let blocker = &document["blockers"][0];
        assert_eq!((&blocker["begin"], &blocker["end"]), (&json!(text(&eight)), &json!(text(&noon))));
        // Around the window: no offer meets it, and it is told.
        let (start, end) = (text(&six), text(&three));
        let around = [&["probe"], &window[..], &[&start, "--until", &end]].concat();
        let offers = asking.document(&around);
        let told = json!([{ "name": "daily", "resource": "cluster", "begin": text(&eight), "end": text(&noon),
            "capacity": 64 }]);
        assert_eq!(offers["maintenance"], told);
        for slot in offers["offers"].as_array().unwrap().iter().map(|offer| &offer["slots"][0]) {
            let time = |field: &str| slot[field].as_str().unwrap().parse::<Timestamp>().unwrap();
            assert!(time("end") <= eight.timestamp() || time("begin") >= noon.timestamp(), "{slot}");
        }
        assert!(asking.ends(0, &around).out.contains("maintenance `daily` on cluster: "));
        let drawn = asking.document(&["schedule", "--from", &text(&six), "--until", &text(&three)]);
        let block = &drawn["resources"][0]["blocks"][0];
        assert_eq!((&block["kind"], &block["name"]), (&json!("maintenance"), &json!("daily")));
        assert_eq!((&block["begin"], &block["end"]), (&json!(text(&eight)), &json!(text(&noon))));
        let utc = |time: &Zoned| time.timestamp().strftime("%Y%m%dT%H%M%SZ").to_string();
        let event = format!("DTSTART:{}\r\nDTEND:{}\r\nCATEGORIES:MAINTENANCE\r\n", utc(&eight), utc(&noon));
        assert!(calendar.contains(&event), "{event}");
    }
    assert!(calendar.contains("SUMMARY:Maintenance: daily\r\n"));
}

fn refusal(asking: &Asking, begin: &Zoned) -> Value {
    let (begin, end) = (text(begin), text(&begin.checked_add(1.hour()).unwrap()));
    let part =
        json!({ "capacity": 1, "duration_seconds": 3_600, "earliest_start": begin, "latest_end": end });
    let answer =
        asking.service.ask("POST", "/v1/probes", "", &json!({"request": {"parts": [part]}}).to_string());
    let problem: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((answer.status, &problem["code"]), (409, &json!("no-room")), "{problem}");
    problem
}

#[test]
fn nothing_is_booked_beyond_the_time_for_which_maintenance_is_known() {
    let asking = Asking::site(SITE);
    let reserve = ["reserve", "--capacity", "1", "--duration", "1h", "--from"];
    let refused = asking.ends(3, &[&reserve[..], &["in 800 days"]].concat()).err;
    assert!(refused.contains("limit: a reservation may end at most 730 days from now here"), "{refused}");
    asking.ends(0, &[&reserve[..], &["in 700 days", "--until", "in 702 days"]].concat());
}
