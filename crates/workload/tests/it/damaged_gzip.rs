//! A compressed log that is cut short or damaged is an error, never a panic and never a shorter trace.

use std::path::Path;

use bookahead_plan::Capacity;
use bookahead_workload::files::Packing;
use bookahead_workload::models::{Poisson, Setting, header, records};
use bookahead_workload::{FileError, LoadError, LoadOptions, Trace, swf};

/// A small log, compressed.
fn packed() -> Vec<u8> {
    let setting = Setting { jobs: 40, ..Setting::default() };
    let jobs = Poisson { setting, ..Poisson::default() }.generate().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("small");
    swf::write_file_as(&path, Packing::Gzip, &header("poisson", &setting), &records(&jobs)).unwrap();
    std::fs::read(path).unwrap()
}

fn load(bytes: &[u8]) -> Result<Trace, LoadError> {
    Trace::read("small", bytes, &LoadOptions::default())
}

#[test]
fn a_log_cut_short_anywhere_is_an_error() {
    let packed = packed();
    assert_eq!(load(&packed).unwrap().jobs.len(), 40);
    for length in 0..packed.len() {
        assert!(load(&packed[..length]).is_err(), "cut to {length} of {} bytes", packed.len());
    }
}

#[test]
fn a_second_member_cut_short_anywhere_is_an_error() {
    let first = packed();
    let both = [first.as_slice(), first.as_slice()].concat();
    assert_eq!(load(&both).unwrap().jobs.len(), 80);
    for length in first.len() + 1..both.len() {
        assert!(load(&both[..length]).is_err(), "cut to {length} of {} bytes", both.len());
    }
}

#[test]
fn a_damaged_byte_is_an_error_or_does_not_matter() {
    let packed = packed();
    let sound = load(&packed).unwrap();
    for place in 0..packed.len() {
        let mut damaged = packed.clone();
        damaged[place] ^= 0x55;
        if let Ok(trace) = load(&damaged) {
            assert_eq!(trace.jobs, sound.jobs, "damaged at {place}");
        }
    }
}

#[test]
fn the_error_names_file_and_line_and_what_to_do() {
    let packed = packed();
    let error = load(&packed[..packed.len() / 2]).unwrap_err();
    assert!(matches!(error, LoadError::File(FileError::Read { .. })), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("small:") && text.ends_with("fetch it again"), "{text}");
}

#[test]
fn a_missing_log_and_a_directory_are_errors() {
    let options = LoadOptions { processors: Some(Capacity(1)), ..LoadOptions::default() };
    let directory = tempfile::tempdir().unwrap();
    let missing = Trace::load(&directory.path().join("none.swf"), &options).unwrap_err();
    assert!(missing.to_string().ends_with("check the path"), "{missing}");
    let not_a_file = Trace::load(directory.path(), &options).unwrap_err();
    assert!(not_a_file.to_string().ends_with("give a file, not a directory"), "{not_a_file}");
    assert!(Trace::load(Path::new(""), &options).is_err());
}
