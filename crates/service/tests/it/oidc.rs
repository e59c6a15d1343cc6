//! Tokens of an identity provider whose keys are fetched: accepted tokens, replaced keys, and failures of the
//! provider.

mod provider;

use crate::connections::Authority;
use crate::daemon::{north, stop, with_token};
use crate::http::{Reply, Wire};
use axum::http::{HeaderMap, HeaderValue};
use bookahead_api as api;
use bookahead_client::Url;
use bookahead_service::daemon::{self, OnLostJournal, Running};
use bookahead_service::security::{
    Authenticator, Claims, Provider, ProviderState, Role, Secret, Timing, mint, server_config,
};
use bookahead_tests::polling::until_some;
use provider::{CLIENT, Fault, IdentityProvider, PUBLISHED_SECRET, Signer};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::{JoinHandle, JoinSet};

/// Fetches only at the start and on demand.
const QUIET: Timing = Timing {
    refresh: Duration::from_secs(3_600),
    keep: Duration::from_secs(3_600),
    on_demand: Duration::from_secs(3_600),
    retry: Duration::from_millis(50),
    // Longer than a fetch takes on a busy machine.
    timeout: Duration::from_secs(20),
    wait: Duration::from_secs(20),
};

/// An authenticator, and the task that fetches its keys.
struct Guarded {
    authenticator: Authenticator,
    task: JoinHandle<()>,
}

impl Guarded {
    /// With the keys of a provider, once they are fetched.
    async fn new(issuer: &IdentityProvider, timing: Timing) -> Guarded {
        let guarded = Guarded::begin(&issuer.issuer, None, timing);
        guarded.until(ProviderState::Ok).await;
        guarded
    }

    fn begin(issuer: &str, ca: Option<&Path>, timing: Timing) -> Guarded {
        let provider = Arc::new(Provider::new(issuer, ca.map(Into::into), timing).unwrap());
        let task = tokio::spawn(provider.clone().keep_fetching());
        Guarded { authenticator: Authenticator::by_provider(provider, "north".into()), task }
    }

    async fn until(&self, state: ProviderState) {
        until_some("the provider is in a state", || async {
            (self.authenticator.provider_health().unwrap().state == state).then_some(())
        })
        .await;
    }

    /// The status, and the user or the detail of the refusal.
    async fn ask(&self, token: &str) -> (u16, String) {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
        match self.authenticator.authenticate(&headers, None).await {
            Ok(identity) => (200, identity.user.to_string()),
            Err(problem) => (problem.status, problem.detail),
        }
    }

