//! The page `/docs`: the OpenAPI document as HTML, for people. Complete in itself: no script, nothing from elsewhere.

use serde_json::{Map, Value};
use std::fmt::Write as _;

const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--soft:#8882}\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem 1.5rem 4rem}\
nav{columns:16rem;border-block:1px solid var(--line);padding:.5rem 0;margin:1rem 0}nav a{display:block}\
h2{margin-top:3rem;border-bottom:1px solid var(--line)}h3{margin:2.5rem 0 .25rem}\
code,pre{font:13px/1.4 ui-monospace,monospace}pre{background:var(--soft);padding:.75rem;overflow-x:auto}\
.verb{display:inline-block;min-width:4rem;font-weight:600;text-transform:uppercase}\
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}\
td,th{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-top:1px solid var(--line)}\
small{opacity:.7}";

/// The page for a document.
pub(super) fn page(document: &Value) -> String {
    let mut page = Page(String::new());
    let title = escaped(text(&document["info"]["title"]));
    page.add(format_args!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} API</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\
         <h1>{title} API</h1><p>{}</p><p>For programs: <a href=\"openapi.json\">openapi.json</a>.</p>",
        marked(text(&document["info"]["description"])),
    ));
    let tags = document["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
    page.contents(document, tags);
    for tag in tags {
        let (name, about) = (text(&tag["name"]), text(&tag["description"]));
        page.add(format_args!("<h2>{}</h2><p>{}</p>", escaped(name), marked(about)));
        for (path, method, operation) in
            operations(document).filter(|(.., operation)| tagged(operation, name))
        {
            page.operation(document, path, method, operation);
        }
    }
    page.add(format_args!("<h2>Documents</h2>"));
    for (name, schema) in members(&document["components"]["schemas"]) {
        page.schema(name, schema);
    }
    page.add(format_args!("</body></html>\n"));
    page.0
}

struct Page(String);

impl Page {
    fn add(&mut self, piece: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(piece);
    }

    fn contents(&mut self, document: &Value, tags: &[Value]) {
        self.add(format_args!("<nav>"));
        for tag in tags {
            let name = text(&tag["name"]);
            for (.., operation) in operations(document).filter(|(.., operation)| tagged(operation, name)) {
                let (id, summary) = (text(&operation["operationId"]), text(&operation["summary"]));
                self.add(format_args!("<a href=\"#{}\">{}</a>", escaped(id), escaped(summary)));
            }
        }
        self.add(format_args!("</nav>"));
    }

    fn operation(&mut self, document: &Value, path: &str, method: &str, operation: &Value) {
        let (id, summary) = (text(&operation["operationId"]), text(&operation["summary"]));
        self.add(format_args!(
            "<h3 id=\"{}\">{}</h3><p><code><span class=\"verb\">{method}</span> {}</code></p><p>{}</p>",
            escaped(id),
            escaped(summary),
            escaped(path),
            marked(text(&operation["description"])),
        ));
        let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !parameters.is_empty() {
            self.add(format_args!("<h4>Parameters</h4><div class=\"wide\"><table>"));
            for parameter in parameters {
                let needed = parameter["required"] == true;
                let place = format!("{}{}", text(&parameter["in"]), if needed { ", required" } else { "" });
                self.row(
                    text(&parameter["name"]),
                    &place,
                    &parameter["schema"],
                    text(&parameter["description"]),
                );
            }
            self.add(format_args!("</table></div>"));
        }
        self.body(document, &operation["requestBody"]);
        self.add(format_args!("<h4>Answers</h4><div class=\"wide\"><table>"));
        for (status, response) in members(&operation["responses"]) {
            let response = resolved(document, response);
            let schema =
                members(&response["content"]).next().map_or(&Value::Null, |(_, content)| &content["schema"]);
            self.row(status, "", schema, text(&response["description"]));
        }
        self.add(format_args!("</table></div>"));
    }

