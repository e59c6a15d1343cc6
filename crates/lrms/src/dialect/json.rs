//! Objects in a list of JSON that may be damaged: whatever one of them has in it, the others are read. Batch systems write into
//! their JSON what users wrote, and do not always escape it. It relies on lists of objects with commas between, and never takes
//! longer than a few passes over the text.

use serde_json::{Map, Value};

/// No object is longer: one that seems to be has lost a quote, and the next is looked for after its beginning.
const LONGEST: usize = 1 << 20;
/// After so many that cannot be read the rest is not looked at: it is something else.
const MOST_UNREADABLE: usize = 1_000;

/// The objects of the list with this name, and how many could not be read. None where there is no such list, or the rest of the
/// text was cut off: then it is not known what else there is.
pub(crate) fn objects(text: &str, list: &str) -> Option<(Vec<Map<String, Value>>, usize)> {
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let Value::Array(values) = value.get(list)? else { return None };
        let objects: Vec<_> = values.iter().filter_map(|value| value.as_object().cloned()).collect();
        let odd = values.len() - objects.len();
        return Some((objects, odd));
    }
    let (_, after) = text.split_once(&format!("\"{list}\""))?;
    let mut rest = after.trim_start().strip_prefix(':')?.trim_start().strip_prefix('[')?;
    let key = first_key(rest).unwrap_or_default();
    let (mut objects, mut odd) = (Vec::new(), 0);
    while odd < MOST_UNREADABLE {
        rest = rest.trim_start_matches([',', ' ', '\t', '\r', '\n']);
        // A list inside of a damaged object ends so, too.
        if rest.is_empty() || (rest.starts_with(']') && next_alike(rest, key).is_none()) {
            break;
        }
        let end = end_of_object(rest);
        match end.and_then(|end| object(rest.get(..end)?)) {
            Some(object) => {
                objects.push(object);
                rest = rest.get(end.unwrap_or(rest.len())..).unwrap_or_default();
            }
            None => {
                odd += 1;
                rest = next_object(rest, key).or_else(|| rest.rfind(']').and_then(|at| rest.get(at..)))?;
            }
        }
    }
    let is_whole = rest.starts_with(']') && text.trim_end().ends_with('}');
    is_whole.then_some((objects, odd))
}

/// An object, also where control characters and backslashes in its texts are not escaped.
fn object(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&escaped(text)).ok())
}

/// Where the object ends that begins here.
fn end_of_object(text: &str) -> Option<usize> {
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    text.strip_prefix('{')?;
    for (at, byte) in text.bytes().enumerate().take(LONGEST) {
        match byte {
            _ if std::mem::take(&mut is_escaped) => {}
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' if !in_text => depth += 1,
            b'}' if !in_text => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The key that the first object begins with, in its quotes.
fn first_key(list: &str) -> Option<&str> {
    let begin = list.trim_start().strip_prefix('{')?.trim_start();
    let end = begin.strip_prefix('"')?.find('"')?;
    begin.get(..end + 2)
}

/// What follows the next `}` that has an object behind it (the comma between may be lost), or begins with the key that the first
/// object begins with: where the end of an object is lost, nothing else tells it from the next.
fn next_object<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let rests = text.match_indices('}').filter_map(|(at, _)| text.get(at + 1..));
    let mut nexts = rests.map(|rest| rest.trim_start_matches([',', ' ', '\t', '\r', '\n']));
    let behind = nexts.find(|next| next.starts_with('{'));
    behind.into_iter().chain(next_alike(text, key)).max_by_key(|next| next.len())
}

fn next_alike<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut begins = text.match_indices('{').filter(|(at, _)| *at > 0 && !key.is_empty());
    begins.find_map(|(at, _)| {
        let begin = text.get(at..)?;
        begin.strip_prefix('{')?.trim_start().starts_with(key).then_some(begin)
    })
}

fn escaped(text: &str) -> String {
    let mut fixed = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                fixed.push('\\');
                match characters.peek() {
                    Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u') => {
                        fixed.extend(characters.next());
                    }
                    _ => fixed.push('\\'),
                }
            }
            control if control < ' ' && !matches!(control, '\n' | '\r' | '\t') => fixed.push('?'),
            control if control < ' ' => fixed.push(' '),
            other => fixed.push(other),
        }
    }
    fixed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<i64>, usize) {
        let (objects, odd) = objects(text, "jobs").unwrap();
        (objects.iter().map(|object| object["id"].as_i64().unwrap()).collect(), odd)
    }

    #[test]
    fn one_damaged_object_hides_no_other() {
        let with =
            |odd: &str| format!("{{\"meta\": {{}}, \"jobs\": [\n{{\"id\": 1}}, {odd}, {{\"id\": 3}}\n]}}");
        assert_eq!(read(&with("{\"id\": 2}")), (vec![1, 2, 3], 0));
        assert_eq!(read(&with("{\"id\": 2, \"x\": \"a\u{1}\tb\\x\\\"\"}")), (vec![1, 2, 3], 0));
        for odd in ["{\"id\": 00}", "{\"id\": 2, \"x\": \"}", "{\"id\" 2}", "{\"id\": inf}", "7"] {
            let (ids, count) = read(&with(odd));
            assert!(ids.first() == Some(&1) && count > 0, "{odd}: {ids:?}");
            assert!(ids == [1, 3] || odd == "7", "{odd}: {ids:?}");
        }
        for cut in ["{\"jobs\": [{\"id\": 1}, {\"id\": 2", "{\"jobs\": []", "{\"jobs\": [", "{}", "x"] {
            assert_eq!(objects(cut, "jobs"), None, "{cut}");
        }
    }
}
