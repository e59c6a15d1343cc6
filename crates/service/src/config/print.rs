//! `--print-config`: the complete configuration of a site or broker, with defaults and comments. Comments, order
//! and examples come from the files in `reference`, values from the parsed structs, so parsing the output gives the
//! same configuration. A test checks that the reference has every field, and generates docs/configuration.md and the
//! JSON Schemas for editors from it.

use super::broker::BrokerConfig;
use super::site::SiteConfig;
use crate::journal::Database;
use serde::Serialize;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

const SITE: &str = concat!(
    include_str!("reference/head.toml"),
    include_str!("reference/site.toml"),
    "\n",
    include_str!("reference/tail.toml")
);
const BROKER: &str = concat!(
    include_str!("reference/head.toml"),
    include_str!("reference/broker.toml"),
    "\n",
    include_str!("reference/tail.toml")
);

impl SiteConfig {
    /// All fields as TOML with comments. Fails if a path is not UTF-8.
    pub fn print(&self) -> Result<String, toml::ser::Error> {
        // The default depends on the name, so it is printed as resolved.
        let config = SiteConfig {
            state: Some(printed(self.state.as_ref(), self.state(Path::new("")))),
            ..self.clone()
        };
        Ok(head("site", &self.name) + &filled(SITE, &values(&config)?))
    }
}

impl BrokerConfig {
    /// All fields as TOML with comments. Fails if a path is not UTF-8.
    pub fn print(&self) -> Result<String, toml::ser::Error> {
        // These defaults depend on other fields, so they are printed as resolved.
        let state = printed(self.state.as_ref(), self.state(Path::new("")));
        let (state, open) = (Some(state), Some(self.is_open()));
        let open_to_private_addresses = Some(self.is_open_to_private_addresses());
        let config = BrokerConfig { state, open, open_to_private_addresses, ..self.clone() };
        Ok(head("broker", &self.name) + &filled(BROKER, &values(&config)?))
    }
}

/// The folder as resolved, or the URL of a database without its password.
fn printed(said: Option<&PathBuf>, folder: PathBuf) -> PathBuf {
    let url = said.and_then(|said| said.to_str()).filter(|said| Database::is_url(said));
    url.map_or(folder, |url| Database::without_password(url).into())
}

fn values(config: &impl Serialize) -> Result<Table, toml::ser::Error> {
    Table::try_from(config)
}

fn head(role: &str, name: &str) -> String {
    format!(
        "# The complete configuration of the {role} {}.\n\
         # Paths are relative to the folder of this file; durations are strings such as \"50ms\", \"90s\", \"2h30m\".\n\
         # A commented field is not set, and has an example.\n\n",
        name.escape_debug()
    )
}

/// Replaces the examples of a reference by values. Omits tables that do not exist, and repeats those of lists and
/// maps.
fn filled(reference: &str, config: &Table) -> String {
    let mut printed = Vec::new();
    for paragraph in reference.split("\n\n") {
        let (headers, fields) = split_headers(paragraph);
        for (about, header) in headers {
            for (header, table) in tables(config, header) {
                let fields: Vec<String> = fields.iter().map(|line| filled_line(line, table)).collect();
                printed.push(format!("{about}{header}{}\n", fields.join("\n")));
            }
        }
    }
    printed.join("\n")
}

/// The headers of a paragraph, each with its comments, and the lines of the fields that their tables share.
fn split_headers(paragraph: &str) -> (Vec<(String, &str)>, Vec<&str>) {
    let mut headers = Vec::new();
    let mut above = Vec::new();
    for line in paragraph.lines() {
        above.push(line);
        if line.starts_with('[') {
            above.pop();
            headers.push((above.drain(..).map(|line| format!("{line}\n")).collect(), line));
        }
    }
    if headers.is_empty() {
        headers.push((String::new(), ""));
    }
    (headers, above)
}

/// `key = example` with its value, or as a comment if it has none.
fn filled_line(line: &str, table: &Table) -> String {
    match line.split_once(" = ") {
        Some((key, _)) if !line.starts_with('#') => match table.get(key) {
            Some(value) => format!("{key} = {value}"),
            None => format!("# {line}"),
        },
        _ => line.to_owned(),
    }
}

/// The tables that a header refers to, with their header lines.
fn tables<'a>(config: &'a Table, header: &str) -> Vec<(String, &'a Table)> {
    let path = header.trim_matches(['[', ']']);
    if path.is_empty() {
        return vec![(String::new(), config)];
    }
    let mut found = Some(config);
    let mut parts = path.split('.').peekable();
    while let (Some(part), Some(table)) = (parts.next(), found) {
        match (part, table.get(part)) {
            ("*", _) => {
                let named = table.iter().filter_map(|(name, value)| Some((name, value.as_table()?)));
                return named.map(|(name, one)| (header.replace('*', &key(name)) + "\n", one)).collect();
            }
            (_, Some(Value::Array(list))) => {
                return list
                    .iter()
                    .filter_map(Value::as_table)
                    .map(|one| (format!("{header}\n"), one))
                    .collect();
            }
            (_, value) => found = value.and_then(Value::as_table),
        }
    }
    found.map(|table| (format!("{header}\n"), table)).into_iter().collect()
}

