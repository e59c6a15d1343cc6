//! Parses the XML output of batch systems: elements, attributes and text. It is lenient, as their output is not
//! always well-formed. Grid Engine 8.1.9 prints elements like `<JATASK:    1024.>` after a restart of the master,
//! writes `%lt;` for `<` in names of jobs, and does not escape names of reservations, so any user who may reserve can
//! put a `<` or a whole tag there. Such names cannot contain a slash, so they cannot close an element: an element
//! that they open ends with its parent and has no effect beyond.
//!
//! Truncated output, or more than one document, is an error. Namespaces, document types and entities other than the
//! five of XML and numeric ones are not supported. Every error is a message.

/// An element with its attributes, text and children.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
    text: String,
    children: Vec<Element>,
}

/// Deeper tags become text, which bounds memory and recursion for hostile input.
const DEEPEST: usize = 64;

impl Element {
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The trimmed text of the first child with this name; None if it is missing or empty.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(Element::text).filter(|text| !text.is_empty())
    }

    /// Its own text, trimmed.
    pub(crate) fn text(&self) -> &str {
        self.text.trim()
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The root element of a document, or an error message.
pub(crate) fn read(document: &str) -> Result<Element, String> {
    let mut open: Vec<Element> = vec![Element::default()];
    let mut rest = document;
    while let Some(at) = rest.find('<') {
        let inside = open.last_mut().ok_or("an element ends that did not begin")?;
        unescape(&rest[..at], &mut inside.text);
        rest = &rest[at..];
        let (tag, after) = cut_tag(rest)?;
        rest = after;
        match tag {
            Tag::Nothing => {}
            Tag::End(name) => end(&mut open, name)?,
            Tag::Begin { inside, closed } if open.len() <= DEEPEST => {
                let element = element(inside);
                let name = element.name.clone();
                open.push(element);
                if closed {
                    end(&mut open, &name)?;
                }
            }
            // A stray `<` in text, or a tag that is nested too deep.
            Tag::Text | Tag::Begin { .. } => {
                open.last_mut().into_iter().for_each(|inside| inside.text.push('<'));
            }
        }
    }
    if open.len() > 1 {
        return Err(format!("it ends inside of <{}>", open.last().map_or("", |element| &element.name)));
    }
    let mut roots = open.pop().map(|outside| outside.children).unwrap_or_default().into_iter();
    match (roots.next(), roots.next()) {
        (Some(root), None) => Ok(root),
        (None, _) => Err("there is no element in it".into()),
        (Some(root), Some(_)) => Err(format!("something follows the end of <{}>", root.name)),
    }
}

enum Tag<'a> {
    Nothing,
    Text,
    Begin { inside: &'a str, closed: bool },
    End(&'a str),
}

/// Splits off the tag at the beginning of `text`.
fn cut_tag(text: &str) -> Result<(Tag<'_>, &str), String> {
    for (opening, closing) in [("<!--", "-->"), ("<?", "?>"), ("<!", ">")] {
        if let Some(inside) = text.strip_prefix(opening) {
            let (_, after) =
                inside.split_once(closing).ok_or("it ends inside of a comment or declaration")?;
            return Ok((Tag::Nothing, after));
        }
    }
    let Some(end) = tag_end(text)? else { return Ok((Tag::Text, &text[1..])) };
    let (inside, after) = (&text[1..end], &text[end + 1..]);
    let tag = match (inside.strip_prefix('/'), inside.strip_suffix('/')) {
        (Some(name), _) => Tag::End(first_word(name)),
        (None, Some(inside)) => Tag::Begin { inside, closed: true },
        (None, None) => Tag::Begin { inside, closed: false },
    };
    Ok((tag, after))
}

/// Position of the `>` that ends a tag, ignoring those in quotes. None if another tag begins before: then it is no
/// tag.
fn tag_end(text: &str) -> Result<Option<usize>, String> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match (quote, byte) {
            // Even in quotes: a `<` in text of a user must not swallow the tags that follow.
            (_, b'<') => return Ok(None),
            (None, b'>') => return Ok(Some(at)),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    Err("it ends inside of a tag".into())
}

/// Closes the innermost element with this name, and all elements inside it that are still open.
fn end(open: &mut Vec<Element>, name: &str) -> Result<(), String> {
    let innermost = open.iter().skip(1).rposition(|element| element.name == name);
    let at = innermost.ok_or_else(|| format!("</{name}> ends what did not begin"))? + 1;
    while open.len() > at {
        if let (Some(ended), Some(around)) = (open.pop(), open.last_mut()) {
            around.children.push(ended);
        }
    }
    Ok(())
}

fn element(inside: &str) -> Element {
    let name = first_word(inside);
    let mut element = Element { name: name.to_owned(), ..Element::default() };
    let mut rest = &inside[name.len()..];
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        // An attribute without quotes ends the list; the rest is ignored.
        let Some(quote) = after.chars().next().filter(|quote| matches!(quote, '"' | '\'')) else { break };
        // Both quotes are one byte long, so this is the boundary of a character.
        let Some((value, after)) = after[1..].split_once(quote) else { break };
        let mut unescaped = String::new();
        unescape(value, &mut unescaped);
        element.attributes.push((key.trim().to_owned(), unescaped));
        rest = after;
    }
    element
}

fn first_word(text: &str) -> &str {
    text.split([' ', '\t', '\r', '\n']).next().unwrap_or("")
}

/// Appends `text` with its entities replaced. Unknown entities stay as they are.
fn unescape(text: &str, into: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        into.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let known = rest.split_once(';').and_then(|(name, after)| Some((entity(name)?, after)));
        match known {
            Some((character, after)) => {
                into.push(character);
                rest = after;
            }
            None => into.push('&'),
        }
    }
    into.push_str(rest);
}

