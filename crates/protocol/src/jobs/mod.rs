//! Jobs without a reservation of their own: which site would have them done first, and how to get them there once.