/// Quotes a key if necessary.
fn key(name: &str) -> String {
    let written = Value::Table(Table::from_iter([(name.to_owned(), Value::Boolean(true))])).to_string();
    written.trim_start_matches("{ ").trim_end_matches(" = true }").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn a_printed_site_means_the_same() {
        let text = r#"
            name = "north \"1\""
            url = "https://north.example.org"
            attributes = { country = "de", "a b" = -3 }
            clock = { speed = 60, origin = "2026-11-16T00:00:00+01:00" }
            [holds]
            adaptive = { target = 80, shortest = "5s" }
            [user_limits."a.b"]
            share = 10
            [role_limits.reader]
            notice = "1h30m"
            [[resource]]
            name = "cluster"
            kind = "processors"
            capacity = 64
            method = "local-jobs-preferred"
            joins = ["a", "b"]
            tres = { "gres/gpu:a100" = 8, mem = 64000 }
            max_delay = "90s"
            notice = { predicted = "quantile", factor = 1.5, quantile = 90 }
            jobs = { load = 1, size = [1, 8], estimate = ["1m", "2m"], warm_up = "1d" }
            [[resource]]
            name = "log"
            kind = "processors"
            capacity = 64
            makespan_weight = 0.25
            admission = "local-jobs-preferred"
            notice = "90s"
            jobs = { swf = "a b.swf", repeat = false }
            [[broker]]
            url = "http://127.0.0.1:7400"
            [notify]
            command = ["/bin/a b", "c"]
            [[notify.webhook]]
            prefix = "https://portal.example.org/hooks/"
            secret_file = "portal.secret"
            [security]
            keys = "keys.json"
            tls = { certificate = "c.pem", key = "k.pem", client_ca = "ca.pem" }
            [[security.peer]]
            name = "broker"
            fingerprint = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
            roles = ["broker", "reader"]
            [[security.broker]]
            name = "grid"
            key = "grid.pub"
        "#;
        let read = |text: &str| SiteConfig::parse(Path::new("site.toml"), text);
        let site = read(text).expect("a site");
        let printed = site.print().expect("a site");
        let again = read(&printed).expect(&printed);
        assert_eq!(again, SiteConfig { state: again.state.clone(), ..site });
        assert_eq!(again.print().expect("a site"), printed);
    }

    #[test]
    fn a_printed_batch_system_means_the_same() {
        let projects = "project = \"physics\"\nprojects = { \"bob@example.org\" = \"chem\" }\n\
            qos = { urgent = \"high\" }";
        for (system, more) in [("grid-engine", "parallel_environment = \"smp\""), ("slurm", projects)] {
            a_printed_one_means_the_same(system, more);
        }
    }

    fn a_printed_one_means_the_same(system: &str, more: &str) {
        let text = r#"
            name = "north"
            [priorities.urgent]
            number = 100
            [batch]
            system = "SYSTEM"
            commands = "/opt/ge/bin"
            MORE
            environment = { SGE_ROOT = "/opt/ge", "A" = "b \" c" }
            accounting = true
            become = ["sudo", "-n", "-u", "{user}", "--"]
            accounts = { "ada@example.org" = "al1" }
            ssh = { host = "login", user = "u", port = 2222, key = "k", known_hosts = "h" }
            [[resource]]
            name = "cluster"
            kind = "processors"
            capacity = 64
            batch = { partition = "main", unit = "nodes", features = ["gpu", "ib"] }
        "#;
        let text = text.replace("SYSTEM", system).replace("MORE", more);
        let read = |text: &str| SiteConfig::parse(Path::new("site.toml"), text);
        let site = read(&text).expect("a site");
        let printed = site.print().expect("a site");
        let again = read(&printed).expect(&printed);
        assert_eq!(again, SiteConfig { state: again.state.clone(), ..site });
    }

    #[test]
    fn a_printed_broker_means_the_same() {
        let text = r#"
            name = "grid"
            [rules]
            after_refusal = "resource"
            holding = "sequential"
            enough_slots = 3
            [[peer]]
            name = "north"
            url = "http://127.0.0.1:7420"
            token_file = "north.token"
            audience = "north.example.org"
            [calls]
            mint = true
            certificate = "c.pem"
            key = "k.pem"
        "#;
        let read = |text: &str| BrokerConfig::parse(Path::new("broker.toml"), text);
        let broker = read(text).expect("a broker");
        let printed = broker.print().expect("a broker");
        let again = read(&printed).expect(&printed);
        let resolved = BrokerConfig {
            state: again.state.clone(),
            open: Some(true),
            open_to_private_addresses: Some(broker.is_open_to_private_addresses()),
            ..broker
        };
        assert_eq!(again, resolved);
    }

    /// The required fields of all tables.
    const SITE_FIELDS: &str = r#"
        name = "north"
        [batch]
        system = "slurm"
        [[resource]]
        name = "cluster"
        kind = "processors"
        capacity = 64
        [[broker]]
        url = "http://127.0.0.1:7400"
        [[notify.webhook]]
        prefix = "https://portal.example.org/hooks/"
        secret_file = "portal.secret"
        [security.tls]
        certificate = "site.pem"
        key = "site-key.pem"
        [[security.peer]]
        name = "broker"
        fingerprint = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        roles = ["broker"]
        [[security.broker]]
        name = "grid"
        key = "grid.pub"
    "#;
    const BROKER_FIELDS: &str =
        "name = \"grid\"\n[[peer]]\nname = \"north\"\nurl = \"http://127.0.0.1:7420\"\n";

    /// The fields of all tables that have a header in the reference; fields of a list count once.
    fn fields(table: &Table, path: &str, reference: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (key, value) in table {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match value {
                Value::Table(table) if reference.contains(&format!("[{path}")) => {
                    found.extend(fields(table, &path, reference));
                }
                Value::Array(list) if list.iter().any(Value::is_table) => {
                    let tables = list.iter().filter_map(Value::as_table);
                    found.extend(tables.flat_map(|table| fields(table, &path, reference)));
                }
                _ => drop(found.insert(path)),
            }
        }
        found
    }

    #[test]
    fn the_reference_has_every_field_and_no_other() {
        let site = SITE.replace(".*]", ".reader]");
        let read: SiteConfig = toml::from_str(&site).expect("a site");
        let written: Table = toml::from_str(&site).expect("TOML");
        assert_eq!(fields(&written, "", &site), fields(&values(&read).expect("values"), "", &site));
        let read: BrokerConfig = toml::from_str(BROKER).expect("a broker");
        let written: Table = toml::from_str(BROKER).expect("TOML");
        assert_eq!(fields(&written, "", BROKER), fields(&values(&read).expect("values"), "", BROKER));
    }

    #[test]
    fn the_documented_fields_are_those_of_the_reference() {
        let site: SiteConfig = toml::from_str(SITE_FIELDS).expect("a site");
        let broker: BrokerConfig = toml::from_str(BROKER_FIELDS).expect("a broker");
        let site = (toml::from_str(SITE_FIELDS).expect("TOML"), values(&site).expect("values"));
        let broker = (toml::from_str(BROKER_FIELDS).expect("TOML"), values(&broker).expect("values"));
        let common = concat!(include_str!("reference/head.toml"), "\n", include_str!("reference/tail.toml"));
        let page = format!(
            "{PAGE_HEAD}\n## Sites and brokers\n{}\n## Sites\n{}\n## Brokers\n{}",
            documented(common, &site),
            documented(include_str!("reference/site.toml"), &site),
            documented(include_str!("reference/broker.toml"), &broker)
        );
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        if std::env::var_os("BOOKAHEAD_UPDATE").is_some_and(|value| value == "1") {
            std::fs::write(&kept, &page).expect("written");
        }
        let same = std::fs::read_to_string(&kept).is_ok_and(|text| text == page);
        assert!(
            same,
            "docs/configuration.md is not what the reference says; run this test with BOOKAHEAD_UPDATE=1"
        );
    }

    const PAGE_HEAD: &str = "# Configuration: all fields\n\n\
        Generated from the comments and defaults of `--print-config`; see [services.md](services.md) for how to use them. Paths are relative to\n\
        the folder of the file. Durations are strings: `\"50ms\"`, `\"90s\"`, `\"2h30m\"`, `\"1d\"`.\n\n\
        For editors there are JSON Schemas of both files: [site.json](schemas/site.json) and [broker.json](schemas/broker.json). With\n\
        `#:schema docs/schemas/site.json` in the first line, editors with support for TOML complete and check the fields.\n";

    /// Each paragraph of a reference as a table. `given` has the required fields, `defaults` the default values.
    fn documented(reference: &str, (given, defaults): &(Table, Table)) -> String {
        let mut page = String::new();
        for paragraph in reference.trim_end().split("\n\n") {
            let (headers, fields) = split_headers(paragraph);
            for (about, header) in headers.iter().filter(|(_, header)| !header.is_empty()) {
                page += &format!("\n`{header}`: {}\n", about.replace("# ", "").replace('\n', " ").trim());
            }
            page += "\n| field | default | meaning |\n| --- | --- | --- |\n";
            let in_table = |config, key: &str| tables(config, headers[0].1).first()?.1.get(key).cloned();
            let mut meaning = Vec::new();
            for line in fields {
                let Some((key, example)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) else {
                    meaning.push(line.trim_start_matches("# "));
                    continue;
                };
                let default = match (in_table(given, key), in_table(defaults, key)) {
                    (Some(_), _) => "required".to_owned(),
                    (None, Some(value)) => format!("`{value}`"),
                    (None, None) => format!("none; such as `{example}`"),
                };
                page += &format!("| `{key}` | {default} | {} |\n", meaning.join(" "));
                meaning.clear();
            }
        }
        page
    }

    /// Fields that take values of several types.
    const OF_SEVERAL_TYPES: [&str; 2] = ["listen", "notice"];

    /// The JSON Schema of a configuration, from the reference. `given` has the required fields.
    fn schema(reference: &str, given: &Table) -> serde_json::Value {
        let mut root = json!({"$schema": "https://json-schema.org/draft/2020-12/schema"});
        for paragraph in reference.trim_end().split("\n\n") {
            let (headers, fields) = split_headers(paragraph);
            for (about, header) in headers {
                let table = place(&mut root, header);
                table["type"] = json!("object");
                if !about.is_empty() {
                    table["description"] = json!(about.replace("# ", "").replace('\n', " ").trim());
                }
                table["additionalProperties"] = json!(false);
                let in_table = |key: &str| {
                    tables(given, header).first().is_some_and(|(_, table)| table.contains_key(key))
                };
                let mut meaning = Vec::new();
                for line in &fields {
                    let Some((key, example)) = line.split_once(" = ").filter(|_| !line.starts_with('#'))
                    else {
                        meaning.push(line.trim_start_matches("# "));
                        continue;
                    };
                    let field = json!({"description": meaning.join(" "), "examples": [example]});
                    table["properties"][key] = typed(field, key, example);
                    meaning.clear();
                    if in_table(key) {
                        let required =
                            table.as_object_mut().unwrap().entry("required").or_insert_with(|| json!([]));
                        required.as_array_mut().unwrap().push(json!(key));
                    }
                }
            }
        }
        root
    }

    /// The schema of the table with a header. `*` stands for any name, and `[[` begins a list of tables.
    fn place<'a>(root: &'a mut serde_json::Value, header: &str) -> &'a mut serde_json::Value {
        let mut table = root;
        for part in header.trim_matches(['[', ']']).split('.').filter(|part| !part.is_empty()) {
            table["type"] = json!("object");
            table =
                if part == "*" { &mut table["additionalProperties"] } else { &mut table["properties"][part] };
        }
        if header.starts_with("[[") {
            table["type"] = json!("array");
            table = &mut table["items"];
        }
        table
    }

    fn typed(mut field: serde_json::Value, key: &str, example: &str) -> serde_json::Value {
        let value: Table = toml::from_str(&format!("value = {example}")).expect("TOML");
        let kind = match &value["value"] {
            Value::String(_) | Value::Datetime(_) => "string",
            Value::Integer(_) => "integer",
            Value::Float(_) => "number",
            Value::Boolean(_) => "boolean",
            Value::Array(_) => "array",
            Value::Table(_) => "object",
        };
        if !OF_SEVERAL_TYPES.contains(&key) {
            field["type"] = json!(kind);
        }
        field
    }

    #[test]
    fn the_schemas_for_editors_are_those_of_the_reference() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
        for (name, reference, given) in [("site", SITE, SITE_FIELDS), ("broker", BROKER, BROKER_FIELDS)] {
            let schema = schema(reference, &toml::from_str(given).expect("TOML"));
            let text = format!("{schema:#}\n");
            let kept = folder.join(format!("{name}.json"));
            if std::env::var_os("BOOKAHEAD_UPDATE").is_some_and(|value| value == "1") {
                std::fs::create_dir_all(&folder).expect("a folder");
                std::fs::write(&kept, &text).expect("written");
            }
            assert_eq!(schema["properties"]["name"]["type"], "string");
            assert_eq!(schema["properties"]["server"]["properties"]["most_parts"]["type"], "integer");
            assert!(schema["required"].as_array().is_some_and(|all| all.contains(&json!("name"))));
            let same = std::fs::read_to_string(&kept).is_ok_and(|kept| kept == text);
            assert!(
                same,
                "docs/schemas/{name}.json is not what the reference says; run this test with BOOKAHEAD_UPDATE=1"
            );
        }
    }
}