    fn body(&mut self, document: &Value, body: &Value) {
        for (media, content) in members(&body["content"]) {
            let needed = if body["required"] == true { "" } else { ", optional" };
            let schema = &content["schema"];
            self.add(format_args!(
                "<h4>Body</h4><p>{} <small>{}{needed}</small></p>",
                kind(schema),
                escaped(media)
            ));
            self.example(&resolved(document, schema)["example"]);
        }
    }

    fn schema(&mut self, name: &str, schema: &Value) {
        let (name, about) = (escaped(name), marked(text(&schema["description"])));
        self.add(format_args!(
            "<h3 id=\"schema-{name}\">{name}</h3><p>{about} <small>{}</small></p>",
            kind(schema)
        ));
        let needed = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        if members(&schema["properties"]).next().is_some() {
            self.add(format_args!("<div class=\"wide\"><table>"));
            for (member, schema) in members(&schema["properties"]) {
                let needed = needed.iter().any(|needed| needed == member);
                self.row(member, if needed { "required" } else { "" }, schema, text(&schema["description"]));
            }
            self.add(format_args!("</table></div>"));
        }
        self.example(&schema["example"]);
    }

    fn row(&mut self, name: &str, note: &str, schema: &Value, about: &str) {
        let (name, note, kind, about) = (escaped(name), escaped(note), kind(schema), marked(about));
        self.add(format_args!(
            "<tr><td><code>{name}</code><br><small>{note}</small></td><td>{kind}</td><td>{about}</td></tr>"
        ));
    }

    fn example(&mut self, example: &Value) {
        if !example.is_null() {
            // `{:#}` of a JSON value is indented and cannot fail.
            self.add(format_args!("<pre>{}</pre>", escaped(&format!("{example:#}"))));
        }
    }
}

fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    members(&document["paths"]).flat_map(|(path, methods)| {
        METHODS.into_iter().filter_map(move |method| Some((path, method, methods.get(method)?)))
    })
}

fn tagged(operation: &Value, tag: &str) -> bool {
    operation["tags"].as_array().is_some_and(|tags| tags.iter().any(|name| name == tag))
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(name, member)| (name.as_str(), member))
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let place = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    place.and_then(|place| document.pointer(place)).unwrap_or(value)
}

/// The type of a schema in a few words, with links to the schemas that it names.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        let name = escaped(name);
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    if let Some(word) = schema["const"].as_str() {
        return format!("<code>\"{}\"</code>", escaped(word));
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> =
            words.iter().map(|word| format!("<code>{}</code>", escaped(text(word)))).collect();
        return words.join(", ");
    }
    if let Some(alternatives) = schema["oneOf"].as_array() {
        return alternatives.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let plain = match &schema["type"] {
        Value::Array(types) => types.iter().map(text).collect::<Vec<_>>().join(" or "),
        one => text(one).to_owned(),
    };
    match (plain.as_str(), text(&schema["format"])) {
        ("array", _) => format!("array of {}", kind(&schema["items"])),
        (_, "") => escaped(&plain),
        (_, format) => format!("{} <small>{}</small>", escaped(&plain), escaped(format)),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn escaped(text: &str) -> String {
    // The ampersand first: later it would also escape those of the other entities.
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text in which backquotes enclose code.
fn marked(text: &str) -> String {
    let pieces = escaped(text);
    let pieces = pieces.split('`').enumerate();
    pieces
        .map(|(at, piece)| if at % 2 == 1 { format!("<code>{piece}</code>") } else { piece.to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::openapi;
    use super::*;

    #[test]
    fn every_route_and_document_is_on_the_page_and_every_link_leads_somewhere() {
        let document = openapi::document();
        let page = page(&document);
        for (path, method, operation) in operations(&document) {
            let id = text(&operation["operationId"]);
            assert!(page.contains(&format!("<h3 id=\"{id}\">")), "{method} {path}");
        }
        for (name, _) in members(&document["components"]["schemas"]) {
            assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
        }
        for link in page.split("href=\"#").skip(1) {
            let target = link.split('"').next().unwrap();
            assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
        }
    }

    #[test]
    fn the_page_is_complete_in_itself() {
        let page = page(&openapi::document());
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("@import"));
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
        assert_eq!(marked("a `b<c` d"), "a <code>b&lt;c</code> d");
    }
}
