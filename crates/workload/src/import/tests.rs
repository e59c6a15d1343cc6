//! Imports of small files, line by line.

use super::*;

/// `2026-11-17T09:00:00` without a zone: only the seconds of that day count.
fn time(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let (day, clock) = text.split_once('T')?;
    let day: i64 = day.strip_prefix("2026-11-")?.parse().ok()?;
    value::duration(clock).map(|seconds| day * 86_400 + seconds)
}

fn imported(text: &str, options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut import = Import::new(options, &time);
    import.read("jobs.txt", text.as_bytes(), None)?;
    import.finish()
}

fn lines(imported: &Imported) -> Vec<String> {
    let mut text = Vec::new();
    crate::swf::write(&mut text, &imported.header, &imported.records).unwrap();
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

fn skipped(report: &Report, kind: Skipped) -> u64 {
    report.skipped().find(|(found, _)| *found == kind).map_or(0, |(_, count)| count)
}

const SACCT: &str = "\
JobID|JobIDRaw|User|Account|Partition|QOS|Submit|Eligible|Start|End|Timelimit|ReqCPUS|AllocCPUS|State|ExitCode
10|10|ada|physics|main|normal|2026-11-01T00:00:10|2026-11-01T00:00:15|2026-11-01T00:00:20|2026-11-01T00:01:20|00:02:00|4|8|COMPLETED|0:0
10.batch|10.batch||physics|||2026-11-01T00:00:20|2026-11-01T00:00:20|2026-11-01T00:00:20|2026-11-01T00:01:20||8|8|COMPLETED|0:0
11_1|12|bob|chem|main|normal|2026-11-01T00:00:00|2026-11-01T00:00:00|2026-11-01T00:00:05|2026-11-01T01:00:05|1-00:00:00|1|1|TIMEOUT|0:0
11_[2-9]|11|bob|chem|main|normal|2026-11-01T00:00:00|2026-11-01T00:00:00|Unknown|Unknown|1-00:00:00|1|0|PENDING|0:0
13|13|ada|physics|gpu|normal|2026-11-01T00:00:30|Unknown|None|2026-11-01T00:00:40|UNLIMITED|2|0|CANCELLED by 1000|0:0
14|14|ada|physics|main|normal|yesterday|Unknown|None|2026-11-01T00:00:40|UNLIMITED|2|0|FAILED|0:0
15|15|ada|physics|main
";

#[test]
fn a_table_of_sacct_becomes_a_log_without_steps_and_live_jobs() {
    let found = imported(SACCT, &ImportOptions { machine: Some(64), ..ImportOptions::default() }).unwrap();
    let expected = "\
; Version: 2.2
; Conversion: bookahead workload import
; Note: imported from jobs.txt
; MaxJobs: 3
; MaxRecords: 3
; UnixStartTime: 86400
; MaxProcs: 64
; Queue: 1 normal
; Partition: 1 main
; Partition: 2 gpu
12 0 5 3600 1 -1 -1 1 86400 -1 0 2 2 -1 1 1 -1 -1
10 10 10 60 8 -1 -1 4 120 -1 1 1 1 -1 1 1 -1 -1
13 30 10 0 -1 -1 -1 2 -1 -1 5 1 1 -1 1 2 -1 -1";
    assert_eq!(lines(&found).join("\n"), expected);
    let report = &found.report;
    assert_eq!((report.lines, report.jobs, report.bad), (8, 3, 2));
    assert_eq!((skipped(report, Skipped::Step), skipped(report, Skipped::NotEnded)), (1, 1));
    let told: Vec<String> = report.first_bad.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["jobs.txt:7: cannot read \"yesterday\" as submit", "jobs.txt:8: 5 values, but 15 columns"]
    );
}

