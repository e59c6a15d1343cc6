//! Webhook URLs that owners may use. URLs are compared after parsing: scheme, host, port, and path segments. A URL
//! must be in normal form, so that the receiver's parser and ours agree on its meaning.

use bookahead_client::Url;
use std::fmt;

/// Longest URL: proxies and servers usually accept no more.
const LONGEST: usize = 2_000;

/// A URL; owners may use it and all URLs below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prefix(Url);

impl Prefix {
    /// Fails with the reason and a remedy.
    pub(crate) fn parse(text: &str) -> Result<Prefix, String> {
        let url = sound(text)?;
        if url.query().is_some() {
            return Err("it has a query; write the part before the question mark".to_owned());
        }
        if url.scheme() == "http" && !is_loopback(&url) {
            return Err(
                "http is allowed on this machine only (127.0.0.1, [::1], localhost); write https".to_owned()
            );
        }
        Ok(Prefix(url))
    }

    /// Whether a URL is this one or below it.
    pub(crate) fn covers(&self, url: &Url) -> bool {
        let place = |url: &Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port());
        let (own, mut named) = (segments(&self.0), segments(url));
        place(&self.0) == place(url)
            // Whole segments: `/hooks` does not cover `/hooksa`. A trailing slash of the prefix is an empty
            // segment.
            && own.filter(|segment| !segment.is_empty()).all(|segment| named.next() == Some(segment))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Parses a URL, and refuses one with more than one interpretation.
pub(crate) fn sound(text: &str) -> Result<Url, String> {
    if text.len() > LONGEST {
        return Err(format!("it has {} characters; at most {LONGEST} are allowed", text.len()));
    }
    let url = Url::parse(text).map_err(|why| format!("it is not a URL: {why}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it must begin with https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("it must not contain a user or a fragment".to_owned());
    }
    // The parser normalizes case, default ports and dot segments. If that changed anything, another parser may
    // disagree.
    if url.as_str() != text {
        return Err(format!("it is ambiguous; write it as {url}"));
    }
    if segments(&url).any(is_ambiguous) {
        return Err(
            "its path must not have a dot segment, or an encoded dot, slash, backslash or percent sign"
                .to_owned(),
        );
    }
    Ok(url)
}

fn segments(url: &Url) -> impl Iterator<Item = &str> {
    url.path_segments().into_iter().flatten()
}

/// Whether a server could take a segment for `..`, or for two segments.
fn is_ambiguous(segment: &str) -> bool {
    let lower = segment.to_ascii_lowercase();
    // Some servers strip path parameters (`;…`) before they resolve dot segments.
    let name = lower.split(';').next().unwrap_or_default();
    matches!(name, "." | "..") || ["%2e", "%2f", "%5c", "%25", "%00"].iter().any(|code| lower.contains(code))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "https://portal.example.org/hooks/";

    fn covers(prefix: &str, url: &str) -> bool {
        sound(url).is_ok_and(|url| Prefix::parse(prefix).unwrap().covers(&url))
    }

    #[test]
    fn what_is_below_the_prefix_may_be_named() {
        for url in ["ada", "ada/1", "", "a.b", "ada?token=1%2F2", "a%20b", "..a"] {
            assert!(covers(PREFIX, &format!("{PREFIX}{url}")), "{url}");
        }
        assert!(covers("https://portal.example.org/hooks", &format!("{PREFIX}ada")));
        assert!(covers("https://portal.example.org/", "https://portal.example.org/any/thing"));
        assert!(covers("https://portal.example.org:8443/", "https://portal.example.org:8443/a"));
        assert!(covers("http://127.0.0.1:8080/", "http://127.0.0.1:8080/a"));
    }

    #[test]
    fn tricks_do_not_lead_elsewhere() {
        let hostile = [
            "http://portal.example.org/hooks/a",
            "https://portal.example.org/hooksa",
            "https://portal.example.org/hook",
            "https://portal.example.org/",
            "https://portal.example.org.evil.example/hooks/a",
            "https://portal.example.org@evil.example/hooks/a",
            "https://evil.example/https://portal.example.org/hooks/a",
            "https://evil.example#@portal.example.org/hooks/a",
            "https://evil.example\\@portal.example.org/hooks/a",
            "https://user@portal.example.org/hooks/a",
            "https://@portal.example.org/hooks/a",
            "https://portal.example.org:443/hooks/a",
            "https://portal.example.org:8443/hooks/a",
            "https://portal.example.org./hooks/a",
            "https://portal.example.org/hooks/../admin",
            "https://portal.example.org/hooks/..",
            "https://portal.example.org/hooks/./a",
            "https://portal.example.org/hooks/%2e%2e/admin",
            "https://portal.example.org/hooks/%2E%2e/admin",
            "https://portal.example.org/hooks/..%2fadmin",
            "https://portal.example.org/hooks/..%5Cadmin",
            "https://portal.example.org/hooks/%252e%252e/admin",
            "https://portal.example.org/hooks/..;/admin",
            "https://portal.example.org/hooks\\..\\admin",
            "https://portal.example.org/hooks/a\n",
            " https://portal.example.org/hooks/a",
            "https://portal.example.org/ho\toks/a",
            "https://portal.example.org/Hooks/a",
            "HTTPS://portal.example.org/hooks/a",
            "https://PORTAL.example.org/hooks/a",
            "https:portal.example.org/hooks/a",
            "https:///portal.example.org/hooks/a",
            "file:///hooks/a",
            "hooks/a",
            "",
        ];
        for url in hostile {
            assert!(!covers(PREFIX, url), "{url}");
        }
        assert!(!covers(PREFIX, &format!("{PREFIX}{}", "a".repeat(LONGEST))));
    }

    #[test]
    fn a_url_that_can_be_read_in_two_ways_is_refused_with_the_one_to_write() {
        let why = sound("https://PORTAL.example.org:443/hooks/../a").unwrap_err();
        assert_eq!(why, "it is ambiguous; write it as https://portal.example.org/a");
    }

    #[test]
    fn http_is_for_this_machine_alone() {
        for prefix in ["http://127.0.0.1:1/", "http://[::1]/a/", "http://localhost/"] {
            assert!(Prefix::parse(prefix).is_ok(), "{prefix}");
        }
        for prefix in ["http://portal.example.org/", "http://10.0.0.1/", "http://localhost.example.org/"] {
            assert!(Prefix::parse(prefix).unwrap_err().contains("https"), "{prefix}");
        }
        assert!(Prefix::parse("https://a.example/?q=1").is_err());
    }
}
