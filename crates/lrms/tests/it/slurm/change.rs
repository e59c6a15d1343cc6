//! Changing reservations: times change and jobs stay, all or nothing; Slurm itself would hardly check it.

use super::fake::Fakes;
use super::{FactState, Handle, Site, Wanted, cores, dialect, nodes, plain, refusal};
use bookahead_lrms::batch::JobSystem;
use bookahead_plan::{Interval, Seconds};

fn moved(wanted: &Wanted, begin: i64, end: i64) -> Wanted {
    let Interval { begin: from, end: to } = wanted.interval;
    Wanted { interval: Interval::new(from + Seconds(begin), to + Seconds(end)), ..wanted.clone() }
}

fn made(site: &mut Site, name: &str, from: i64, length: i64, amount: u32) -> (Handle, Wanted) {
    let wanted = site.wanted(name, &cores(), from, length, amount);
    (site.create(&wanted).unwrap(), wanted)
}

#[track_caller]
fn keeps(site: &mut Site, wanted: &Wanted) {
    let reserved = site.reserved(&wanted.name).unwrap();
    assert_eq!(reserved.interval, wanted.interval);
    assert_eq!(reserved.cores.values().sum::<u32>(), wanted.amount);
}

#[test]
fn times_change_and_the_handle_stays() {
    let mut site = plain(&cores());
    let (handle, wanted) = made(&mut site, "ba.one", 1000, 100, 3);
    for (begin, end) in [(0, 50), (0, -50), (10, 0), (-10, 0), (500, 500), (-500, -550), (0, 0)] {
        let other = moved(&wanted, begin, end);
        assert_eq!(site.change(&handle, &other).unwrap(), Some(handle.clone()), "{begin} {end}");
        keeps(&mut site, &other);
    }
    // A repeated order changes nothing.
    assert_eq!(site.change(&handle, &wanted).unwrap(), Some(handle.clone()));
    // One that should begin at once does.
    let now =
        Wanted { interval: Interval::new(site.now() - Seconds(5), wanted.interval.end), ..wanted.clone() };
    assert_eq!(site.change(&handle, &now).unwrap(), Some(handle.clone()));
    assert!(site.shown("ba.one").contains("State=ACTIVE"));
    // It cannot begin again, but its end can still change.
    assert_eq!(site.change(&handle, &wanted).unwrap(), None);
    let longer = moved(&now, 0, 100);
    assert_eq!(site.change(&handle, &longer).unwrap(), Some(handle.clone()));
    assert_eq!(site.reserved("ba.one").unwrap().interval.end, longer.interval.end);
    // Its users change with it. Other changes are left to the caller, and nothing is done.
    let wider = Wanted { amount: 4, ..longer.clone() };
    assert_eq!(site.change(&handle, &wider).unwrap(), None);
    let shared = Wanted { account: "daemon".into(), ..longer.clone() };
    assert_eq!(site.change(&handle, &shared).unwrap(), Some(handle.clone()));
    assert!(site.shown("ba.one").contains("Users=daemon "), "{}", site.shown("ba.one"));
    assert_eq!(site.change(&Handle("ba.gone".into()), &longer).unwrap(), None);
    assert_eq!(site.reserved("ba.one").unwrap().cores.values().sum::<u32>(), 3);
    let empty = Wanted { interval: Interval::new(longer.interval.end, longer.interval.end), ..longer };
    refusal(site.change(&handle, &empty));
}

#[test]
fn cores_of_another_reservation_are_never_taken_by_a_change() {
    // Slurm would do it silently: both would have the same cores at the same time.
    let mut site = plain(&cores());
    let (handle, wanted) = made(&mut site, "ba.one", 1000, 100, 6);
    let (_, other) = made(&mut site, "ba.two", 1200, 100, 6);
    for told in [false, true] {
        let longer = moved(&wanted, 0, 200);
        assert_eq!(site.change(&handle, &longer).unwrap(), None);
        let later = moved(&wanted, 210, 210);
        assert_eq!(site.change(&handle, &later).unwrap(), None);
        // Up to the begin of the other it is safe.
        let up_to = moved(&wanted, 0, 100);
        assert_eq!(site.change(&handle, &up_to).unwrap(), Some(handle.clone()));
        assert_eq!(site.change(&handle, &wanted).unwrap(), Some(handle.clone()));
        if !told {
            site.until_cores_are_told("ba.one");
            site.until_cores_are_told("ba.two");
        }
    }
    keeps(&mut site, &wanted);
    keeps(&mut site, &other);
    // Other cores of the same nodes do not conflict, once the core ids are known.
    let (_, _) = made(&mut site, "ba.three", 1000, 100, 1);
    let (small, wanted) = made(&mut site, "ba.four", 900, 100, 1);
    site.until_cores_are_told("ba.three");
    site.until_cores_are_told("ba.four");
    let longer = moved(&wanted, 0, 50);
    let changed = site.change(&small, &longer).unwrap();
    let shown = [site.shown("ba.three"), site.shown("ba.four"), site.shown("ba.one")];
    let core =
        |at: usize| shown[at].split("NodeName=").nth(1).unwrap().split('\n').next().unwrap().to_owned();
    assert_eq!(changed.is_some(), core(0) != core(1) && !shares(&shown[1], &shown[2]), "{shown:?}");
}

