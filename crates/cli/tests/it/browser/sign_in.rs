//! Signing in: with a token, and at an identity provider.

#[path = "../../../../service/tests/it/oidc/provider.rs"]
#[allow(dead_code, reason = "tests of the service use the rest")]
mod provider;

use super::{Browser, free_port, site};
use crate::folder::Folder;
use crate::service::Service;
use provider::{CLIENT, IdentityProvider, Signer};

#[test]
fn a_user_signs_in_with_a_token_that_scripts_cannot_read_and_out_again() {
    let folder = Folder::with("north.toml", site(0, "[security]\nkeys = \"secret\"\n"));
    folder.succeed("token --new-secret secret");
    let token = folder.succeed("token --keys secret --user ada").out;
    let running = Service::start(&folder, "site --config north.toml");
    let browser = Browser::start();
    browser.open(&format!("{}/#/sign-in", running.url()));
    browser.fill("#token", "not.a.token");
    browser.click("#token-form button");
    browser.until_says("[role=alert]", "token");
    browser.fill("#token", token.trim());
    browser.click("#token-form button");
    browser.until_says("#user", "ada");
    assert_eq!(browser.value("document.cookie"), "");
    assert_eq!(browser.value("Object.keys(localStorage).concat(Object.keys(sessionStorage)).length"), 0);
    // A new page of the same browser has the user and the data at once.
    browser.driver.reload();
    browser.until_says("#user", "ada");
    browser.open(&format!("{}/#/sign-in", running.url()));
    browser.click("#sign-out");
    browser.until("!document.querySelector('#user').innerText.includes('ada')");
    browser.driver.reload();
    browser.until("document.documentElement.dataset.ready === 'true'");
    assert!(!browser.text_of("#user").contains("ada"));
    browser.quit();
    running.stop();
}

#[test]
fn a_user_signs_in_at_the_identity_provider_and_returns_to_the_page() {
    let signer = Signer::es256("one");
    // It serves as long as its runtime lives.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let provider = runtime.block_on(IdentityProvider::start(&[&signer]));
    provider.have_users(signer);
    let port = free_port();
    let url = format!("http://localhost:{port}");
    let security = format!(
        "[security]\nissuer = \"{}\"\naudience = \"north\"\n[security.sign_in]\nclient = \"{}\"\n\
         secret_file = \"client-secret\"\nurl = \"{url}\"\n",
        provider.issuer, CLIENT.0
    );
    let folder = Folder::with("north.toml", site(port, &security));
    folder.write("client-secret", CLIENT.1);
    folder.make_private("client-secret");
    let running = Service::start(&folder, "site --config north.toml");
    let browser = Browser::start();
    browser.open(&format!("{url}/#/sign-in?back=/mine"));
    browser.click("#oidc");
    browser.click("#nobody");
    browser.until_says("[role=alert]", "refused");
    browser.click("#oidc");
    browser.click("#ada");
    browser.until_says("#user", "ada");
    browser.until("location.hash === '#/mine'");
    browser.until("document.documentElement.dataset.live === 'live'");
    browser.open(&format!("{url}/#/timeline"));
    browser.ask("16", "1h", ("in 2 hours", "+20h"));
    browser.hold_first();
    browser.quit();
    running.stop();
}
