//! What a site offers, as a document.

use crate::ids::NameText;
use bookahead_plan::Capacity;
use bookahead_protocol as protocol;
use bookahead_protocol::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Something with a capacity that is shared in space: processors of a cluster, bandwidth of a link, seats, licences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "name": "cluster", "kind": "processors", "site": "north", "capacity": 512,
    "attributes": {"gpus": 4, "interconnect": "infiniband"}, "price_thousandths": 25
}))]
pub struct Resource {
    /// Its name at whoever answers. At a broker it begins with the name of the peer.
    #[schema(value_type = NameText)]
    pub name: Name,
    /// What kind it is: "processors", "bandwidth", "seats", "licences", "qpu", or any other word.
    #[schema(value_type = NameText, example = "processors")]
    pub kind: Name,
    /// The site it belongs to.
    #[schema(value_type = NameText)]
    pub site: Name,
    /// What there is in all.
    pub capacity: u32,
    /// Of a link: the two sites that it joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<[String; 2]>, min_items = 2, max_items = 2)]
    pub joins: Option<[Name; 2]>,
    /// What else there is to know, by name.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, AttributeValue>)]
    pub attributes: BTreeMap<Name, AttributeValue>,
    /// The price of one unit for an hour, in thousandths of whatever is paid with.
    #[serde(default)]
    pub price_thousandths: u32,
    /// In the register: the brokers that it is reached through, by their identities, the nearest first. A broker leaves out what
    /// would be reached through itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<NameText>, max_items = 8)]
    pub through: Vec<Name>,
}

/// What an attribute is: a text or a whole number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "an attribute is a text or a whole number")]
#[schema(example = 4)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
}

/// The resources of a site, or of all peers of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resources {
    /// By name.
    pub resources: Vec<Resource>,
}

impl From<protocol::Resource> for Resource {
    fn from(resource: protocol::Resource) -> Resource {
        Resource {
            name: resource.name,
            kind: resource.kind,
            site: resource.site,
            capacity: resource.capacity.0,
            joins: resource.joins,
            attributes: attributes_from(resource.attributes),
            price_thousandths: resource.price,
            through: Vec::new(),
        }
    }
}

impl From<Resource> for protocol::Resource {
    fn from(resource: Resource) -> protocol::Resource {
        protocol::Resource {
            name: resource.name,
            kind: resource.kind,
            site: resource.site,
            capacity: Capacity(resource.capacity),
            joins: resource.joins,
            attributes: attributes_into(resource.attributes),
            price: resource.price_thousandths,
        }
    }
}

/// Attributes as a document says them.
pub fn attributes_from(attributes: BTreeMap<Name, protocol::Value>) -> BTreeMap<Name, AttributeValue> {
    attributes.into_iter().map(|(name, value)| (name, value.into())).collect()
}

/// Attributes as the protocol says them.
pub fn attributes_into(attributes: BTreeMap<Name, AttributeValue>) -> BTreeMap<Name, protocol::Value> {
    attributes.into_iter().map(|(name, value)| (name, value.into())).collect()
}

impl From<protocol::Value> for AttributeValue {
    fn from(value: protocol::Value) -> AttributeValue {
        match value {
            protocol::Value::Text(text) => AttributeValue::Text(text.as_str().into()),
            protocol::Value::Number(number) => AttributeValue::Number(number),
        }
    }
}

impl From<AttributeValue> for protocol::Value {
    fn from(value: AttributeValue) -> protocol::Value {
        match value {
            AttributeValue::Text(text) => protocol::Value::Text(text.into()),
            AttributeValue::Number(number) => protocol::Value::Number(number),
        }
    }
}