    async fn status(&self, token: &str) -> u16 {
        self.ask(token).await.0
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn claims(issuer: &str) -> Value {
    let expires = jiff::Timestamp::now().as_second() + 600;
    json!({"sub": "ada", "roles": ["user"], "iss": issuer, "aud": ["account", "north"], "exp": expires})
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_an_issuer_are_believed_if_they_are_for_us() {
    let (one, other) = (Signer::ed_dsa("one", 1), Signer::es256("other"));
    let provider = IdentityProvider::start(&[&one, &other]).await;
    let guarded = Guarded::new(&provider, QUIET).await;
    let ours = claims(&provider.issuer);
    for signer in [&one, &other] {
        assert_eq!(guarded.ask(&signer.sign(&ours)).await, (200, "ada".to_owned()));
    }
    for (wrong, why) in [
        (with(ours.clone(), "aud", json!("south")), "audience"),
        (with(ours.clone(), "aud", json!(["North"])), "audience"),
        (with(ours.clone(), "aud", Value::Null), "audience"),
        (with(ours.clone(), "iss", json!("https://id.example.org")), "issuer"),
        (with(ours.clone(), "iss", json!(format!("{}/", provider.issuer))), "issuer"),
        (with(ours.clone(), "iss", Value::Null), "issuer"),
        (with(ours.clone(), "exp", json!(1_800_000)), "expired"),
    ] {
        let (status, detail) = guarded.ask(&one.sign(&wrong)).await;
        assert!(status == 401 && detail.contains(why), "{wrong}: {status} {detail}");
    }
    let stranger = Signer::ed_dsa("one", 3);
    let (status, detail) = guarded.ask(&stranger.sign(&ours)).await;
    assert!(status == 401 && detail.contains("signature"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_key_is_no_secret() {
    let signer = Signer::ed_dsa("one", 1);
    let provider = IdentityProvider::start(&[&signer]).await;
    let guarded = Guarded::new(&provider, Timing { on_demand: Duration::ZERO, ..QUIET }).await;
    provider.fail(Fault::Oct);
    let forged = |secret: &[u8]| {
        let claims = Claims {
            user: "eve".into(),
            roles: [Role::Operator].into(),
            expires: jiff::Timestamp::now().as_second() + 600,
            not_before: None,
            issued: None,
            audience: Some("north".into()),
            issuer: Some(provider.issuer.clone()),
            id: None,
        };
        mint(&Secret::new(secret).unwrap(), &claims)
    };
    let public = signer.public();
    for secret in [&PUBLISHED_SECRET[..], public["x"].as_str().unwrap().as_bytes()] {
        assert_eq!(guarded.status(&forged(secret)).await, 401);
    }
    guarded.until(ProviderState::Failing).await;
    assert_eq!(guarded.status(&signer.sign(&claims(&provider.issuer))).await, 200, "the old keys stay");

    let fresh = Guarded::begin(&provider.issuer, None, QUIET);
    until_some("it was asked", || async { (provider.asked() > 3).then_some(()) }).await;
    assert_eq!(fresh.status(&forged(&PUBLISHED_SECRET)).await, 503);
    assert_eq!(fresh.status(&signer.sign(&claims(&provider.issuer))).await, 503, "all of it is refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_keys_stay_in_use_while_the_issuer_fails() {
    let (old, new) = (Signer::ed_dsa("old", 1), Signer::ed_dsa("new", 2));
    let provider = IdentityProvider::start(&[&old]).await;
    // One of the faults is known only by the timeout.
    let timing = Timing { on_demand: Duration::ZERO, timeout: Duration::from_secs(2), ..QUIET };
    let guarded = Guarded::new(&provider, timing).await;
    let ours = claims(&provider.issuer);
    for fault in Fault::ALL {
        provider.publish(&[&new]);
        provider.fail(fault);
        guarded.authenticator.provider().unwrap().fetch_soon();
        guarded.until(ProviderState::Failing).await;
        assert_eq!(guarded.status(&old.sign(&ours)).await, 200, "{fault:?}");
        assert_eq!(guarded.status(&new.sign(&ours)).await, 401, "{fault:?}");
        provider.publish(&[&old]);
        provider.fail(None);
        guarded.until(ProviderState::Ok).await;
    }
    provider.publish(&[&new]);
    assert_eq!(guarded.status(&new.sign(&ours)).await, 200);
    assert_eq!(guarded.status(&old.sign(&ours)).await, 401, "a key that is withdrawn is not used any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_fetched_again_and_again() {
    let (old, new) = (Signer::ed_dsa("old", 1), Signer::ed_dsa("new", 2));
    let provider = IdentityProvider::start(&[&old]).await;
    let often = Timing { refresh: Duration::from_millis(50), ..QUIET };
    let guarded = Guarded::new(&provider, often).await;
    provider.publish(&[&new]);
    let withdrawn = old.sign(&claims(&provider.issuer));
    until_some("a withdrawn key is not used any more", || async {
        (guarded.status(&withdrawn).await == 401).then_some(())
    })
    .await;
    assert_eq!(guarded.status(&new.sign(&claims(&provider.issuer))).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn invented_keys_cause_one_fetch_however_many_there_are() {
    let signer = Signer::ed_dsa("one", 1);
    let provider = IdentityProvider::start(&[&signer]).await;
    let guarded = Arc::new(Guarded::new(&provider, QUIET).await);
    let (ours, before) = (claims(&provider.issuer), provider.asked());
    for round in 0..5 {
        let mut asked = JoinSet::new();
        for at in 0..100 {
            let (guarded, token) =
                (guarded.clone(), signer.sign_as(&format!("invented-{round}-{at}"), &ours));
            asked.spawn(async move { guarded.status(&token).await });
        }
        assert_eq!(asked.join_all().await, [401; 100]);
        assert_eq!(guarded.status(&signer.sign(&ours)).await, 200);
    }
    assert_eq!(provider.asked(), before + 1, "500 invented keys");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_pause_an_unknown_key_is_looked_for_again() {
    let (one, two, three) = (Signer::ed_dsa("1", 1), Signer::ed_dsa("2", 2), Signer::ed_dsa("3", 3));
    let provider = IdentityProvider::start(&[&one]).await;
    let pause = Duration::from_millis(400);
    let guarded = Guarded::new(&provider, Timing { on_demand: pause, ..QUIET }).await;
    let (ours, begun) = (claims(&provider.issuer), Instant::now());
    provider.publish(&[&two]);
    assert_eq!(guarded.status(&two.sign(&ours)).await, 200, "the first triggers a fetch at once");
    provider.publish(&[&three]);
    until_some("the second triggers a fetch later", || async {
        (guarded.status(&three.sign(&ours)).await == 200).then_some(())
    })
    .await;
    assert!(begun.elapsed() >= pause, "{:?}", begun.elapsed());
    assert_eq!(provider.asked(), 3);
}

/// A fetch that lasts longer than the test: who waits for it gets no answer.
const ENDLESS: Duration = Duration::from_secs(3_600);

#[tokio::test(flavor = "multi_thread")]
async fn a_known_key_does_not_wait_for_a_slow_issuer() {
    let signer = Signer::ed_dsa("one", 1);
    let provider = IdentityProvider::start(&[&signer]).await;
    let slow = Timing { timeout: ENDLESS, wait: ENDLESS, on_demand: Duration::ZERO, ..QUIET };
    let guarded = Arc::new(Guarded::new(&provider, slow).await);
    provider.fail(Fault::Hang);
    let (ours, asked) = (claims(&provider.issuer), provider.asked());
    let unknown = tokio::spawn({
        let (guarded, token) = (guarded.clone(), signer.sign_as("unknown", &ours));
        async move { guarded.status(&token).await }
    });
    until_some("the issuer is asked", || async { (provider.asked() > asked).then_some(()) }).await;
    assert_eq!(guarded.status(&signer.sign(&ours)).await, 200);
    assert!(!unknown.is_finished(), "it waits for the issuer");
    unknown.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_key_does_not_wait_for_a_slow_issuer_for_long() {
    let signer = Signer::ed_dsa("one", 1);
    let provider = IdentityProvider::start(&[&signer]).await;
    let wait = Duration::from_millis(300);
    let guarded = Guarded::new(&provider, Timing { timeout: ENDLESS, wait, ..QUIET }).await;
    provider.fail(Fault::Hang);
    let begun = Instant::now();
    assert_eq!(guarded.status(&signer.sign_as("unknown", &claims(&provider.issuer))).await, 401);
    assert!(begun.elapsed() >= wait, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_not_used_for_ever_while_the_issuer_fails() {
    let signer = Signer::ed_dsa("one", 1);
    let provider = IdentityProvider::start(&[&signer]).await;
    let short = Timing { keep: Duration::from_secs(3), ..QUIET };
    let guarded = Guarded::new(&provider, short).await;
    provider.fail(Fault::Status(503));
    guarded.authenticator.provider().unwrap().fetch_soon();
    guarded.until(ProviderState::NoKeys).await;
    let token = signer.sign(&claims(&provider.issuer));
    let (status, detail) = guarded.ask(&token).await;
    assert!(status == 503 && detail.contains("try again"), "{status} {detail}");
    assert_eq!(guarded.status("x.y.z").await, 401, "what is no token is refused in any case");
    provider.fail(None);
    guarded.until(ProviderState::Ok).await;
    assert_eq!(guarded.status(&token).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_is_known_by_its_certificate() {
    let (authority, stranger, signer) = (Authority::new(), Authority::new(), Signer::es256("one"));
    let holder = authority.server();
    let tls = server_config(&holder.certificate, &holder.key, None).unwrap();
    let provider = IdentityProvider::start_at(([127, 0, 0, 1], 0).into(), Some(tls), &[&signer]).await;
    assert!(provider.issuer.starts_with("https://"));
    let token = signer.sign(&claims(&provider.issuer));
    let trusting = Guarded::begin(&provider.issuer, Some(&authority.file()), QUIET);
    trusting.until(ProviderState::Ok).await;
    assert_eq!(trusting.status(&token).await, 200);
    let before = provider.asked();
    let doubting = Guarded::begin(&provider.issuer, Some(&stranger.file()), QUIET);
    assert_eq!(doubting.status(&token).await, 503);
    until_some("it has tried again", || async {
        let failing = doubting.authenticator.provider_health().unwrap().failing_for;
        (failing > Some(4 * QUIET.retry)).then_some(())
    })
    .await;
    assert_eq!(doubting.status(&token).await, 503);
    assert_eq!(provider.asked(), before, "nothing is asked of a stranger");
}

async fn site(folder: &TempDir, issuer: &str) -> Running {
    let security = format!("[security]\nissuer = \"{issuer}\"\naudience = \"north\"\n");
    daemon::site(&north(None, &security), folder.path(), OnLostJournal::Ask).await.unwrap()
}

async fn status(running: &Running, token: &str) -> u16 {
    match with_token(running.url(), token.to_owned()).resources().await {
        Ok(_) => 200,
        Err(why) => why.problem().expect("a problem").status,
    }
}

async fn failing_seconds(running: &Running) -> f64 {
    let metrics = with_token(running.url(), String::new()).metrics().await.unwrap();
    let name = "bookahead_identity_provider_failing_seconds ";
    metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_site_takes_tokens_of_new_keys() {
    let (folder, old, new) = (TempDir::new().unwrap(), Signer::ed_dsa("old", 1), Signer::es256("new"));
    let provider = IdentityProvider::start(&[&old]).await;
    let running = site(&folder, &provider.issuer).await;
    let ours = claims(&provider.issuer);
    assert_eq!(status(&running, &old.sign(&ours)).await, 200, "the first caller waits for the first fetch");
    provider.publish(&[&old, &new]);
    assert_eq!(status(&running, &new.sign(&ours)).await, 200);
    assert_eq!(status(&running, &old.sign(&ours)).await, 200);
    let health = with_token(running.url(), String::new()).health().await.unwrap();
    let provider = health.identity_provider.unwrap();
    assert_eq!(provider.state, api::IdentityProviderState::Ok);
    assert!(provider.fetched_seconds_ago.is_some());
    stop(running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_asks_the_issuer() {
    let (folder, signer) = (TempDir::new().unwrap(), Signer::ed_dsa("one", 1));
    let provider = IdentityProvider::start(&[&signer]).await;
    let security = format!("[security]\nissuer = \"{}\"\naudience = \"north\"\n", provider.issuer);
    let config = north(None, &security);
    let told = async || {
        let findings = daemon::examine_site(&config, folder.path()).await;
        let about = findings.into_iter().find(|finding| finding.what == "identity provider").unwrap();
        about.seen
    };
    assert!(told().await.contains("1 usable keys"));
    provider.fail(Fault::Oct);
    assert!(told().await.contains("symmetric key"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_starts_without_its_issuer_and_believes_it_when_it_is_there() {
    let (folder, signer) = (TempDir::new().unwrap(), Signer::ed_dsa("one", 1));
    let address = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let issuer = format!("http://localhost:{}/realms/hpc", address.port());
    let running = site(&folder, &issuer).await;
    let token = signer.sign(&claims(&issuer));
    assert_eq!(status(&running, &token).await, 503);
    let anybody = with_token(running.url(), "x.y.z".to_owned());
    let health = anybody.health().await.unwrap();
    assert_eq!(health.status, api::Status::Ready);
    assert_eq!(health.identity_provider.unwrap().state, api::IdentityProviderState::NoKeys);
    assert!(failing_seconds(&running).await > 0.0);
    assert_eq!(status(&running, "x.y.z").await, 401);
    let provider = IdentityProvider::start_at(address, None, &[&signer]).await;
    assert_eq!(provider.issuer, issuer);
    until_some("the token is believed", || async { (status(&running, &token).await == 200).then_some(()) })
        .await;
    assert_eq!(failing_seconds(&running).await, 0.0);
    stop(running).await;
}

/// A running site whose pages are at `http://localhost:1/`, so that a test follows each step itself.
async fn site_with_pages(folder: &TempDir, issuer: &str) -> (Running, Wire) {
    std::fs::write(folder.path().join("secret"), CLIENT.1).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(folder.path().join("secret"), private).unwrap();
    let security = format!(
        "[security]\nissuer = \"{issuer}\"\naudience = \"north\"\n[security.sign_in]\nclient = \"{}\"\n\
         secret_file = \"secret\"\nurl = \"http://localhost:1\"\n",
        CLIENT.0
    );
    let running = daemon::site(&north(None, &security), folder.path(), OnLostJournal::Ask).await.unwrap();
    let address = running.url().strip_prefix("http://").unwrap().parse().unwrap();
    (running, Wire::new(address, None))
}

/// Begins to sign in: the cookie of the browser, and the page of the provider.
async fn begun(browser: &Wire) -> (String, String) {
    let reply = until_some("the provider is known", || async {
        let reply = browser.get("/sign-in?back=%23/mine").await;
        assert_eq!(reply.status, 303);
        (!reply.header("location").unwrap().contains("unavailable")).then_some(reply)
    })
    .await;
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("Max-Age=600"), "{cookie}");
    let url = Url::parse(reply.header("location").unwrap()).unwrap();
    let provider = Wire::new(format!("127.0.0.1:{}", url.port().unwrap()).parse().unwrap(), None);
    let page = provider.get(&format!("{}?{}", url.path(), url.query().unwrap())).await;
    assert_eq!(page.status, 200);
    (cookie.split(';').next().unwrap().to_owned(), page.body)
}

/// Where a link of the provider's page leads: a path of the pages.
fn link(page: &str, user: &str) -> String {
    let link = page.split_once(&format!("id=\"{user}\" href=\"")).unwrap().1.split_once('"').unwrap().0;
    link.replace("&amp;", "&").strip_prefix("http://localhost:1").unwrap().to_owned()
}

fn cookies(reply: &Reply) -> Vec<&str> {
    reply.headers("set-cookie").map(|cookie| cookie.split(';').next().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_signs_in_at_the_provider_and_stays_signed_in_after_a_restart() {
    let (folder, signer) = (TempDir::new().unwrap(), Signer::es256("one"));
    let provider = IdentityProvider::start(&[&signer]).await;
    provider.have_users(signer);
    let (running, browser) = site_with_pages(&folder, &provider.issuer).await;
    let ways = browser.get("/v1/session").await.document(200);
    assert_eq!(ways["sign_in"], json!({"token": true, "oidc": true, "choose_user": false}));
    let (cookie, page) = begun(&browser).await;
    let done = browser.send("GET", &link(&page, "ada"), &[("cookie", &cookie)], "").await;
    assert_eq!((done.status, done.header("location")), (303, Some("http://localhost:1/#/mine")));
    let session = cookies(&done)[0].to_owned();
    let shown = browser.send("GET", "/v1/session", &[("cookie", &session)], "").await.document(200);
    assert_eq!(shown["user"], json!({"name": "ada", "operator": false}));
    assert_eq!(browser.send("GET", "/v1/reservations", &[("cookie", &session)], "").await.status, 200);

    let again = browser.send("GET", &link(&page, "ada"), &[("cookie", &cookie)], "").await;
    assert_eq!(
        again.header("location"),
        Some("http://localhost:1/#/sign-in?fault=refused&back=%2Fmine"),
        "a code is redeemed once"
    );
    stop(running).await;
    let (running, browser) = site_with_pages(&folder, &provider.issuer).await;
    assert_eq!(browser.send("GET", "/v1/reservations", &[("cookie", &session)], "").await.status, 200);
    let forged = session.replace('~', "~~");
    assert_eq!(browser.send("GET", "/v1/reservations", &[("cookie", &forged)], "").await.status, 401);
    stop(running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_browser_that_began_is_signed_in() {
    let (folder, signer) = (TempDir::new().unwrap(), Signer::ed_dsa("one", 1));
    let provider = IdentityProvider::start(&[&signer]).await;
    provider.have_users(signer);
    let (running, browser) = site_with_pages(&folder, &provider.issuer).await;
    let ((mine, page), (other, _)) = (begun(&browser).await, begun(&browser).await);
    let back = async |path: &str, cookie: &str| {
        let reply = browser.send("GET", path, &[("cookie", cookie)], "").await;
        assert!(cookies(&reply).iter().all(|cookie| !cookie.starts_with("bookahead-session=~")));
        let (_, fault) = reply.header("location").unwrap().split_once("?fault=").unwrap();
        fault.split('&').next().unwrap().to_owned()
    };
    assert_eq!(back(&link(&page, "ada"), "").await, "stale");
    assert_eq!(back(&link(&page, "ada"), &other).await, "stale", "the state is that of another sign-in");
    assert_eq!(back(&link(&page, "ada"), &mine.replace('=', "=x")).await, "stale");
    assert_eq!(back(&link(&page, "nobody"), &mine).await, "denied");
    assert_eq!(back("/sign-in/done?code=%ff", &mine).await, "stale");
    let injected = link(&page, "ada").replace("code=code-0", "code=code-2");
    assert_eq!(back(&injected, &mine).await, "refused", "a code of another sign-in has another challenge");
    stop(running).await;
}
