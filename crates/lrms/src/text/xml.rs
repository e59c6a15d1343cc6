//! The XML that Torque prints: elements with texts or elements inside. Attributes, comments and declarations are passed
//! over. It never trusts its input: what is not well-formed, too deep or unknown is an error in words.

/// An element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// The text directly inside, without blanks around.
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

/// Nothing that is read here is nested deeper.
const DEEPEST: usize = 32;

impl Element {
    /// The first child of a name.
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// All children of a name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of the first child of a name, if it has any.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_str()).filter(|text| !text.is_empty())
    }
}

/// Reads a document: its one outermost element.
pub(crate) fn document(text: &str) -> Result<Element, String> {
    let mut open = vec![Element::default()];
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        add_text(&mut open, before)?;
        rest = markup(&mut open, after)?;
    }
    add_text(&mut open, rest)?;
    let outside = open.pop().filter(|_| open.is_empty()).ok_or("an element is not closed")?;
    let mut roots = outside.children;
    match (roots.pop(), roots.is_empty(), outside.text.is_empty()) {
        (Some(root), true, true) => Ok(root),
        _ => Err("it is not one XML element".into()),
    }
}

/// What follows a `<`; answers what is behind it.
fn markup<'a>(open: &mut Vec<Element>, text: &'a str) -> Result<&'a str, String> {
    let passed =
        [("!--", "-->"), ("?", "?>"), ("!", ">")].into_iter().find(|(begin, _)| text.starts_with(begin));
    if let Some((_, end)) = passed {
        return text.split_once(end).map(|(_, rest)| rest).ok_or_else(|| format!("{end} is missing"));
    }
    let (tag, rest) = text.split_once('>').ok_or("a tag is cut off")?;
    if let Some(name) = tag.strip_prefix('/') {
        let element = open.pop().filter(|element| !open.is_empty() && element.name == name.trim());
        let element = element.ok_or_else(|| format!("</{}> closes nothing", shown(name)))?;
        put(open, element);
        return Ok(rest);
    }
    let name = tag.split([' ', '\t', '\n', '\r', '/']).next().unwrap_or_default();
    if name.is_empty() {
        return Err("an element has no name".into());
    }
    if open.len() > DEEPEST {
        return Err(format!("elements are nested deeper than {DEEPEST}"));
    }
    let element = Element { name: name.into(), ..Element::default() };
    if tag.ends_with('/') {
        put(open, element);
    } else {
        open.push(element);
    }
    Ok(rest)
}

fn put(open: &mut [Element], element: Element) {
    if let Some(parent) = open.last_mut() {
        parent.children.push(element);
    }
}

fn add_text(open: &mut [Element], text: &str) -> Result<(), String> {
    let text = unescaped(text.trim())?;
    if let Some(element) = open.last_mut() {
        element.text.push_str(&text);
    }
    Ok(())
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        let (entity, behind) = after.split_once(';').ok_or("an & is not followed by ;")?;
        plain.push_str(before);
        plain.push(character(entity).ok_or_else(|| format!("&{}; is not known", shown(entity)))?);
        rest = behind;
    }
    plain.push_str(rest);
    Ok(plain)
}

fn character(entity: &str) -> Option<char> {
    let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    match entity {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => match entity.strip_prefix("#x") {
            Some(digits) => number(digits, 16),
            None => number(entity.strip_prefix('#')?, 10),
        },
    }
}

/// A few characters of something that may be long.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    #[test]
    fn elements_and_texts_are_read() {
        let text = "<?xml version=\"1.0\"?>\n<!-- x --><Data a=\"b\"><Node><name>n&lt;1&#65;&#x42;</name><np>8</np></Node>\n<Node/></Data>\n";
        let data = document(text).unwrap();
        assert_eq!((data.name.as_str(), data.all("Node").count()), ("Data", 2));
        let node = data.child("Node").unwrap();
        assert_eq!(
            (node.text_of("name"), node.text_of("np"), node.text_of("x")),
            (Some("n<1AB"), Some("8"), None)
        );
    }

    #[test]
    fn what_is_not_well_formed_is_an_error() {
        let deep = "<a>".repeat(100) + &"</a>".repeat(100);
        for text in
            ["", "x", "<a>", "</a>", "<a></b>", "<a/><b/>", "<a>&x;</a>", "<a>&", "<", "<>", "<!--", &deep]
        {
            assert!(document(text).is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(2000), failure_persistence: None, ..ProptestConfig::default()
        })]
        #[test]
        fn nothing_makes_it_panic(text in "[<>/&;ab!?# -]{0,60}") {
            let _ = document(&text);
        }
    }
}
