//! Invitations: a reservation that is shared with a user who has not answered. A guest sees who owns the reservation, but
//! of the other guests only those of its own projects. An answer changes the request, as the owner could, so that it
//! reaches all parties and batch systems on the same way.

use super::answer::{Refusal, Written, document, written};
use super::limits::{Checked, Limits, optional_name};
use super::openapi::{OfBody, OfReservation, Refused, ReservationAndKey, ReservationNow};
use super::request::{Command, Document, Filters};
use super::requester::{Changing, Requester};
use super::{Shared, answer, projects};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bookahead_api as api;
use bookahead_api::Code;
use bookahead_protocol::{Answer, Call, Caller, Consent, Name, Problem, Reservation, ReservationId, Why};
use std::sync::Arc;

/// Most attempts to answer an invitation that others change at the same time: 64 guests may answer in one moment.
const MOST_ATTEMPTS: usize = 65;

/// A reservation as one caller may see it.
pub(super) struct Seen {
    pub(super) reservation: Reservation,
    /// Whether the caller has not answered its invitation.
    pub(super) invitation: bool,
}

impl Seen {
    pub(super) fn document(self) -> Result<api::Reservation, Refusal> {
        let Seen { reservation, invitation } = self;
        Ok(api::Reservation { invitation, ..document(reservation)? })
    }
}

/// Answer an invitation
///
/// Accepts or declines a reservation that another user shared with the caller. Who declines does not see it any more.
/// The answer can be changed until the reservation ends. A reservation that attracts jobs attracts those of the caller
/// once it is accepted.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/invitation", operation_id = "answer_invitation", tag = "reservations",
    params(ReservationAndKey),
    request_body = api::InvitationAnswer,
    responses(ReservationNow, Refused, OfBody, OfReservation)
)]
pub(super) async fn answer_invitation(
    command: Command<ReservationId>,
    Document(given): Document<api::InvitationAnswer>,
) -> Result<Response, Refusal> {
    let Command { shared, requester, id, key } = command;
    let consent = given.answer.into();
    for attempt in 0..MOST_ATTEMPTS {
        let reservation = shared.invited_to(&requester, id).await?;
        if reservation.consents.get(requester.user()) == Some(&consent) {
            return Ok(Written::new(shared.as_seen(&requester, reservation))?.shown());
        }
        let call = answered(&requester, &reservation, consent)?;
        let owner = Caller { user: reservation.owner, roles: Vec::new() };
        match shared.command_of(&requester, owner, key.derived(attempt), call).await? {
            Answer::Problem(problem) if matches!(problem.why, Why::Changed { .. }) => {}
            answered => {
                let reservation = answer::reservation(answered)?;
                return Ok(Written::new(shared.as_seen(&requester, reservation))?.shown());
            }
        }
    }
    Err(Problem::new(Why::Busy).into())
}

/// The change of the request that an answer makes.
fn answered(requester: &Requester, reservation: &Reservation, consent: Consent) -> Result<Call, Refusal> {
    let (id, state) = (reservation.id, reservation.state);
    let Some(request) = reservation.request.as_deref().filter(|_| !state.is_over()) else {
        return Err(Refusal::new(
            Code::Illegal,
            format!("it is {state}; an invitation can be answered until it ends"),
        ));
    };
    if !state.is_standing() {
        let why = format!("it is {state} and not booked yet; answer when its owner has committed it");
        return Err(Refusal::new(Code::Illegal, why));
    }
    let mut request = request.clone();
    request.consents.insert(requester.user().clone(), consent);
    Ok(Call::Change { id, version: Some(reservation.version), request })
}

impl Checked for api::BlockedUser {
    fn check(&self, _: &Limits) -> Result<(), Refusal> {
        optional_name("user", Some(&self.user))
    }
}

impl Shared {
    /// A reservation with its request that is shared with the caller, also if the caller declined it.
    async fn invited_to(&self, requester: &Requester, id: ReservationId) -> Result<Reservation, Refusal> {
        let user = requester.user().clone();
        let found = self.read(move |queries, now| {
            let shown = queries.reservation(now, id).filter(|shown| shown.shared_with.contains(&user))?;
            let owner = Caller { user: shown.owner, roles: Vec::new() };
            queries.ask(now, &owner, &Call::Show { id })
        });
        if let Some(found) = found {
            return answer::reservation(found);
        }
        // The same refusal as for a reservation that is not shared at all.
        let reservation = answer::reservation(self.show(requester, Call::Show { id }).await?)?;
        let why = if reservation.owner == *requester.user() {
            "it is your own reservation; only users that it is shared with answer"
        } else {
            "it is not shared with you"
        };
        Err(Refusal::bad_request(why))
    }

    /// The reservation as the caller may see it: guests see of the other guests only those of their projects.
    pub(super) fn as_seen(&self, requester: &Requester, mut reservation: Reservation) -> Seen {
        let viewer = requester.viewer();
        if viewer.sees(&reservation.owner) {
            return Seen { reservation, invitation: false };
        }
        let invitation = reservation.guests().is_invited(&viewer.user);
        let is_known =
            |user: &Name| *user == viewer.user || projects::are_in_one(&self.projects, user, &viewer.user);
        reservation.shared_with.retain(is_known);
        reservation.consents.retain(|user, _| is_known(user));
        if let Some(request) = &mut reservation.request {
            request.shared_with.retain(is_known);
            request.consents.retain(|user, _| is_known(user));
        }
        Seen { reservation, invitation }
    }
}

/// List blocked users
///
/// Users whose invitations the caller does not see.
#[utoipa::path(
    get, path = "/v1/blocked-users", operation_id = "list_blocked_users", tag = "reservations",
    responses((status = 200, description = "The users", body = api::BlockedUsers), Refused)
)]
pub(super) async fn blocked(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
) -> Result<Response, Refusal> {
    let users = shared.authenticator.lists().blocked_by(requester.user());
    written(&api::BlockedUsers { users: users.iter().cloned().collect() })
}

/// Block a user
///
/// Invitations of this user are not shown to the caller, in lists, schedules, calendars and events. The user is not told.
/// What the caller accepted stays.
#[utoipa::path(
    put, path = "/v1/blocked-users", operation_id = "block_user", tag = "reservations",
    params(api::BlockedUser),
    responses((status = 204, description = "The user is blocked"), Refused)
)]
pub(super) async fn block(
    State(shared): State<Arc<Shared>>,
    Changing(requester): Changing,
    Filters(api::BlockedUser { user: other }): Filters<api::BlockedUser>,
) -> Result<StatusCode, Refusal> {
    let user = requester.user().clone();
    requester.is_about(&other);
    shared.change_lists(move |lists| lists.block(&user, &other)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Unblock a user
///
/// Invitations of this user are shown again.
#[utoipa::path(
    delete, path = "/v1/blocked-users", operation_id = "unblock_user", tag = "reservations",
    params(api::BlockedUser),
    responses((status = 204, description = "The user is not blocked"), Refused)
)]
pub(super) async fn unblock(
    State(shared): State<Arc<Shared>>,
    Changing(requester): Changing,
    Filters(api::BlockedUser { user: other }): Filters<api::BlockedUser>,
) -> Result<StatusCode, Refusal> {
    let user = requester.user().clone();
    requester.is_about(&other);
    shared.change_lists(move |lists| lists.unblock(&user, &other)).await?;
    Ok(StatusCode::NO_CONTENT)
}
