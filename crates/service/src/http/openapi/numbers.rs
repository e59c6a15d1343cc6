//! Numbers that are never negative, under the names that the registry of formats has for them, and with their bounds: the
//! derived descriptions have names that nobody knows.

use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, KnownFormat};
use utoipa::openapi::{OpenApi, RefOr, Schema, SchemaFormat};
use utoipa::{Number, openapi};

/// Describes all numbers of a document.
pub(super) fn describe(document: &mut OpenApi) {
    let components = document.components.iter_mut();
    components.flat_map(|components| components.schemas.values_mut()).for_each(within);
    for operation in document.paths.paths.values_mut().flat_map(super::operations) {
        for parameter in operation.parameters.iter_mut().flatten() {
            if let RefOr::T(parameter) = parameter {
                parameter.schema.iter_mut().for_each(within);
            }
        }
    }
}

fn within(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            number(object);
            object.properties.values_mut().for_each(within);
            if let Some(AdditionalProperties::RefOr(schema)) = object.additional_properties.as_deref_mut() {
                within(schema);
            }
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                within(items);
            }
        }
        Schema::OneOf(one) => one.items.iter_mut().for_each(within),
        Schema::AllOf(all) => all.items.iter_mut().for_each(within),
        Schema::AnyOf(any) => any.items.iter_mut().for_each(within),
        _ => {}
    }
}

fn number(object: &mut openapi::Object) {
    let (name, most) = match &object.format {
        Some(SchemaFormat::KnownFormat(KnownFormat::UInt16)) => ("uint16", u64::from(u16::MAX)),
        Some(SchemaFormat::KnownFormat(KnownFormat::UInt32)) => ("uint32", u64::from(u32::MAX)),
        Some(SchemaFormat::KnownFormat(KnownFormat::UInt64)) => ("uint64", u64::MAX),
        _ => return,
    };
    object.format = Some(SchemaFormat::Custom(name.into()));
    if let Ok(most) = usize::try_from(most) {
        object.maximum.get_or_insert(Number::UInt(most));
    }
}
