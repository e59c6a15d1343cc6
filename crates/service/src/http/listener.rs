//! Where a service listens: addresses of TCP, and Unix sockets. On a socket the system tells who connects, so that nobody
//! needs a token and nobody can pretend to be another.

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
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// What a Unix socket begins with, in configurations and addresses.
pub const UNIX: &str = "unix:";

/// An address to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address of this machine, with a port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    /// Names of machines are not looked up, since they may come to mean another address.
    fn from_str(text: &str) -> Result<Listen, String> {
        match text.strip_prefix(UNIX) {
            Some("") => Err(format!("\"{UNIX}\" names no file; write it as \"unix:/run/bookahead/site.sock\"")),
            Some(path) => Ok(Listen::Unix(path.into())),
            None => text.parse().map(Listen::Tcp).map_err(|_| {
                format!(
                    "\"{}\" is no address to listen at; write an IP address and a port, such as \"127.0.0.1:7420\", or \
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
    /// The address, if it is one of TCP.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Listen::Tcp(address) => Some(*address),
            Listen::Unix(_) => None,
        }
    }

    /// With an absolute path; `base` is the folder that paths begin at.
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

    /// Listens. A socket that an earlier service left behind is replaced; one that somebody listens at is in use.
    pub async fn bind(&self, tls: Option<Arc<ServerConfig>>) -> io::Result<Listener> {
        match self {
            Listen::Tcp(address) => Ok(Listener::Tcp(TcpListener::bind(address).await?, tls)),
            Listen::Unix(path) => {
                remove_left_behind(path)?;
                let listener = UnixListener::bind(path)?;
                let file = SocketFile(path.clone());
                // Whoever can reach the folder may connect: it is known who that is.
                fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
                Ok(Listener::Unix(listener, file))
            }
        }
    }
}

/// Removes a socket at which nobody listens. Other files are left alone.
fn remove_left_behind(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(why),
        Ok(about) if !about.file_type().is_socket() => {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "there is another file in its place"));
        }
        Ok(_) => {}
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(why) if why.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
        Err(why) => Err(why),
        Ok(_) => Err(ErrorKind::AddrInUse.into()),
    }
}

/// Listens.
pub enum Listener {
    /// At an address, with TLS or without.
    Tcp(TcpListener, Option<Arc<ServerConfig>>),
    /// At a socket.
    Unix(UnixListener, SocketFile),
}

/// The file of a socket. It goes with its listener.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What was accepted, before it is known what it says.
pub(super) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Where it listens, with the port that it got.
    pub fn local(&self) -> io::Result<Listen> {
        match self {
            Listener::Tcp(listener, _) => listener.local_addr().map(Listen::Tcp),
            Listener::Unix(_, file) => Ok(Listen::Unix(file.0.clone())),
        }
    }

    /// The address at which others on this machine, or elsewhere, reach it.
    pub fn url(&self) -> io::Result<String> {
        let scheme = match self {
            Listener::Tcp(_, Some(_)) => "https://",
            Listener::Tcp(_, None) => "http://",
            Listener::Unix(..) => "",
        };
        Ok(format!("{scheme}{}", self.local()?))
    }

    /// The next connection, and from whom it is.
    pub(super) async fn accept(&self) -> io::Result<(Accepted, PeerAddress)> {
        match self {
            Listener::Tcp(listener, _) => {
                let (stream, address) = listener.accept().await?;
                Ok((Accepted::Tcp(stream), PeerAddress::Tcp(address)))
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred()?.uid();
                Ok((Accepted::Unix(stream), PeerAddress::Account(user)))
            }
        }
    }
}

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAddress {
    /// Its address; that of the proxy where there is one.
    Tcp(SocketAddr),
    /// The number of the account that connected to a Unix socket.
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

/// Those who share what one of them may have: an address without its port, or an account. Whoever has an address of IPv6
/// usually has 2^64 of them.
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
