//! Sites and brokers as values: inputs in, outputs out, no threads and no time but what the tests say.

mod site;
