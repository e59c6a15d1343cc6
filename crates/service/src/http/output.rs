//! What jobs print: read at a site in a child process, off the threads that serve, or passed on by a broker to the
//! site of the job. An answer is one bounded piece; its headers say where the next one begins.

use super::Shared;
use super::answer::Refusal;
use super::openapi::{OfJob, Refused};
use super::request::{Filters, Id};
use super::requester::Requester;
use super::shares::{Full, Place};
use crate::peer_answers::plain;
use crate::peers::PeerCalls;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bookahead_api as api;
use bookahead_api::description::JobIdText;
use bookahead_api::header;
use bookahead_client::ClientError;
use bookahead_lrms::output::{OutputError, Outputs, Piece, Stream};
use bookahead_protocol::jobs::JobView;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{JobId, Name};
use std::sync::Arc;

/// Reads in progress. Each is a few processes for a moment; one user gets a quarter of them.
pub(super) const MOST_READS: usize = 16;

/// Where the output of jobs is read.
#[derive(Clone, Default)]
pub enum JobOutputs {
    /// Nowhere: jobs are only simulated.
    #[default]
    None,
    /// By this site.
    Here(Arc<dyn Outputs>),
    /// By the sites of a broker.
    AtPeers(PeerCalls),
}

/// Read the output of a job
///
/// The bytes that it has printed, from a byte on, at most 256 KiB. Only for its owner and operators.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/output", operation_id = "job_output", tag = "jobs",
    params(("id" = JobIdText, Path, description = "Id of the job"), api::OutputQuery),
    responses(
        (status = 200, description = "The bytes; none if there are no more so far", body = String,
            content_type = "application/octet-stream",
            headers(
                ("Bookahead-Output-Next" = String, description = "`from` of the next call"),
                ("Bookahead-Output-Size" = String, description = "Size of the output so far, in bytes"),
                ("Bookahead-Output-Ended" = String, description = "`true` if the job is over and this is the end"),
            )),
        Refused, OfJob
    )
)]
pub(super) async fn output(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Id(id): Id<JobId>,
    Filters(query): Filters<api::OutputQuery>,
) -> Result<Response, Refusal> {
    // The state is read before the file: a job that is over then prints nothing after the read.
    let job = shared.visible_job(&requester, id)?;
    if !requester.caller().may_act_for(&job.owner) {
        return Err(Problem::new(Why::NotJobOwner(id)).into());
    }
    let place = shared.reading_output(&requester)?;
    let (stream, from) = (query.stream.unwrap_or_default(), query.from.unwrap_or(0));
    let is_over = job.state.is_over();
    let piece = match &shared.outputs {
        JobOutputs::None => {
            return Err(no_output("the jobs of this site are placeholders, which print nothing"));
        }
        JobOutputs::Here(outputs) => here(outputs.clone(), job, stream, from, place).await?,
        JobOutputs::AtPeers(peers) => {
            return shared.passed_on(peers, &requester, &job, stream, from, place).await;
        }
    };
    let next = from.saturating_add(piece.bytes.len() as u64);
    Ok(answer(piece.bytes, next, piece.size, is_over && next >= piece.size))
}

async fn here(
    outputs: Arc<dyn Outputs>,
    job: JobView,
    stream: api::OutputStream,
    from: u64,
    place: Place<Name>,
) -> Result<Piece, Refusal> {
    let stream = match stream {
        api::OutputStream::Stdout => Stream::Output,
        api::OutputStream::Stderr => Stream::Error,
    };
    let is_over = job.state.is_over();
    let read = tokio::task::spawn_blocking(move || {
        let read = outputs.read(&job, stream, from);
        // Only now: a client that has gone does not end the read.
        drop(place);
        read
    });
    let read = read.await.map_err(|_| Refusal::internal("reading the output failed"))?;
    match read {
        Ok(piece) => Ok(piece),
        // It may not have started, or its batch system delivers the file at its end.
        Err(OutputError::Missing { .. }) if !is_over => Ok(Piece { bytes: Vec::new(), size: 0 }),
        Err(OutputError::Command(why)) if !why.is_refusal() => {
            Err(Refusal::new(api::Code::Unavailable, why.to_string()))
        }
        Err(why) => Err(no_output(why.to_string())),
    }
}

fn no_output(why: impl Into<String>) -> Refusal {
    Refusal::new(api::Code::NoOutput, why)
}

fn answer(bytes: Vec<u8>, next: u64, size: u64, ended: bool) -> Response {
    let headers = [
        (CONTENT_TYPE.as_str(), "application/octet-stream".to_owned()),
        (CACHE_CONTROL.as_str(), "no-store".to_owned()),
        // A browser must not take what a job printed for a page of this service.
        ("x-content-type-options", "nosniff".to_owned()),
        (header::OUTPUT_NEXT, next.to_string()),
        (header::OUTPUT_SIZE, size.to_string()),
        (header::OUTPUT_ENDED, ended.to_string()),
    ];
    (headers, bytes).into_response()
}

impl Shared {
    fn reading_output(&self, requester: &Requester) -> Result<Place<Name>, Refusal> {
        self.output_reads.take(requester.user()).map_err(|full| {
            self.metrics.turned_away("output");
            let code = match full {
                Full::All => api::Code::Unavailable,
                Full::Own => api::Code::TooManyRequests,
            };
            Refusal::new(code, "too many outputs of jobs are being read; try again").retry_after(1)
        })
    }

    /// Asks the site of the job.
    async fn passed_on(
        &self,
        peers: &PeerCalls,
        requester: &Requester,
        job: &JobView,
        stream: api::OutputStream,
        from: u64,
        place: Place<Name>,
    ) -> Result<Response, Refusal> {
        let id = job.id;
        let Some((site, there)) = self.read(|queries, _| queries.job_place(id)) else {
            if job.state.is_over() {
                return Err(no_output("the job has run at no site"));
            }
            return Ok(answer(Vec::new(), from, 0, false));
        };
        let (caller, origin) = (requester.caller(), requester.origin());
        let read = peers.job_output(&site, &caller, &origin, (there, stream, from)).await;
        drop(place);
        let read = read.ok_or_else(|| {
            Refusal::new(api::Code::Silence, format!("{site}, the site of the job, is not known any more"))
        })?;
        let output = match read {
            // The broker has chosen the site, and its submission is still on the way.
            Err(why) if is_unknown(&why) && !job.state.is_over() => {
                return Ok(answer(Vec::new(), from, 0, false));
            }
            read => read.map_err(|why| of_peer(&site, &why))?,
        };
        let next = from.saturating_add(output.bytes.len() as u64);
        Ok(answer(output.bytes, next, output.size, output.ended))
    }
}

fn is_unknown(why: &ClientError) -> bool {
    matches!(why, ClientError::Refused(problem) if api::Code::named(&problem.code) == Some(api::Code::UnknownJob))
}

/// A refusal of a peer. Its code is passed on if it is about the output; a refusal of our own call is not the
/// client's fault.
fn of_peer(site: &Name, why: &ClientError) -> Refusal {
    use api::Code::{Forbidden, NoOutput, TooManyRequests, Unavailable};
    match why {
        ClientError::Refused(problem) => {
            let code = api::Code::named(&problem.code);
            let code = code.filter(|code| [Forbidden, NoOutput, TooManyRequests, Unavailable].contains(code));
            Refusal::new(code.unwrap_or(NoOutput), format!("{site}: {}", plain(&problem.detail)))
        }
        other => Refusal::new(api::Code::Silence, format!("{site}: {}", plain(&other.to_string()))),
    }
}
