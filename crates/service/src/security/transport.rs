//! Connections that may carry a token: TLS, or connections within this machine. Hosts that are this machine.

use axum::http::uri::Authority;
use bookahead_client::Url;
use std::net::IpAddr;

/// Whether a token sent to this URL, or to any of several, cannot be read by others. Host names other than
/// `localhost` count as remote, because they may resolve to another machine.
pub(crate) fn carries_tokens(url: &str) -> bool {
    // The other schemes are https and unix. A URL that cannot be parsed gets no token.
    url.split(',').all(|url| Url::parse(url.trim()).is_ok_and(|url| url.scheme() != "http" || is_local(&url)))
}

/// Whether the service at this URL runs on this machine.
pub(crate) fn is_on_this_machine(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| is_local(&url))
}

/// A URL without a host is a path, such as that of a Unix socket.
fn is_local(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return true };
    // `host_str` has brackets around an IPv6 address, which `IpAddr` does not accept.
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether the host of a request or URL, perhaps with a port, is this machine.
pub(super) fn names_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_matches(['[', ']']).to_ascii_lowercase();
    let address = name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
    address || name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_travel_by_tls_or_on_this_machine() {
        for url in [
            "https://north.example.org",
            "http://127.0.0.1:7420",
            "http://127.9.9.9",
            "http://[::1]:1/x",
            "http://[::ffff:127.0.0.1]",
            "http://LOCALHOST:7420",
        ] {
            assert!(carries_tokens(url), "{url}");
        }
        for url in [
            "http://north.example.org",
            "http://192.0.2.1:7420",
            "HTTP://192.0.2.1",
            "http://[2001:db8::1]",
            "http://0.0.0.0",
            "http://a.localhost",
            "http://localhost.example.org",
            "http://127.0.0.1.nip.io",
            "north",
        ] {
            assert!(!carries_tokens(url), "{url}");
        }
    }
    #[test]
    fn only_names_of_this_machine_are_local() {
        for local in
            ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.1.2.3", "[::1]:80", "[::1]", "a.localhost:1"]
        {
            assert!(names_this_machine(local), "{local}");
        }
        for foreign in [
            "",
            "example.org",
            "localhost.example.org",
            "10.0.0.1:80",
            "[::2]:1",
            "0.0.0.0",
            "a b",
            "127.0.0.1.nip.io",
        ] {
            assert!(!names_this_machine(foreign), "{foreign}");
        }
    }
}
