//! A site as a value, one input at a time: with a batch system that answers when the test says so, and
//! regressions found by fault tests, each as the shortest sequence that shows it.

mod batch;
mod binding;
mod desk;
mod found;
mod limits;
mod notice;
mod notices;
mod sharing;
mod tres;
