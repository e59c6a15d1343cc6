//! Any input: no panic, and every job line is counted.

use bookahead_plan::{Capacity, Interval, Time};
use bookahead_workload::trace::CleaningReport;
use bookahead_workload::{LoadError, LoadOptions, Overrun, Trace, requests};
use proptest::prelude::*;

/// Lines as in logs, good and bad, with every kind of separator and number.
fn logs() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        8 => (-3..2000_i64).prop_map(|value| value.to_string()),
        1 => any::<i64>().prop_map(|value| value.to_string()),
        1 => any::<f64>().prop_map(|value| value.to_string()),
        1 => prop::sample::select(vec!["", "nan", "1e5", "2.5", "9223372036854775808", "-", "x", ";", "\u{e9}"])
            .prop_map(str::to_owned),
    ];
    let separator = prop::sample::select(vec![" ", "  ", "\t", " \t"]);
    let line =
        (prop::collection::vec(field, 0..22), separator).prop_map(|(fields, blank)| fields.join(blank));
    let end = prop::sample::select(vec!["\n", "\r\n", "\n\n", "\n; MaxNodes: 7\n"]);
    prop::collection::vec((line, end), 0..30)
        .prop_map(|lines| lines.into_iter().map(|(line, end)| line + end).collect::<String>().into_bytes())
}

fn options() -> impl Strategy<Value = LoadOptions> {
    let overruns = prop::sample::select(vec![Overrun::Kill, Overrun::Extend, Overrun::Drop]);
    let range = prop::option::of((0..2000_i64, 0..2000_i64));
    (prop::option::of(0..3000_u32), 0..20_u32, overruns, range, any::<bool>()).prop_map(
        |(processors, unit, overruns, range, keep_records)| LoadOptions {
            processors: processors.map(Capacity),
            unit,
            overruns,
            range: range.map(|(begin, end)| Interval::new(Time(begin), Time(end))),
            keep_records,
            ..LoadOptions::default()
        },
    )
}

/// Number of lines that are neither blank nor comments, counted independently of the reader.
fn job_lines(bytes: &[u8]) -> u64 {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let is_job = |line: &&[u8]| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        line.iter().find(|byte| !b" \t".contains(byte)).is_some_and(|byte| *byte != b';')
    };
    text.split(|byte| *byte == b'\n').filter(is_job).count() as u64
}

fn check_account(report: &CleaningReport, bytes: &[u8]) -> Result<(), TestCaseError> {
    prop_assert_eq!(report.kept + report.dropped() + report.outside_range, report.read);
    prop_assert_eq!(report.read, job_lines(bytes));
    Ok(())
}

fn check_load(bytes: &[u8], options: &LoadOptions) -> Result<(), TestCaseError> {
    match Trace::read("any", bytes, options) {
        Ok(trace) => {
            check_account(&trace.report, bytes)?;
            prop_assert_eq!(trace.report.kept, trace.jobs.len() as u64);
            prop_assert!(trace.jobs.is_sorted_by_key(|job| job.submit));
            for job in &trace.jobs {
                prop_assert!(job.run.0 > 0 && job.request.0 > 0 && job.submit.0 >= 0);
                prop_assert!((1..=trace.machine.0).contains(&job.processors.0));
                prop_assert!(options.overruns == Overrun::Extend || job.run <= job.request);
            }
            let recorded = if options.keep_records { trace.jobs.len() } else { 0 };
            prop_assert_eq!(trace.records.len(), recorded);
            for (job, record) in trace.jobs.iter().zip(&trace.records) {
                prop_assert_eq!((job.number, job.submit.0), (record.job, record.submit));
            }
        }
        Err(LoadError::NoSoundJob { report, .. }) => check_account(&report, bytes)?,
        Err(LoadError::NoJobLine { .. }) => prop_assert_eq!(job_lines(bytes), 0),
        Err(_) => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(bookahead_tests::cases::cases(400))]

    #[test]
    fn any_bytes_are_read_without_panic_and_accounted_for(
        bytes in prop::collection::vec(any::<u8>(), 0..2000), options in options()
    ) {
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            check_load(&bytes, &options)?;
        }
        let _ = requests::read("any", bytes.as_slice());
    }

    #[test]
    fn lines_like_those_of_logs_are_accounted_for(bytes in logs(), options in options()) {
        check_load(&bytes, &options)?;
    }

    #[test]
    fn any_bytes_behind_a_gzip_header_are_read_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..500), flags in any::<u8>()
    ) {
        let mut packed = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3];
        packed.extend(bytes);
        let options = LoadOptions { processors: Some(Capacity(10)), ..LoadOptions::default() };
        let _ = Trace::read("any", packed.as_slice(), &options);
        let _ = requests::read("any", packed.as_slice());
    }
}