/// Whether the one core of `small` is one of `big`'s.
fn shares(small: &str, big: &str) -> bool {
    let cores = |text: &str| -> Vec<(String, u32)> {
        let lines =
            text.lines().filter_map(|line| line.trim().strip_prefix("NodeName=")?.split_once(" CoreIDs="));
        lines
            .flat_map(|(node, ids)| {
                let (first, last) = ids.split_once('-').unwrap_or((ids, ids));
                (first.parse().unwrap()..=last.parse().unwrap()).map(move |id| (node.to_owned(), id))
            })
            .collect()
    };
    cores(small).iter().any(|core| cores(big).contains(core))
}

#[test]
fn jobs_on_other_cores_are_not_in_the_way_and_jobs_inside_stay() {
    // Slurm calls a node busy if a job has any core of it.
    let mut site = plain(&cores());
    site.local_job(&["-w", "n1", "-n1", "-t", "30"]);
    let wanted = site.wanted("ba.one", &cores(), -10, 300, 7);
    let handle = site.create(&wanted).unwrap();
    let inside = site.submission("job_1", &cores(), 7, &[&handle]);
    let id = site.slurm.submit(&inside).unwrap();
    site.until_state(&id, &FactState::Running);
    for end in [200, -100] {
        let other = moved(&wanted, 0, end);
        assert_eq!(site.change(&handle, &other).unwrap(), Some(handle.clone()));
        assert_eq!(site.reserved("ba.one").unwrap().interval.end, other.interval.end);
    }
    assert_eq!(site.job(&id).unwrap().state, FactState::Running);
    // An earlier begin may conflict with a job on the same cores: a new reservation must find out.
    let (later, terms) = made(&mut site, "ba.two", 2400, 60, 8);
    assert_eq!(site.change(&later, &moved(&terms, -2000, -2000)).unwrap(), None);
    keeps(&mut site, &terms);
}

#[test]
fn whole_nodes_change_their_times_too() {
    let mut site = plain(&nodes());
    let wanted = site.wanted("ba.one", &nodes(), 1000, 100, 2);
    let handle = site.create(&wanted).unwrap();
    let longer = moved(&wanted, -100, 100);
    assert_eq!(site.change(&handle, &longer).unwrap(), Some(handle.clone()));
    assert_eq!(site.reserved("ba.one").unwrap().interval, longer.interval);
    assert_eq!(site.change(&handle, &Wanted { amount: 1, ..longer.clone() }).unwrap(), None);
    // A job for whole nodes runs in it, and stays while it changes.
    let now = Wanted { interval: Interval::new(site.now(), longer.interval.end), ..longer };
    assert_eq!(site.change(&handle, &now).unwrap(), Some(handle.clone()));
    let job = site.submission("job_1", &nodes(), 2, &[&handle]);
    let id = site.slurm.submit(&job).unwrap();
    assert_eq!(site.until_state(&id, &FactState::Running).placed.len(), 2);
    let longer = moved(&now, 0, 100);
    assert_eq!(site.change(&handle, &longer).unwrap(), Some(handle.clone()));
    assert_eq!(site.job(&id).unwrap().state, FactState::Running);
}

#[test]
fn whoever_comes_in_between_keeps_what_he_got_and_the_old_terms_are_put_back() {
    let mut site = plain(&cores());
    let (handle, wanted) = made(&mut site, "ba.one", 1000, 100, 8);
    // Another reservation is created just after the update.
    let fakes = Fakes::of(&site.cluster);
    let account = site.account();
    fakes.put("scontrol", &format!(
        "case \"$1\" in update) \"$REAL/scontrol\" \"$@\"; \"$REAL/scontrol\" create reservation ReservationName=thief \
         StartTime=now+1150 EndTime=now+1200 Nodes=n1 Users={account} Flags=OVERLAP > /dev/null; exit 0;; esac"
    ));
    site.slurm = dialect(&site.cluster, vec![cores()], Some(fakes.bin()));
    let said = refusal(site.change(&handle, &moved(&wanted, 0, 200)));
    assert!(said.contains("took the same cores meanwhile; the old times were restored"), "{said}");
    keeps(&mut site, &wanted);
    // An update with another effect than requested.
    fakes.put(
        "scontrol",
        "case \"$1\" in update) exec \"$REAL/scontrol\" \"$1\" \"$2\" EndTime=now+1111;; esac",
    );
    let said = refusal(site.change(&handle, &moved(&wanted, 0, -50)));
    assert!(said.contains("it is from"), "{said}");
}
