//! Writes a log: the header as it is, then one line per job with its fields separated by single blanks.
//! What is written is read back equal. Nothing is buffered here beyond one block of lines.

use std::io::{self, Write};
use std::path::Path;

use super::header::Header;
use super::record::Record;
use crate::files::{self, FileError, Packing};

/// How much text is gathered before it is handed on.
const BLOCK: usize = 64 * 1024;

/// A whole number of 64 bits has at most so many digits and a sign.
const LONGEST_NUMBER: usize = 20;

/// Writes header and jobs to `out` as plain text.
pub fn write<'a>(
    out: &mut dyn Write,
    header: &Header,
    records: impl IntoIterator<Item = &'a Record>,
) -> io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK + 512);
    for line in header.lines() {
        block.extend_from_slice(line);
        block.push(b'\n');
    }
    for record in records {
        append_record(&mut block, record);
        if block.len() >= BLOCK {
            out.write_all(&block)?;
            block.clear();
        }
    }
    out.write_all(&block)
}

/// Writes a file, compressed where the name ends in `.gz`.
pub fn write_file<'a>(
    path: &Path,
    header: &Header,
    records: impl IntoIterator<Item = &'a Record>,
) -> Result<(), FileError> {
    write_file_as(path, Packing::of_name(path), header, records)
}

/// Writes a file, compressed or not whatever its name.
pub fn write_file_as<'a>(
    path: &Path,
    packing: Packing,
    header: &Header,
    records: impl IntoIterator<Item = &'a Record>,
) -> Result<(), FileError> {
    files::write(path, packing, |out| write(out, header, records))
}

fn append_record(block: &mut Vec<u8>, record: &Record) {
    let before = [record.job, record.submit, record.wait, record.run, record.allocated_processors];
    let after = [
        record.used_memory,
        record.requested_processors,
        record.requested_time,
        record.requested_memory,
        record.status,
        record.user,
        record.group,
        record.executable,
        record.queue,
        record.partition,
        record.preceding_job,
        record.think_time,
    ];
    for value in before {
        append_whole(block, value);
        block.push(b' ');
    }
    append_real(block, record.average_cpu_time);
    for value in after {
        block.push(b' ');
        append_whole(block, value);
    }
    block.push(b'\n');
}

fn append_whole(block: &mut Vec<u8>, value: i64) {
    let mut text = [0; LONGEST_NUMBER];
    let mut begin = text.len();
    let mut rest = value.unsigned_abs();
    loop {
        begin -= 1;
        // The remainder is below ten.
        text[begin] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        block.push(b'-');
    }
    block.extend_from_slice(&text[begin..]);
}

/// As few digits as give the same number again. What is not a number is unknown.
fn append_real(block: &mut Vec<u8>, value: f64) {
    let whole = value as i64;
    if !value.is_finite() {
        append_whole(block, super::UNKNOWN);
    } else if whole as f64 == value && whole.unsigned_abs() < 1 << 53 {
        append_whole(block, whole);
    } else {
        block.extend_from_slice(value.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(record: &Record) -> String {
        let mut block = Vec::new();
        append_record(&mut block, record);
        String::from_utf8(block).unwrap()
    }

    #[test]
    fn an_unknown_job_is_eighteen_times_minus_one() {
        assert_eq!(written(&Record::BLANK), format!("{}\n", ["-1"; 18].join(" ")));
    }

    #[test]
    fn whole_numbers_are_written_to_the_last_digit() {
        for value in [0, 7, -7, 10, 1_234_567_890, i64::MAX, i64::MIN] {
            let mut block = Vec::new();
            append_whole(&mut block, value);
            assert_eq!(block, value.to_string().as_bytes());
        }
    }

    #[test]
    fn reals_have_no_needless_digits() {
        for (value, text) in
            [(142.0, "142"), (552.21, "552.21"), (-1.0, "-1"), (0.1, "0.1"), (f64::NAN, "-1")]
        {
            let mut block = Vec::new();
            append_real(&mut block, value);
            assert_eq!(String::from_utf8(block).unwrap(), text);
        }
    }

    #[test]
    fn the_header_goes_first_and_as_it_is() {
        let mut header = Header::new();
        header.push("MaxProcs", 8);
        let mut out = Vec::new();
        write(&mut out, &header, [&Record { job: 1, ..Record::BLANK }]).unwrap();
        assert!(out.starts_with(b"; MaxProcs: 8\n1 -1 "));
    }
}
