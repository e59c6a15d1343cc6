//! Listeners: TCP addresses and Unix sockets. On a Unix socket the system identifies the connecting account, so
//! callers need no token and cannot impersonate others.

use rustls::ServerConfig;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Prefix of a Unix socket in configurations and URLs.
pub const UNIX: &str = "unix:";

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// IP address and port.
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    /// Host names are not resolved, because they may resolve to another address later.
    fn from_str(text: &str) -> Result<Listen, String> {
        match text.strip_prefix(UNIX) {
            Some("") => Err(format!("\"{UNIX}\" has no path; write it as \"unix:/run/bookahead/site.sock\"")),
            Some(path) => Ok(Listen::Unix(path.into())),
            None => text.parse().map(Listen::Tcp).map_err(|_| {
                format!(
                    "invalid address \"{}\"; use an IP address and a port, such as \"127.0.0.1:7420\", or \
                     a Unix socket, such as \"unix:/run/bookahead/site.sock\"",
                    text.escape_debug()
                )
            }),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Listen, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

impl Listen {
    /// The address, for TCP.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Listen::Tcp(address) => Some(*address),
            Listen::Unix(_) => None,
        }
    }

    /// Makes the path absolute, relative to `base`.
    #[must_use]
    pub fn below(&self, base: &Path) -> Listen {
        match self {
            Listen::Tcp(_) => self.clone(),
            Listen::Unix(path) => {
                let path = base.join(path);
                Listen::Unix(std::path::absolute(&path).unwrap_or(path))
            }
        }
    }

    /// Binds the listener. Replaces a socket that an earlier service left behind; a socket with a listener is in
    /// use.
    pub async fn bind(&self, tls: Option<Arc<ServerConfig>>) -> io::Result<Listener> {
        // Any account that can reach the folder may connect, because the service knows which account it is.
        self.bind_with_mode(tls, 0o666).await
    }

    /// The same; only this account and root can connect to a Unix socket.
    pub(crate) async fn bind_private(&self, tls: Option<Arc<ServerConfig>>) -> io::Result<Listener> {
        self.bind_with_mode(tls, 0o600).await
    }

    async fn bind_with_mode(&self, tls: Option<Arc<ServerConfig>>, mode: u32) -> io::Result<Listener> {
        match self {
            Listen::Tcp(address) => Ok(Listener::Tcp(TcpListener::bind(address).await?, tls)),
            Listen::Unix(path) => {
                remove_left_behind(path)?;
                let listener = UnixListener::bind(path)?;
                let file = SocketFile(path.clone());
                fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
                Ok(Listener::Unix(listener, file))
            }
        }
    }
}

/// Removes a socket without a listener. Other files are left alone.
fn remove_left_behind(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(why),
        Ok(about) if !about.file_type().is_socket() => {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "there is another file at this path"));
        }
        Ok(_) => {}
    }
    // The only test for a listener: the file of a socket stays when its process is killed.
    match std::os::unix::net::UnixStream::connect(path) {
        Err(why) if why.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
        Err(why) => Err(why),
        Ok(_) => Err(ErrorKind::AddrInUse.into()),
    }
}

/// A bound listener.
pub enum Listener {
    /// A TCP address, with or without TLS.
    Tcp(TcpListener, Option<Arc<ServerConfig>>),
    /// A Unix socket.
    Unix(UnixListener, SocketFile),
}

/// File of a socket; removed with its listener.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub(super) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Where it listens, with the actual port.
    pub fn local(&self) -> io::Result<Listen> {
        match self {
            Listener::Tcp(listener, _) => listener.local_addr().map(Listen::Tcp),
            Listener::Unix(_, file) => Ok(Listen::Unix(file.0.clone())),
        }
    }

    /// URL for other services.
    pub fn url(&self) -> io::Result<String> {
        let scheme = match self {
            Listener::Tcp(_, Some(_)) => "https://",
            Listener::Tcp(_, None) => "http://",
            Listener::Unix(..) => "",
        };
        Ok(format!("{scheme}{}", self.local()?))
    }

    /// Accepts the next connection, and identifies its origin.
    pub(super) fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Accepted, PeerAddress)>> {
        match self {
            Listener::Tcp(listener, _) => listener.poll_accept(context).map(|accepted| {
                let (stream, address) = accepted?;
                Ok((Accepted::Tcp(stream), PeerAddress::Tcp(address)))
            }),
            Listener::Unix(listener, _) => listener.poll_accept(context).map(|accepted| {
                let (stream, _) = accepted?;
                let user = stream.peer_cred()?.uid();
                Ok((Accepted::Unix(stream), PeerAddress::Account(user)))
            }),
        }
    }

    pub(super) fn tls(&self) -> Option<&Arc<ServerConfig>> {
        match self {
            Listener::Tcp(_, tls) => tls.as_ref(),
            Listener::Unix(..) => None,
        }
    }
}

/// Origin of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAddress {
    /// Remote address; behind a proxy, that of the proxy.
    Tcp(SocketAddr),
    /// User id of the account that connected to a Unix socket.
    Account(u32),
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddress::Tcp(address) => address.fmt(f),
            PeerAddress::Account(number) => write!(f, "uid {number}"),
        }
    }
}

/// Unit of sharing for limits: an address without port, or an account. For IPv6 it is the /64 network, because one
/// client usually has 2^64 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Address(IpAddr),
    Account(u32),
}

impl Source {
    pub(super) fn of_address(address: IpAddr) -> Source {
        Source::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                IpAddr::V6(if address.is_loopback() { address } else { network.into() })
            }
            short => short,
        })
    }
}

impl From<PeerAddress> for Source {
    fn from(peer: PeerAddress) -> Source {
        match peer {
            PeerAddress::Tcp(address) => Source::of_address(address.ip()),
            PeerAddress::Account(number) => Source::Account(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_tcp_or_a_file() {
        for text in ["127.0.0.1:7420", "[::1]:80", "unix:/run/a.sock", "unix:a.sock"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for wrong in ["", "localhost:80", "127.0.0.1", "unix:", "/run/a.sock"] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
        assert_eq!(
            "unix:a.sock".parse::<Listen>().unwrap().below(Path::new("/run")),
            Listen::Unix("/run/a.sock".into())
        );
    }

    #[tokio::test]
    async fn a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let listen = Listen::Unix(path.clone());
        // Dropping one of the standard library leaves its file.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = listen.bind(None).await.unwrap();
        assert_eq!(listener.url().unwrap(), format!("unix:{}", path.display()));
        let refused = listen.bind(None).await.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(listen.bind(None).await.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_network_of_ipv6_shares_what_one_may_have() {
        let source = |text: &str| Source::of_address(text.parse().unwrap());
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
        assert_ne!(source("::1"), source("::2"));
    }
}
