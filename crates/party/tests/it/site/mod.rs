//! A site as a value, one input at a time: with a batch system that answers when the test says so, and what fault schedules found,
//! each as the shortest course that shows it.

mod batch;
mod binding;
mod desk;
mod found;
mod limits;
