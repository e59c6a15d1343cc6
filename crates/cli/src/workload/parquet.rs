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
