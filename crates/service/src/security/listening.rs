//! Where one may listen. Without authentication: only where nobody but this machine can call. Beyond it, tokens must not
//! travel in the clear, unless the operator says that something in front of the service takes care of that.

use super::gate::Gate;
use std::net::SocketAddr;

/// Whether one may listen at this address. `protected`: by TLS, or, by the operator's word (`insecure_plain_http`), by
/// something in front of the service. Says what to do where one may not.
pub fn may_listen(address: SocketAddr, gate: &Gate, protected: bool) -> Result<(), String> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    if gate.is_open() {
        return Err(format!(
            "refusing to listen on {address} without authentication: everybody could book and cancel; \
             set security.keys to a key file, or listen on 127.0.0.1"
        ));
    }
    if !protected {
        return Err(format!(
            "refusing to listen on {address} without TLS: tokens could be read on the way; set security.tls, or, \
             behind a proxy that does TLS, security.insecure_plain_http = true, or listen on 127.0.0.1"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Keys, TokenRules};
    use super::*;

    #[test]
    fn beyond_loopback_both_authentication_and_tls_are_wanted() {
        let (open, guarded) = (Gate::open(), Gate::new(Keys::none(), TokenRules::default()));
        for local in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            for gate in [&open, &guarded] {
                assert_eq!(may_listen(local.parse().unwrap(), gate, false), Ok(()), "{local}");
            }
        }
        for public in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "[::ffff:10.0.0.1]:80"] {
            let may = |gate, protected| may_listen(public.parse().unwrap(), gate, protected);
            assert!(may(&open, true).unwrap_err().contains("security.keys"), "{public}");
            assert!(may(&guarded, false).unwrap_err().contains("security.tls"), "{public}");
            assert_eq!(may(&guarded, true), Ok(()), "{public}");
        }
    }
}