#[test]
fn names_the_time_of_eligibility_and_nodes_are_used_on_request() {
    let text = "\
jobid|user|account|submit|eligible|start|end|nnodes|alloctres|
10|ada|physics|100|150|160|200|2|cpu=16,node=2|
10|ada|physics|300|300|310|400|3|cpu=24,node=3|
";
    let options = ImportOptions { eligible: true, names: true, ..ImportOptions::default() };
    let found = imported(text, &options).unwrap();
    let all = lines(&found).join("\n");
    assert!(all.contains("; User: 1 ada\n; Group: 1 physics\n"), "{all}");
    // Run twice, so that the number is not that of one job.
    assert!(all.contains("; Note: jobs have new numbers"), "{all}");
    assert!(all.ends_with("1 0 10 40 16 -1 -1 -1 -1 -1 -1 1 1 -1 -1 -1 -1 -1\n2 150 10 90 24 -1 -1 -1 -1 -1 -1 1 1 -1 -1 -1 -1 -1"), "{all}");
    let nodes = ImportOptions { unit: Unit::Nodes, machine: Some(8), ..ImportOptions::default() };
    let found = imported(text, &nodes).unwrap();
    assert_eq!(found.records.iter().map(|record| record.allocated_processors).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(found.header.processors(), Some(8));
}

const PBS: &str = "\
11/17/2026 09:00:00;Q;1.north;queue=workq
11/17/2026 09:00:01;S;1.north;user=ada group=phys queue=workq ctime=1000 qtime=1000 etime=1000 start=1010
11/17/2026 09:10:00;E;1.north;user=ada group=phys account=\"a b\" jobname=\"my job\" queue=workq ctime=1000 qtime=1000 etime=1002 start=1010 exec_host=n1/0*8 Resource_List.ncpus=8 Resource_List.walltime=01:00:00 Resource_List.select=1:ncpus=8 session=7 end=1610 Exit_status=0 resources_used.walltime=00:10:00
11/17/2026 09:10:00;E;2[].north;user=ada queue=workq ctime=1100 start=1200 end=1700 Exit_status=0
11/17/2026 09:10:00;E;2[1].north;user=bob queue=long ctime=1100 qtime=1100 start=1200 end=1700 Resource_List.select=2:ncpus=4+1:ncpus=1 Exit_status=271
11/17/2026 09:11:00;S;3.north;user=bob queue=long ctime=1100 start=1300
11/17/2026 09:11:00;E;4.north;user=bob queue=long ctime=soon start=1300 end=1400
11/17/2026 09:11:00;L;license;floating license hour:3
11/17/2026 09:12:00;E;5.north;user=bob queue=long qtime=1500 start=1300 end=1400
nonsense
";

#[test]
fn ends_in_a_pbs_log_become_jobs_and_the_rest_is_counted() {
    let found = imported(PBS, &ImportOptions::default()).unwrap();
    let all = lines(&found);
    assert_eq!(
        all[all.len() - 2..],
        [
            "1 0 10 600 8 -1 -1 8 3600 -1 1 1 1 1 1 -1 -1 -1",
            "2 100 100 500 9 -1 -1 9 -1 -1 0 2 -1 -1 2 -1 -1 -1"
        ]
    );
    let report = &found.report;
    assert_eq!((report.lines, report.jobs, report.bad), (10, 2, 3));
    let told: Vec<u64> = report.first_bad.iter().map(|bad| bad.line).collect();
    assert_eq!(told, [7, 9, 10]);
    let of = |kind| skipped(report, kind);
    assert_eq!((of(Skipped::ArrayParent), of(Skipped::OtherRecord), of(Skipped::NotEnded)), (1, 4, 1));
}

#[test]
fn a_bad_line_ends_a_strict_import() {
    let options = ImportOptions { strict: true, ..ImportOptions::default() };
    let why = imported(PBS, &options).unwrap_err().to_string();
    assert!(why.starts_with("jobs.txt:7: cannot read \"soon\" as ctime"), "{why}");
}

#[test]
fn files_of_other_kinds_and_tables_without_needed_columns_say_what_to_do() {
    let error = |text: &str| imported(text, &ImportOptions::default()).unwrap_err().to_string();
    assert!(error("1 2 3\n").contains("sacct --parsable2"));
    assert!(error("JobID|Submit|End\n").contains("no column Start"));
    assert!(error("").contains("no job in 0 lines"));
    assert!(error("JobID|Submit|Start|End\n1|x|2|3\n").contains("jobs.txt:2: cannot read \"x\""));
}

#[test]
fn no_bytes_make_an_import_panic() {
    use crate::streams::Stream;
    let mut stream = Stream::new(1, "tests/import");
    for round in 0..4_000 {
        let mut bytes = if round % 2 == 0 { SACCT.as_bytes().to_vec() } else { PBS.as_bytes().to_vec() };
        for _ in 0..stream.whole(1, 12) {
            let at = usize::try_from(stream.whole(0, bytes.len() as i64 - 1)).unwrap();
            match stream.whole(0, 3) {
                0 => bytes[at] = u8::try_from(stream.whole(0, 255)).unwrap(),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"|;\n=9-:["[usize::try_from(stream.whole(0, 7)).unwrap()]),
                _ => bytes.splice(at..at, b"99999999999999999999".iter().copied()).for_each(drop),
            }
        }
        let options = ImportOptions::default();
        let mut import = Import::new(&options, &time);
        if import.read("jobs.txt", bytes.as_slice(), None).is_ok()
            && let Ok(found) = import.finish()
        {
            let mut text = Vec::new();
            crate::swf::write(&mut text, &found.header, &found.records).unwrap();
            let loading =
                crate::LoadOptions { processors: Some(bookahead_plan::Capacity(64)), ..Default::default() };
            if let Ok(trace) = crate::Trace::read("again", text.as_slice(), &loading) {
                assert_eq!(trace.report.count(crate::Reason::MalformedLine), 0);
                assert_eq!(trace.report.count(crate::Reason::NoSubmitTime), 0);
            }
        }
    }
}
