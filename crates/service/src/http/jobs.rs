//! Routes for jobs. If a submission has no id, the id is derived from the key, so that a repetition means the same
//! job.

use super::Shared;
use super::answer::{Refusal, created, out_of_calendar, written};
use super::openapi::{NeededKey, OfBody, OfJob, OfReservation, Refused, SpareKey};
use super::queries::PAGE;
use super::request::{Command, Document, Filters, Id, Required, identity};
use super::requester::{Changing, Requester};
use crate::thread::NoReply;
use axum::extract::State;
use axum::response::Response;
use bookahead_api as api;
use bookahead_api::description::JobIdText;
use bookahead_party::{CallId, Input};
use bookahead_protocol::jobs::JobView;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Caller, JobId, Key};
use std::sync::Arc;

/// Result of a change to a job.
type Outcome = Result<Box<JobView>, Problem>;

/// Submit a job
///
/// The job runs in its reservation, or waits in the queue. The same Idempotency-Key means the same job.
#[utoipa::path(
    post, path = "/v1/jobs", operation_id = "submit_job", tag = "jobs",
    params(NeededKey),
    request_body = api::SubmitJob,
    responses(
        (status = 201, description = "The job", body = api::Job,
            headers(("Location" = String, description = "Path of the job")),
            links(
                ("show" = (operation_id = "show_job", parameters(("id" = "$response.body#/id")))),
                ("end" = (operation_id = "cancel_job", parameters(("id" = "$response.body#/id")))),
            )),
        Refused, OfBody, OfReservation
    )
)]
pub(super) async fn submit(
    State(shared): State<Arc<Shared>>,
    Changing(requester): Changing,
    Required(key): Required,
    Document(job): Document<api::SubmitJob>,
) -> Result<Response, Refusal> {
    let id = job.id.unwrap_or_else(|| key.job());
    let (caller, origin, key, job) = (requester.caller(), requester.origin(), key.key, Box::new(job.into()));
    let input = move |call| Input::Submit { call, caller, key, id, job, origin };
    let job = shared.job_call(&requester, key, id, "submit", input).await?;
    created(&job, &format!("/v1/jobs/{}", job.id))
}

/// List jobs
///
/// Users see their own jobs; operators and readers see all. Sorted by submission, in pages.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "list_jobs", tag = "jobs",
    params(api::JobsQuery),
    responses((status = 200, description = "One page", body = api::Jobs), Refused)
)]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Filters(query): Filters<api::JobsQuery>,
) -> Result<Response, Refusal> {
    let owner = requester.whose(query.owner)?;
    let (id, name, labels) = (query.id, query.name, query.label.unwrap_or_default().0);
    let limit = query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(PAGE);
    let limit = limit.min(shared.limits.most_page);
    let after = query.cursor.as_deref().map(identity::<JobId>).transpose();
    let after = after.map_err(|_| Refusal::bad_request("cursor must be the next of a page"))?;
    let viewer = requester.viewer();
    let page = shared.read_long(move |queries, _| {
        let jobs = queries.jobs(&viewer).into_iter();
        let jobs = jobs.filter(|job| owner.as_ref().is_none_or(|owner| *owner == job.owner));
        let jobs = jobs.filter(|job| id.as_ref().is_none_or(|id| job.id.to_string().starts_with(id)));
        let jobs = jobs.filter(|job| name.as_ref().is_none_or(|name| job.description.is_named_like(name)));
        let jobs = jobs.filter(|job| job.description.has_labels(&labels));
        page(jobs, after, limit)
    });
    written(&page.await??)
}

/// The page after a job, if that job is still known.
fn page(
    mut jobs: impl Iterator<Item = JobView>,
    after: Option<JobId>,
    limit: usize,
) -> Result<api::Jobs, Refusal> {
    if let Some(after) = after {
        let gone =
            || Refusal::bad_request("the job of this cursor is no longer known; start from the first page");
        // The job may be forgotten between two pages. Guessing the position would repeat or skip jobs.
        jobs.find(|job| job.id == after).ok_or_else(gone)?;
    }
    let page = jobs.by_ref().take(limit).map(api::Job::try_from).collect::<Result<Vec<_>, _>>();
    let page = page.map_err(out_of_calendar)?;
    // Only if another job follows: otherwise clients would fetch an empty page at the end.
    let next = jobs.next().and(page.last()).map(|last| last.id.to_string());
    Ok(api::Jobs { jobs: page, next })
}

