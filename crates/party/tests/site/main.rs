//! A site as a value, one input at a time: what fault schedules found, each as the shortest course that shows it.

mod desk;

mod found;