fn entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_attributes_and_texts_are_read() {
        let text = "<?xml version='1.0'?>\n<!-- x --><a xmlns:xsd=\"h\"><b  k=\"1 > 0\" l='&lt;'/> t&amp;u <b>2</b></a>";
        let root = read(text).unwrap();
        assert_eq!((root.name.as_str(), root.text(), root.text_of("b")), ("a", "t&u", None));
        let first = root.child("b").unwrap();
        assert_eq!((first.attribute("k"), first.attribute("l")), (Some("1 > 0"), Some("<")));
        assert_eq!(root.all("b").map(Element::text).collect::<Vec<_>>(), ["", "2"]);
    }

    #[test]
    fn what_torque_prints_is_read() {
        let text = "<?xml version=\"1.0\"?>\n<Data><Node><name>n&lt;1&#65;&#x42;</name><np>8</np><note/></Node>\n<Node/></Data>\n";
        let data = read(text).unwrap();
        assert_eq!((data.name.as_str(), data.all("Node").count()), ("Data", 2));
        let node = data.child("Node").unwrap();
        let texts = ["name", "np", "note", "nothing"].map(|name| node.text_of(name));
        assert_eq!(texts, [Some("n<1AB"), Some("8"), None, None]);
    }

    #[test]
    fn the_broken_elements_of_a_restarted_master_are_read() {
        let root =
            read("<a><JATASK:    1024.><x>1</x></JATASK:    1024.><y>2 & 3 &nope; %lt;</y></a>").unwrap();
        assert_eq!(root.child("JATASK:").and_then(|task| task.text_of("x")), Some("1"));
        assert_eq!(root.text_of("y"), Some("2 & 3 &nope; %lt;"));
    }

    #[test]
    fn a_name_with_tags_in_it_changes_nothing_around_it() {
        let junk = "<id>".repeat(100);
        for name in ["a&<", "a<b", "<id>9", "<<>", "a<b \"c", "<a b='", &junk] {
            let root =
                read(&format!("<r><s><name>{name}</name><id>7</id></s><s><id>8</id></s></r>")).unwrap();
            let ids: Vec<_> = root.all("s").map(|part| part.text_of("id")).collect();
            assert_eq!(ids, [Some("7"), Some("8")], "{name}");
        }
        assert_eq!(read("<r><name>a&<</name></r>").unwrap().text_of("name"), Some("a&<"));
    }

    #[test]
    fn what_is_no_document_is_told() {
        for (text, expected) in [
            ("", "no element"),
            ("error: commlib", "no element"),
            ("<a><b></a>x</b>", "</b> ends"),
            ("<a>", "inside of <a>"),
            ("<a", "inside of a tag"),
            ("<!-- ", "inside of a comment"),
            ("</a>", "</a> ends"),
            (&"<a>".repeat(100), "inside of <a>"),
            (&("<a>".repeat(100) + &"</a>".repeat(100)), "</a> ends"),
            ("<a></b>", "</b> ends"),
            ("<a/><b/>", "follows the end of <a>"),
        ] {
            let told = read(text).unwrap_err();
            assert!(told.contains(expected), "{text}: {told}");
        }
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(256))]

        #[test]
        fn no_text_makes_it_panic(text in "[<>/&;='\"a-c #x!?\u{e4} -]{0,60}") {
            let _ = read(&text);
        }
    }
}
