//! `bookahead token`: tokens for sites and brokers that take them from a secret of their own, and such a secret.

use crate::output::say;
use crate::times::length;
use anyhow::{Context, Result, anyhow, ensure};
use bookahead_plan::Seconds;
use bookahead_service::security::{Claims, Keys, Role, mint, new_secret, user_name};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::Timestamp;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(
    after_help = "A token is as good as a password until it expires: give it in a file that nobody else may read \
    (--out makes one), and not on a command line."
)]
pub(crate) struct Arguments {
    /// The key file with the secret that signs, as in security.keys of the service
    #[arg(long, value_name = "FILE", required_unless_present = "new_secret", requires = "user")]
    keys: Option<PathBuf>,

    /// Who calls
    #[arg(long, value_name = "NAME", requires = "keys")]
    user: Option<String>,

    /// What he may; may be given several times
    #[arg(long, value_name = "ROLE", default_value = "user", value_parser = role())]
    role: Vec<Role>,

    /// How long it holds
    #[arg(long, value_name = "LENGTH", default_value = "8h", value_parser = length)]
    r#for: Seconds,

    /// Whom it is meant for, as in security.audience of the service
    #[arg(long, value_name = "NAME")]
    audience: Option<String>,

    /// Whom it is from, as in security.issuer of the service
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,

    /// Write it to a file that nobody else may read, instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Make a new secret in this file, which nobody else may read
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keys", "user", "role", "for", "audience", "issuer", "out"])]
    new_secret: Option<PathBuf>,
}

fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::word)).map(|word| Role::of(&word).unwrap_or(Role::User))
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    match (&arguments.new_secret, &arguments.keys, &arguments.user) {
        (Some(path), ..) => {
            let secret = new_secret().context("the system gives no random numbers")?;
            write_private(path, &secret, false)?;
            say!("wrote a new secret to {}; give it to the service as security.keys", path.display());
            Ok(())
        }
        (None, Some(keys), Some(user)) => token(arguments, keys, user),
        // The options say what is required.
        _ => Ok(()),
    }
}

fn token(arguments: &Arguments, keys: &Path, user: &str) -> Result<()> {
    ensure!(user_name(user).is_some(), "--user {user:?}: a name has 1 to 255 characters, all visible");
    let read = Keys::read(keys).map_err(|why| anyhow!("{why}"))?;
    let secret = read.secret().with_context(|| {
        let path = keys.display();
        format!("{path} has no secret to sign with; make one with: bookahead token --new-secret FILE")
    })?;
    let now = Timestamp::now().as_second();
    let expires = now.saturating_add(arguments.r#for.0);
    let claims = Claims {
        user: user.into(),
        roles: arguments.role.iter().copied().collect(),
        expires,
        not_before: None,
        issued: Some(now),
        audience: arguments.audience.clone(),
        issuer: arguments.issuer.clone(),
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
    let until =
        Timestamp::from_second(expires).map_or_else(|_| "for ever".to_owned(), |at| format!("until {at}"));
    say!("a token for {user}, as {}, {until}", roles.join(" and "));
    Ok(())
}

/// Nobody else may read it, from the moment it is there. A secret is never written over, since tokens depend on it.
fn write_private(path: &Path, text: &str, may_replace: bool) -> Result<()> {
    let name = path.display();
    if may_replace {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{name} cannot be replaced"));
            }
            _ => {}
        }
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).with_context(|| match path.exists() {
        true => format!("{name} is there already, and is not written over; give another name"),
        false => format!("{name} cannot be written; check the folder and its permissions"),
    })?;
    file.write_all(text.as_bytes()).with_context(|| format!("{name} cannot be written"))
}