/// Show one job
#[utoipa::path(
    get, path = "/v1/jobs/{id}", operation_id = "show_job", tag = "jobs",
    params(("id" = JobIdText, Path, description = "Id of the job")),
    responses((status = 200, description = "The job", body = api::Job), Refused, OfJob)
)]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Id(id): Id<JobId>,
) -> Result<Response, Refusal> {
    let found = shared.visible_job(&requester, id)?;
    written(&api::Job::try_from(found).map_err(out_of_calendar)?)
}

/// Cancel a job
///
/// Waiting or running. A job that has ended stays unchanged.
#[utoipa::path(
    delete, path = "/v1/jobs/{id}", operation_id = "cancel_job", tag = "jobs",
    params(("id" = JobIdText, Path, description = "Id of the job"), SpareKey),
    responses((status = 200, description = "The job", body = api::Job), Refused, OfJob)
)]
pub(super) async fn cancel(command: Command<JobId>) -> Result<Response, Refusal> {
    command.job_call("cancel-job", |call, caller, id| Input::CancelJob { call, caller, id }).await
}

/// Let a job run
///
/// For a claiming copy: its broker has chosen it from all copies of the job. A job that runs or has ended stays
/// unchanged.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/go", operation_id = "go_job", tag = "jobs",
    params(("id" = JobIdText, Path, description = "Id of the job"), SpareKey),
    responses((status = 200, description = "The job", body = api::Job), Refused, OfJob)
)]
pub(super) async fn go(command: Command<JobId>) -> Result<Response, Refusal> {
    command.job_call("go", |call, caller, id| Input::Go { call, caller, id }).await
}

impl Command<JobId> {
    /// Executes a change and returns the job.
    async fn job_call(
        self,
        word: &'static str,
        input: impl FnOnce(CallId, Caller, JobId) -> Input + Send + 'static,
    ) -> Result<Response, Refusal> {
        let Command { shared, requester, id, key } = self;
        let caller = requester.caller();
        written(&shared.job_call(&requester, key, id, word, move |call| input(call, caller, id)).await?)
    }
}

impl Shared {
    /// A job that the requester may see.
    pub(super) fn visible_job(&self, requester: &Requester, id: JobId) -> Result<JobView, Problem> {
        let viewer = requester.viewer();
        let found = self.read(|queries, _| queries.job(id)).filter(|job| viewer.sees(&job.owner));
        // The same answer for a job of another user: an id must not reveal that it exists.
        let may_have = || self.read(|queries, _| queries.may_have_job(id));
        found.ok_or_else(|| Problem::new(if may_have() { Why::NoBatchSystem } else { Why::UnknownJob(id) }))
    }

    /// Executes a call about a job.
    async fn job_call(
        self: &Arc<Self>,
        requester: &Requester,
        key: Key,
        id: JobId,
        word: &'static str,
        input: impl FnOnce(CallId) -> Input + Send + 'static,
    ) -> Result<api::Job, Refusal> {
        requester.is_about(&id);
        let (shared, asks) = (self.clone(), requester.clone());
        let outcome = self.finish(requester, key, async move {
            let outcome = shared.party.job_call(shared.limits.patience.duration(), input).await;
            let said = described(&outcome);
            shared.metrics.count_call(word, said);
            asks.line().inspect(|line| line.note_outcome(said));
            outcome
        });
        let view = outcome.await?.map_err(|why| self.unanswered(why))??;
        api::Job::try_from(*view).map_err(out_of_calendar)
    }
}

fn described(outcome: &Result<Outcome, NoReply>) -> &'static str {
    match outcome {
        Ok(Ok(_)) => "done",
        Ok(Err(problem)) => problem.why.code(),
        Err(_) => "unanswered",
    }
}
