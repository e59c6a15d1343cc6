//! `bookahead token`: issues tokens for sites and brokers that verify them with a shared secret, and creates such
//! secrets.

use crate::output::say;
use crate::times::length;
use anyhow::{Context, Result, anyhow, ensure};
use bookahead_plan::Seconds;
use bookahead_service::security::{Claims, Keys, Role, mint, new_secret, new_token_id, user_name};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::Timestamp;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(
    after_help = "A token is as good as a password until it expires. Keep it in a file that only you can read (as --out writes \
    it), and do not put it on a command line."
)]
pub(crate) struct Arguments {
    /// Key file with the signing secret, as in security.keys of the service
    #[arg(long, value_name = "FILE", required_unless_present = "new_secret", requires = "user")]
    keys: Option<PathBuf>,

    /// User that the token is for
    #[arg(long, value_name = "NAME", requires = "keys")]
    user: Option<String>,

    /// Role of the user; may be repeated
    #[arg(long, value_name = "ROLE", default_value = "user", value_parser = role())]
    role: Vec<Role>,

    /// Lifetime of the token
    #[arg(long, value_name = "LENGTH", default_value = "8h", value_parser = length)]
    r#for: Seconds,

    /// Audience, as in security.audience of the service
    #[arg(long, value_name = "NAME")]
    audience: Option<String>,

    /// Issuer, as in security.issuer of the service
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,

    /// Write the token to this file, readable only by you [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Create a new secret in this file, readable only by you
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keys", "user", "role", "for", "audience", "issuer", "out"])]
    new_secret: Option<PathBuf>,
}

fn role() -> impl TypedValueParser<Value = Role> {
    // The fallback is never used, because clap accepts only these words. It has no special rights.
    PossibleValuesParser::new(Role::ALL.map(Role::word)).map(|word| Role::of(&word).unwrap_or(Role::User))
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    match (&arguments.new_secret, &arguments.keys, &arguments.user) {
        (Some(path), ..) => {
            let secret = new_secret().context("cannot get random numbers from the system")?;
            write_private(path, &secret, false)?;
            say!("wrote a new secret to {}; name this file in security.keys of the service", path.display());
            Ok(())
        }
        (None, Some(keys), Some(user)) => token(arguments, keys, user),
        // Clap has already refused any other combination.
        _ => Ok(()),
    }
}

fn token(arguments: &Arguments, keys: &Path, user: &str) -> Result<()> {
    ensure!(user_name(user).is_some(), "invalid --user {user:?}; use 1 to 255 visible characters");
    let read = Keys::read(keys).map_err(|why| anyhow!("{why}"))?;
    let secret = read.secret().with_context(|| {
        let path = keys.display();
        format!("{path} has no secret to sign with; create one with: bookahead token --new-secret FILE")
    })?;
    let now = Timestamp::now().as_second();
    let expires = now.saturating_add(arguments.r#for.0);
    let claims = Claims {
        user: user.into(),
        roles: arguments.role.iter().copied().collect(),
        expires,
        // Valid at once, also at a service whose clock is a little behind.
        not_before: None,
        issued: Some(now),
        audience: arguments.audience.clone(),
        issuer: arguments.issuer.clone(),
        id: Some(new_token_id().context("cannot get random numbers from the system")?),
    };
    let token = mint(secret, &claims) + "\n";
    match &arguments.out {
        Some(path) => {
            write_private(path, &token, true)?;
            say!("wrote {}", path.display());
        }
        None => stdout().write_all(token.as_bytes())?,
    }
    let roles: Vec<&str> = claims.roles.iter().copied().map(Role::word).collect();
    let until = Timestamp::from_second(expires)
        .map_or_else(|_| "without expiry".to_owned(), |at| format!("until {at}"));
    let id = claims.id.as_deref().unwrap_or_default();
    say!(
        "a token for {user}, as {}, {until}; to revoke it, add {id} to security.revoked_tokens",
        roles.join(" and ")
    );
    Ok(())
}

/// Writes a file with mode 0600. A secret must not be overwritten (`may_replace`), because issued tokens depend on it.
fn write_private(path: &Path, text: &str, may_replace: bool) -> Result<()> {
    let name = path.display();
    // The old file is removed and not truncated: it might be readable by others, and its mode would stay.
    if may_replace {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot replace {name}"));
            }
            _ => {}
        }
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).with_context(|| match path.exists() {
        true => format!("{name} already exists and is not overwritten; use another name"),
        false => format!("cannot write {name}; check the folder and its permissions"),
    })?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {name}"))
}
