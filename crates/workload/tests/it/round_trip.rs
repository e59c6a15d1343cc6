//! Written logs and requests are read back equal.

use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_workload::requests::{self, Request};
use bookahead_workload::swf::{self, Header, Outcome, Reader, Record};
use bookahead_workload::{LoadOptions, Trace};
use proptest::prelude::*;

fn records() -> impl Strategy<Value = Record> {
    let whole = prop_oneof![4 => -1..100_000_i64, 1 => any::<i64>()];
    let real = prop_oneof![
        Just(-1.0),
        (0..10_000_000_i64).prop_map(|hundredths| hundredths as f64 / 100.0),
        any::<f64>().prop_filter("finite", |value| value.is_finite()),
    ];
    (prop::array::uniform17(whole), real).prop_map(|(values, average_cpu_time)| Record {
        job: values[0],
        submit: values[1],
        wait: values[2],
        run: values[3],
        allocated_processors: values[4],
        average_cpu_time,
        used_memory: values[5],
        requested_processors: values[6],
        requested_time: values[7],
        requested_memory: values[8],
        status: values[9],
        user: values[10],
        group: values[11],
        executable: values[12],
        queue: values[13],
        partition: values[14],
        preceding_job: values[15],
        think_time: values[16],
    })
}

fn headers() -> impl Strategy<Value = Header> {
    prop::collection::vec(("[A-Za-z]{1,9}", "[ -~\u{e9}]{0,30}"), 0..5).prop_map(|directives| {
        let mut header = Header::default();
        for (key, value) in directives {
            header.push(&key, value);
        }
        header
    })
}

fn read_all(text: &[u8]) -> (Header, Vec<Record>) {
    let mut reader = Reader::new("written", text).unwrap();
    let mut records = Vec::new();
    while let Some(job) = reader.next_job().unwrap() {
        assert!(matches!(job.outcome, Outcome::Sound(mends) if mends.is_empty()), "line {}", job.line);
        records.push(*reader.record());
    }
    (reader.into_header(), records)
}

proptest! {
    #![proptest_config(bookahead_tests::cases::cases(200))]

    #[test]
    fn a_log_is_read_as_it_was_written(header in headers(), records in prop::collection::vec(records(), 0..20)) {
        let mut text = Vec::new();
        swf::write(&mut text, &header, &records).unwrap();
        prop_assert_eq!(read_all(&text), (header, records));
    }

    #[test]
    fn requests_are_read_as_they_were_written(
        values in prop::collection::vec((any::<i64>(), 0..1_i64 << 40, 0..1_i64 << 40, 1..1_i64 << 40, 1..1_u32 << 31), 0..20)
    ) {
        let requests: Vec<Request> = values.into_iter().map(|(number, submit, ahead, duration, processors)| Request {
            number,
            submit: Time(submit),
            earliest_start: Time(submit + ahead),
            latest_end: Time(submit + ahead + duration),
            duration: Seconds(duration),
            processors: Capacity(processors),
            released: None,
        }).collect();
        let mut text = Vec::new();
        requests::write(&mut text, &requests).unwrap();
        prop_assert_eq!(requests::read("written", text.as_slice()).unwrap(), requests);
    }
}

#[test]
fn a_file_is_compressed_by_its_name_and_read_by_its_content() {
    let directory = tempfile::tempdir().unwrap();
    let record = Record { job: 1, submit: 0, run: 5, requested_processors: 2, ..Record::BLANK };
    let mut header = Header::default();
    header.push("MaxProcs", 8);
    for (name, gzip) in [("log.swf", false), ("log.swf.gz", true)] {
        let path = directory.path().join(name);
        swf::write_file(&path, &header, &[record]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]), gzip);
        let renamed = directory.path().join("other");
        std::fs::rename(&path, &renamed).unwrap();
        let trace =
            Trace::load(&renamed, &LoadOptions { keep_records: true, ..LoadOptions::default() }).unwrap();
        assert_eq!((trace.records, trace.header), (vec![record], header.clone()));
    }
}

#[test]
fn requests_are_compressed_by_the_name_of_their_file() {
    let directory = tempfile::tempdir().unwrap();
    for (name, gzip) in [("requests.csv", false), ("requests.csv.gz", true)] {
        let path = directory.path().join(name);
        requests::write_file(&path, &[]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]), gzip);
        assert_eq!(requests::load(&path).unwrap(), []);
    }
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("none").join("log.swf");
    let error = swf::write_file(&path, &Header::default(), &[]).unwrap_err();
    assert!(error.to_string().contains("none/log.swf: cannot be written"), "{error}");
}
