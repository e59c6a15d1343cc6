//! Reads a Parquet table for `bookahead workload import`: each row as the text that `sacct` would print. Timestamps
//! become seconds; nested columns are unknown.

use anyhow::{Context, Result};
use bookahead_workload::import::Import;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::fs::File;
use std::path::Path;

pub(super) fn read(path: &Path, import: &mut Import<'_>) -> Result<()> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("{name}: cannot be opened; check the path"))?;
    let damaged =
        || format!("{name}: not a Parquet file, damaged, or compressed with other than gzip or Snappy");
    let reader = SerializedFileReader::new(file).with_context(damaged)?;
    let schema = reader.metadata().file_metadata().schema();
    let columns: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
    let table = import.begin_table(&name, &columns)?;
    for (number, row) in (1..).zip(reader.get_row_iter(None).with_context(damaged)?) {
        let row = row.with_context(damaged)?;
        let values: Vec<String> = row.get_column_iter().map(|(_, field)| text(field)).collect();
        import.row(&name, number, &table, values.iter().map(String::as_str).collect())?;
    }
    Ok(())
}

fn text(field: &Field) -> String {
    match field {
        Field::Null | Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => String::new(),
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => String::from_utf8_lossy(bytes.data()).into_owned(),
        Field::TimestampMillis(millis) => millis.div_euclid(1_000).to_string(),
        Field::TimestampMicros(micros) => micros.div_euclid(1_000_000).to_string(),
        // Tables made with pandas have whole numbers with missing values as floating point.
        Field::Double(number) if number.is_nan() => String::new(),
        Field::Double(number) if number.fract() == 0.0 => format!("{number:.0}"),
        Field::Float(number) if number.is_nan() => String::new(),
        Field::Float(number) if number.fract() == 0.0 => format!("{number:.0}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_workload::import::ImportOptions;
    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    const SCHEMA: &str = "message jobs {
        REQUIRED INT64 job_id;
        REQUIRED INT64 submit_time (TIMESTAMP(MICROS,true));
        REQUIRED INT64 Start;
        REQUIRED INT64 End;
        REQUIRED DOUBLE ReqCPUS;
        REQUIRED BYTE_ARRAY User (UTF8);
    }";

    /// Two jobs, of which the second has no size.
    fn table(path: &Path, compression: Compression) {
        let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
        let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
        let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for numbers in [[7, 8], [1_000_000_000, 1_060_000_000], [1_010, 1_070], [1_100, 1_200]] {
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(&numbers, None, None).unwrap();
            column.close().unwrap();
        }
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&[4.0, f64::NAN], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let users = [ByteArray::from("ada"), ByteArray::from("bob")];
        column.typed::<ByteArrayType>().write_batch(&users, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
    }

    #[test]
    fn a_table_is_read_by_the_names_of_its_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.parquet");
        let renamed = |name: &str, column: &str| (name.to_owned(), column.to_owned());
        let columns = vec![renamed("JobID", "job_id"), renamed("Submit", "submit_time")];
        let options = ImportOptions { columns, ..ImportOptions::default() };
        for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
            table(&path, compression);
            let mut import = Import::new(&options, &|text| text.parse().ok());
            read(&path, &mut import).unwrap();
            let found = import.finish().unwrap();
            let jobs: Vec<_> = found
                .records
                .iter()
                .map(|job| [job.job, job.submit, job.wait, job.run, job.requested_processors, job.user])
                .collect();
            assert_eq!(jobs, [[7, 0, 10, 90, 4, 1], [8, 60, 10, 130, -1, 2]]);
        }
        std::fs::write(&path, "PAR1 and nothing else").unwrap();
        let options = ImportOptions::default();
        let error = read(&path, &mut Import::new(&options, &|_| None)).unwrap_err();
        assert!(error.to_string().contains("not a Parquet file"), "{error}");
    }
}
