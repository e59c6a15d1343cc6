//! Whom a token names, read without checking it: that is for the server. Only used to say "mine".

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

#[derive(Deserialize)]
struct Claims {
    sub: String,
}

/// The user whom a JSON Web Token is about; None where it is no such token.
pub(crate) fn user(token: &str) -> Option<String> {
    let claims = token.split('.').nth(1)?;
    let bytes = URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice(&bytes).ok().map(|claims: Claims| claims.sub)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_user() {
        let claims = URL_SAFE_NO_PAD.encode("{\"sub\":\"ada\",\"exp\":1}");
        assert_eq!(user(&format!("e30.{claims}.c2ln")).as_deref(), Some("ada"));
        for other in ["", "opaque", "a.b.c", "..", "e30.e30.e30"] {
            assert_eq!(user(other), None, "{other}");
        }
    }
}
