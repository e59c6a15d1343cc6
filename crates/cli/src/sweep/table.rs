//! Tables of results as Parquet: named cells in, columns out. Files are written whole and then renamed, so a reader
//! never sees a part of one.

use super::values::{Kind, Value};
use anyhow::{Context, Result, anyhow};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::Field;
use parquet::schema::types::{Type, TypePtr};
use std::borrow::Cow;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

/// A named value of a row; None if there is no value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: Kind,
    pub(crate) value: Option<Value>,
}

pub(crate) type Row = Vec<Cell>;

impl Cell {
    pub(crate) fn new(name: impl Into<Cow<'static, str>>, value: Value) -> Cell {
        Cell { name: name.into(), kind: value.kind(), value: Some(value) }
    }

    pub(crate) fn int(name: &'static str, number: impl TryInto<i64>) -> Cell {
        Cell { name: name.into(), kind: Kind::Int, value: number.try_into().ok().map(Value::Int) }
    }

    pub(crate) fn float(name: impl Into<Cow<'static, str>>, number: f64) -> Cell {
        Cell::new(name, Value::Float(number))
    }

    pub(crate) fn none(name: &'static str, kind: Kind) -> Cell {
        Cell { name: name.into(), kind, value: None }
    }
}

/// A row as a JSON object.
pub(crate) fn object(row: &Row) -> serde_json::Map<String, serde_json::Value> {
    let value = |value: &Value| match value {
        Value::Flag(flag) => (*flag).into(),
        Value::Int(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Text(text) => serde_json::Value::from(text.clone()),
    };
    row.iter().map(|cell| (cell.name.clone().into_owned(), cell.value.as_ref().map(value).into())).collect()
}

/// The columns of rows: all names, in the order in which they first appear.
fn columns(rows: &[Row]) -> Vec<(&str, Kind)> {
    let mut columns: Vec<(&str, Kind)> = Vec::new();
    for cell in rows.iter().flatten() {
        if !columns.iter().any(|(name, _)| *name == cell.name) {
            columns.push((&cell.name, cell.kind));
        }
    }
    columns
}

/// Writes rows as a Parquet file, first under the name `draft`, which must be in the same file system.
pub(crate) fn write(draft: &Path, path: &Path, rows: &[Row]) -> Result<()> {
    let columns = columns(rows);
    let mut writer = create(draft, &columns)?;
    let mut group = writer.next_row_group()?;
    for (at, (name, kind)) in columns.iter().enumerate() {
        // Rows of one command have the same columns, so the cell is nearly always at the same place.
        let cell = |row: &'_ Row| -> Option<Value> {
            let found = row.get(at).filter(|cell| cell.name == *name);
            found.or_else(|| row.iter().find(|cell| cell.name == *name))?.value.clone()
        };
        write_column(&mut group, *kind, rows.iter().map(cell))?;
    }
    group.close()?;
    publish(writer, draft, path)
}

fn create(draft: &Path, columns: &[(&str, Kind)]) -> Result<SerializedFileWriter<File>> {
    let file = File::create(draft).with_context(|| format!("cannot create {}", draft.display()))?;
    Ok(SerializedFileWriter::new(file, schema(columns)?, properties())?)
}

fn properties() -> WriterPropertiesPtr {
    Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build())
}

fn schema(columns: &[(&str, Kind)]) -> Result<TypePtr> {
    let field = |(name, kind): &(&str, Kind)| -> Result<TypePtr> {
        let (physical, logical) = match kind {
            Kind::Flag => (Physical::BOOLEAN, None),
            Kind::Int => (Physical::INT64, None),
            Kind::Float => (Physical::DOUBLE, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        Ok(Arc::new(field.with_repetition(Repetition::OPTIONAL).build()?))
    };
    let fields = columns.iter().map(field).collect::<Result<_>>()?;
    Ok(Arc::new(Type::group_type_builder("sweep").with_fields(fields).build()?))
}

fn write_column(
    group: &mut SerializedRowGroupWriter<'_, File>,
    kind: Kind,
    values: impl Iterator<Item = Option<Value>>,
) -> Result<()> {
    match kind {
        Kind::Flag => typed::<BoolType>(group, values, |value| match value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }),
        Kind::Int => typed::<Int64Type>(group, values, |value| match value {
            Value::Int(number) => Some(number),
            _ => None,
        }),
        Kind::Float => typed::<DoubleType>(group, values, |value| value.number()),
        Kind::Text => {
            typed::<ByteArrayType>(group, values, |value| Some(ByteArray::from(&*value.to_string())))
        }
    }
}

fn typed<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: impl Iterator<Item = Option<Value>>,
    convert: impl Fn(Value) -> Option<T::T>,
) -> Result<()> {
    let values: Vec<Option<T::T>> = values.map(|value| value.and_then(&convert)).collect();
    let present: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    let mut column = group.next_column()?.context("a column more than the schema has")?;
    column.typed::<T>().write_batch(&values, Some(&present), None)?;
    column.close()?;
    Ok(())
}

/// Ends the file, waits until it is on the disk, and gives it its name.
fn publish(writer: SerializedFileWriter<File>, draft: &Path, path: &Path) -> Result<()> {
    let file = writer.into_inner()?;
    file.sync_all().with_context(|| format!("cannot write {}", draft.display()))?;
    drop(file);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    fs::rename(draft, path)
        .with_context(|| format!("cannot rename {} to {}", draft.display(), path.display()))
}

