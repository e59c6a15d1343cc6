//! Objects in a JSON list that may be damaged: a damaged object does not affect the others. Batch systems copy text
//! of users into their JSON and do not always escape it. It expects lists of objects with commas in between, and
//! needs only a few passes over the text.

use serde_json::{Map, Value};

/// Longest object, in bytes. An object that seems longer has lost a quote, and the next one is searched for after its
/// beginning.
const LONGEST: usize = 1 << 20;
/// After this many damaged objects the rest is skipped: it is not a list of this kind.
const MOST_UNREADABLE: usize = 1_000;

/// The objects of the list with this name, and the number of damaged ones. None if there is no such list, or if the
/// text was cut off: then it is unknown what is missing.
pub(crate) fn objects(text: &str, list: &str) -> Option<(Vec<Map<String, Value>>, usize)> {
    // Undamaged output takes the fast path.
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
        // A list inside a damaged object ends in the same way.
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
                // If no object follows, only the end of the list is left; without that, the text was cut off.
                rest = next_object(rest, key).or_else(|| rest.rfind(']').and_then(|at| rest.get(at..)))?;
            }
        }
    }
    let is_whole = rest.starts_with(']') && text.trim_end().ends_with('}');
    is_whole.then_some((objects, odd))
}

/// Parses an object, even if control characters and backslashes in its strings are not escaped.
fn object(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&escaped(text)).ok())
}

/// End of the object that begins here.
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

/// The key that the first object begins with, including its quotes.
fn first_key(list: &str) -> Option<&str> {
    let begin = list.trim_start().strip_prefix('{')?.trim_start();
    let end = begin.strip_prefix('"')?.find('"')?;
    begin.get(..end + 2)
}

/// The next object: after the next `}` that is followed by one (the comma may be lost), or at the key that the first
/// object begins with. If the end of an object is lost, only that key separates it from the next.
fn next_object<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let rests = text.match_indices('}').filter_map(|(at, _)| text.get(at + 1..));
    let mut nexts = rests.map(|rest| rest.trim_start_matches([',', ' ', '\t', '\r', '\n']));
    let behind = nexts.find(|next| next.starts_with('{'));
    // The longest rest begins at the nearest object, so that no readable one is skipped.
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
