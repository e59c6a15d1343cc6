//! The web pages at `/`: files inside of the executable, and the data of the first view inside of the page, so that it
//! is drawn without another request. Everything else the pages do with the API.

use super::Shared;
use super::answer::Refusal;
use super::requester::Requester;
use crate::security::Identity;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bookahead_api as api;
use bookahead_party::Origin;
use bookahead_plan::Seconds;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The files of the folder `dashboard`.
macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../dashboard/", $name)))),*]
    };
}

const FILES: [(&str, &str); 37] = files!(
    "actions.js" "api.js" "ask.js" "badges.js" "boxes.js" "chart.js" "details.js" "dom.js" "draw.js" "form.js" "gestures.js"
    "holds.js" "icon.svg" "jobs.js" "lane-table.js" "live.js" "main.js" "mine.js" "overlay.js" "palette.js" "parts.css"
    "pens.js" "phone.js" "pixels.js" "places.js" "refusal.js" "request.js" "reservation.js" "route.js" "sheet.js"
    "sign-in.js" "sites.js" "state.js" "style.css" "time.js" "timeline.js" "usage.js"
);

const PAGE: &str = include_str!("../../dashboard/index.html");

/// Where the data of the first view goes.
const MARKER: &str = "<script type=\"application/json\" id=\"first-data\">{}</script>";

/// Pages take scripts, styles and data from their own service only, and are shown in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The first view: from a few hours ago, because running jobs began then, for a day.
const BEFORE_NOW: Seconds = Seconds(3 * 3_600);
const AFTER_NOW: Seconds = Seconds(21 * 3_600);
/// Width for which the first view is prepared: twice that of usual screens, so that zooming needs no other data at once.
const PIXELS: u32 = 2_400;

/// How long the page waits for the data of its first view, such as that of slow peers. Without it the page is empty at
/// first, and asks for it.
const PATIENCE: Duration = Duration::from_millis(100);

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/", get(index)).route("/dashboard/{file}", get(file))
}

/// The data of the first view. Missing parts are fetched by the page.
#[derive(Serialize)]
struct First {
    service: About,
    #[serde(flatten)]
    session: api::Session,
    /// Null if no user is signed in, so that the page need not ask.
    user: Option<api::SessionUser>,
    now: api::Timestamp,
    clock_rate: u32,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    view: Option<View>,
}

#[derive(Serialize)]
struct About {
    name: String,
    role: api::Role,
    version: String,
}

#[derive(Serialize)]
struct View {
    from: api::Timestamp,
    until: api::Timestamp,
    schedule: api::Schedule,
    resources: Vec<api::Resource>,
    sites: Vec<api::Site>,
}

async fn index(State(shared): State<Arc<Shared>>, mut request: Request) -> Result<Response, Refusal> {
    let user = shared.session_user(&mut request).await;
    let session = shared.session_of(&user);
    let viewer = match user.identity {
        Some(identity) => Some(identity),
        // Without authentication every caller may see the schedule.
        None if shared.authenticator.is_open() => {
            shared.identify(super::serve::peer(request.extensions()), request.headers()).await.ok()
        }
        None => None,
    };
    let clock = shared.party.clock();
    let first = First {
        service: About {
            name: shared.about.name.to_string(),
            role: shared.about.role,
            version: shared.about.version.clone(),
        },
        user: session.user.clone(),
        session: api::Session { user: None, ..session },
        now: api::Timestamp::nearest(clock.now().second()),
        clock_rate: clock.speed(),
        view: match viewer {
            Some(viewer) => tokio::time::timeout(PATIENCE, view(&shared, viewer)).await.ok().flatten(),
            None => None,
        },
    };
    let page = PAGE.replace(MARKER, &embedded(&first));
    Ok((headers("text/html; charset=utf-8"), [(CACHE_CONTROL, "no-store")], page).into_response())
}