/// The columns of a table with one row a job, after the key of the run.
pub(crate) const JOB_COLUMNS: [&str; 7] = ["job", "submit", "start", "end", "processors", "wait", "request"];

/// Writes the jobs of one run; `jobs` has one list for each of [`JOB_COLUMNS`].
pub(crate) fn write_jobs(draft: &Path, path: &Path, key: &str, jobs: &[Vec<i64>; 7]) -> Result<()> {
    let mut columns = vec![("key", Kind::Text)];
    columns.extend(JOB_COLUMNS.map(|name| (name, Kind::Int)));
    let mut writer = create(draft, &columns)?;
    let mut group = writer.next_row_group()?;
    let keys = jobs[0].iter().map(|_| Some(Value::Text(key.to_owned())));
    write_column(&mut group, Kind::Text, keys)?;
    for numbers in jobs {
        write_column(&mut group, Kind::Int, numbers.iter().map(|number| Some(Value::Int(*number))))?;
    }
    group.close()?;
    publish(writer, draft, path)
}

/// Joins files with the same columns into one, by copying their row groups.
pub(crate) fn join<'a>(draft: &Path, path: &Path, parts: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    let mut writer: Option<SerializedFileWriter<File>> = None;
    for part in parts {
        let file = File::open(part).with_context(|| format!("cannot open {}", part.display()))?;
        let reader = SerializedFileReader::new(file.try_clone()?)?;
        let metadata = reader.metadata();
        if writer.is_none() {
            let schema = metadata.file_metadata().schema_descr().root_schema_ptr();
            let out = File::create(draft).with_context(|| format!("cannot create {}", draft.display()))?;
            writer = Some(SerializedFileWriter::new(out, schema, properties())?);
        }
        let Some(writer) = &mut writer else { continue };
        for group in metadata.row_groups() {
            let mut copy = writer.next_row_group()?;
            for column in group.columns() {
                let result = ColumnCloseResult {
                    bytes_written: u64::try_from(column.compressed_size())?,
                    rows_written: u64::try_from(group.num_rows())?,
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                copy.append_column(&file, result)?;
            }
            copy.close()?;
        }
    }
    writer.map_or(Ok(()), |writer| publish(writer, draft, path))
}

/// Reads a table; with a name, only that column.
pub(crate) fn read(path: &Path, only: Option<&str>) -> Result<Vec<Row>> {
    let damaged = || format!("{}: not a Parquet file of a sweep, or damaged", path.display());
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let reader = SerializedFileReader::new(file).with_context(damaged)?;
    let root = reader.metadata().file_metadata().schema();
    let wanted = |field: &&TypePtr| only.is_none_or(|name| field.name() == name);
    let fields: Vec<TypePtr> = root.get_fields().iter().filter(wanted).cloned().collect();
    if fields.is_empty() {
        return Err(anyhow!("no column {}", only.unwrap_or_default())).with_context(damaged);
    }
    let projection = Type::group_type_builder(root.name()).with_fields(fields).build()?;
    let mut rows = Vec::new();
    for row in reader.get_row_iter(Some(projection)).with_context(damaged)? {
        let row = row.with_context(damaged)?;
        rows.push(row.get_column_iter().map(|(name, field)| cell(name, field)).collect());
    }
    Ok(rows)
}

fn cell(name: &str, field: &Field) -> Cell {
    let value = match field {
        Field::Bool(flag) => Value::Flag(*flag),
        Field::Long(number) => Value::Int(*number),
        Field::Double(number) => Value::Float(*number),
        Field::Str(text) => Value::Text(text.clone()),
        // The kind of an absent value is not needed by a reader.
        _ => return Cell { name: name.to_owned().into(), kind: Kind::Text, value: None },
    };
    Cell::new(name.to_owned(), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_as_they_were_written_and_missing_values_stay_missing() {
        let folder = tempfile::tempdir().unwrap();
        let (draft, path) = (folder.path().join("draft"), folder.path().join("a=1/t.parquet"));
        let rows = vec![
            vec![
                Cell::new("name", Value::Text("é".into())),
                Cell::float("x", 0.1 + 0.2),
                Cell::int("n", 7_i64),
                Cell::new("f", Value::Flag(true)),
            ],
            vec![Cell::float("x", -1e300), Cell::new("name", Value::Text(String::new()))],
        ];
        write(&draft, &path, &rows).unwrap();
        assert!(!draft.exists());
        let read_rows = read(&path, None).unwrap();
        assert_eq!(read_rows[0], rows[0]);
        let values: Vec<Option<Value>> = read_rows[1].iter().map(|cell| cell.value.clone()).collect();
        assert_eq!(values, [Some(Value::Text(String::new())), Some(Value::Float(-1e300)), None, None]);
        assert_eq!(read(&path, Some("n")).unwrap()[0], [Cell::int("n", 7_i64)]);
        assert!(read(&path, Some("z")).is_err());
    }

    #[test]
    fn the_jobs_of_runs_are_joined_without_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let jobs = |first: i64| [0, 1, 2, 3, 4, 5, 6].map(|column| vec![first + column, first - column]);
        write_jobs(&at("d"), &at("1"), "one", &jobs(10)).unwrap();
        write_jobs(&at("d"), &at("2"), "two", &jobs(20)).unwrap();
        join(&at("d"), &at("all"), [at("1").as_path(), at("2").as_path()]).unwrap();
        let mut parts = read(&at("1"), None).unwrap();
        parts.extend(read(&at("2"), None).unwrap());
        assert_eq!(read(&at("all"), None).unwrap(), parts);
        assert_eq!(parts.len(), 4);
    }
}
