//! A call of the protocol over HTTP, for brokers towards their peers. It is sent once: heads repeat by themselves.

use crate::client::Client;
use crate::error::ClientError;
use crate::order::Order;
use crate::reply::Reply;
use bookahead_api::{Offers, Operation, Reservation};
use bookahead_protocol::{Answer, Envelope, Problem};

impl Client {
    /// Asks, on behalf of the envelope's caller and with its key. A refusal in words of the protocol is an answer; a
    /// refusal of the HTTP layer is an error.
    pub async fn call(&self, envelope: &Envelope, trace: Option<&str>) -> Result<Answer, ClientError> {
        let mut client = self.on_behalf_of(&envelope.caller);
        if let Some(trace) = trace {
            client = client.traced(trace)?;
        }
        let operation = Operation::try_from(envelope.call.clone())?;
        let reply = client.ask(&order(&operation, envelope)?).await?;
        if reply.is_success() { answer(&operation, reply) } else { refusal(&reply) }
    }
}

fn order(operation: &Operation, envelope: &Envelope) -> Result<Order, ClientError> {
    let mut order = Order::new(operation.method(), operation.path());
    order.body = operation
        .body()
        .map_err(|why| ClientError::BadHeader { what: "the document", why: why.to_string() })?;
    if !operation.only_asks() {
        order = order.with_own_key(envelope.key)?;
    }
    match operation.version() {
        Some(version) => order.with_version(version),
        None => Ok(order),
    }
}

fn answer(operation: &Operation, reply: Reply) -> Result<Answer, ClientError> {
    match operation {
        Operation::Probe(_) => reply.document::<Offers>().map(|offers| Answer::Offers(offers.into())),
        _ => reply.document::<Reservation>().map(|reservation| Answer::Reservation(reservation.into())),
    }
}

fn refusal(reply: &Reply) -> Result<Answer, ClientError> {
    match reply.refusal() {
        ClientError::Refused(problem) => match Problem::try_from((*problem).clone()) {
            Ok(word) => Ok(word.into()),
            Err(_) => Err(ClientError::Refused(problem)),
        },
        other => Err(other),
    }
}
