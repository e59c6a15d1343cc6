//! The negotiation of a broker: messages in, messages and timers out.
