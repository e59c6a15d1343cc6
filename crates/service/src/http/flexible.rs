//! Requests whose parts may grow: probes find the terms, which are then reserved like any others.

use super::Shared;
use super::answer::{Refusal, out_of_calendar};
use super::request::CallKey;
use super::requester::Requester;
use bookahead_api as api;
use bookahead_protocol::flexible::Widening;
use bookahead_protocol::{Answer, Call, Key};

impl Shared {
    /// Replaces terms that may grow by the greatest that fit now, or by the least if they do not fit either.
    pub(super) async fn settle(
        &self,
        requester: &Requester,
        request: &mut api::Request,
    ) -> Result<(), Refusal> {
        let up_to = request.up_to();
        if up_to.is_empty() {
            return Ok(());
        }
        let widening = Widening::new(request.clone().into(), &up_to);
        let mut widening = widening.map_err(|wrong| Refusal::bad_request(wrong.to_string()))?;
        while let Some(attempt) = widening.attempt() {
            let probe = Call::Probe { request: attempt, most: 1, starts: Vec::new() };
            let begins = match self.probe(requester, probe).await? {
                (Answer::Offers(offers), _) => offers
                    .into_iter()
                    .next()
                    .map(|offer| offer.slots.iter().map(|slot| slot.interval.begin).collect::<Vec<_>>()),
                // A refusal of the least is repeated by the call itself, with its reasons.
                (Answer::Problem(_) | Answer::Reservation(_), _) => None,
            };
            widening.answered(begins.as_deref());
        }
        let parts = widening.terms().parts.into_iter().map(api::Part::try_from);
        request.parts = parts.collect::<Result<_, _>>().map_err(out_of_calendar)?;
        Ok(())
    }

    /// The reservation that an earlier call of the same user made with this id.
    pub(super) async fn made_before(&self, requester: &Requester, call: Call) -> Option<Answer> {
        let answer = self.show(requester, call).await.ok()?;
        let own =
            |answer: &Answer| matches!(answer, Answer::Reservation(made) if made.owner == *requester.user());
        Some(answer).filter(own)
    }
}

impl CallKey {
    /// The key of a call with terms that were found: those of a repetition may differ, and a key stands for one call.
    pub(super) fn with_terms(&self, request: &api::Request) -> Key {
        let terms = request.parts.iter().map(|part| {
            [
                i64::from(part.capacity),
                part.duration_seconds,
                part.earliest_start.time().0,
                part.latest_end.time().0,
            ]
        });
        let bytes: Vec<u8> = terms.flatten().flat_map(i64::to_be_bytes).collect();
        Key(self.derived(&[b"terms", bytes.as_slice()].concat()))
    }
}