/// What the viewer sees first. None if the service is too busy: the page asks again.
async fn view(shared: &Shared, viewer: Identity) -> Option<View> {
    let now = shared.party.clock().now().second();
    let (from, until) = (api::Timestamp::nearest(now - BEFORE_NOW), api::Timestamp::nearest(now + AFTER_NOW));
    let query =
        api::ScheduleQuery { resource: None, from: Some(from), until: Some(until), pixels: Some(PIXELS) };
    let blocked = shared.authenticator.lists().blocked_by(&viewer.user);
    let requester = Requester::new(viewer, blocked, Origin::default(), None);
    let schedule = shared.schedule(&requester, query).await.ok()?;
    let (resources, sites) = shared.read(|queries, now| (queries.resources(), queries.sites(now)));
    Some(View {
        from,
        until,
        schedule,
        resources: resources.into_iter().map(Into::into).collect(),
        sites: sites.into_iter().map(super::answer::site).collect(),
    })
}

/// The data as an element that browsers do not execute. Names of users must not end it, so that `<` is escaped.
fn embedded(first: &First) -> String {
    // Serialization of these types cannot fail.
    let text = serde_json::to_string(first).unwrap_or_else(|_| "{}".into()).replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"first-data\">{text}</script>")
}

async fn file(Path(name): Path<String>, headers_in: HeaderMap) -> Result<Response, Refusal> {
    let Some((name, content)) = FILES.iter().find(|(known, _)| *known == name) else {
        return Err(Refusal::new(api::Code::NotFound, "there is no such file"));
    };
    let tag = &*TAG;
    // Asked for each time, and answered in a few bytes while it is the same: after an update of the service the files
    // must fit together.
    let caching = [(CACHE_CONTROL, HeaderValue::from_static("no-cache")), (ETAG, tag.clone())];
    if headers_in.get(IF_NONE_MATCH).is_some_and(|known| known == tag) {
        return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
    }
    let kind = match name.rsplit_once('.') {
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    };
    Ok((headers(kind), caching, *content).into_response())
}

/// One tag for all files: those of another build may differ.
static TAG: LazyLock<HeaderValue> = LazyLock::new(|| {
    let all: String = FILES.iter().map(|(_, content)| *content).collect();
    let mut tag = String::from("\"");
    for byte in &digest(&SHA256, all.as_bytes()).as_ref()[..12] {
        // Writing to a string cannot fail.
        let _ = write!(tag, "{byte:02x}");
    }
    HeaderValue::from_str(&(tag + "\"")).unwrap_or(HeaderValue::from_static("\"\""))
});

fn headers(kind: &'static str) -> [(HeaderName, &'static str); 4] {
    [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "same-origin"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboard");
        let there: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "index.html")
            .collect();
        assert_eq!(there, FILES.iter().map(|(name, _)| (*name).to_owned()).collect());
    }

    #[test]
    fn the_page_has_a_place_for_the_first_data_and_nothing_that_its_policy_forbids() {
        assert_eq!(PAGE.matches(MARKER).count(), 1);
        assert!(!PAGE.contains("style=") && !PAGE.contains("onclick="));
        for (name, content) in FILES {
            assert!(!content.contains("innerHTML"), "{name} makes markup from text");
            let without_namespace = content.replace("http://www.w3.org/2000/svg", "");
            assert!(!without_namespace.contains("://"), "{name} names another server");
        }
    }

    #[test]
    fn a_name_cannot_end_the_element_with_the_first_data() {
        let user = Some(api::SessionUser { name: "</script><script>x".into(), operator: false });
        let sign_in = api::SignInWays { token: true, oidc: false, choose_user: false };
        let first = First {
            service: About { name: "north".into(), role: api::Role::Site, version: "1".into() },
            session: api::Session { user: None, sign_in },
            user,
            now: api::Timestamp::nearest(bookahead_plan::Time(0)),
            clock_rate: 1,
            view: None,
        };
        assert_eq!(embedded(&first).matches("</").count(), 1);
    }
}
