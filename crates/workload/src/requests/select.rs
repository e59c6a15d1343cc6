//! Which jobs become requests: one of each block of consecutive jobs, drawn with the seed. A last block
//! that is not full gives none. The others stay jobs, in their order.

use bookahead_plan::Seconds;
use thiserror::Error;

use super::Request;
use crate::LONGEST;
use crate::streams::Stream;
use crate::trace::Job;

/// How jobs are turned into requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// One job of so many becomes a request.
    pub block: usize,
    /// How long after its submission a request may begin.
    pub book_ahead: Seconds,
    /// By how much it may begin later than that.
    pub window: Seconds,
    /// Which job of a block it is.
    pub seed: u64,
}

impl Default for Selection {
    /// One in ten, an hour ahead, at a fixed instant.
    fn default() -> Selection {
        Selection { block: 10, book_ahead: Seconds(3600), window: Seconds::ZERO, seed: 1 }
    }
}

/// Why no requests can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SelectionError {
    /// Blocks of no jobs.
    #[error("one request per 0 jobs cannot be made; give a block of at least 1 job")]
    EmptyBlock,
    /// A length of time that is negative or beyond all bounds.
    #[error("{what} of {length} s cannot be meant; give 0 to 2^40 s")]
    BadLength {
        /// Which of them.
        what: &'static str,
        /// What was given.
        length: i64,
    },
}

/// Takes one job of each full block out of `jobs`, which are in order of submission, and gives them as
/// requests in that order. A request lasts as long as the job really ran.
pub fn select(jobs: &mut Vec<Job>, selection: &Selection) -> Result<Vec<Request>, SelectionError> {
    check_length("a book-ahead time", selection.book_ahead)?;
    check_length("a window", selection.window)?;
    let last = match selection.block {
        0 => return Err(SelectionError::EmptyBlock),
        block => i64::try_from(block - 1).unwrap_or(i64::MAX),
    };
    let mut stream = Stream::new(selection.seed, "requests/choice");
    let mut requests = Vec::with_capacity(jobs.len() / selection.block);
    let mut rest = Vec::with_capacity(jobs.len() - requests.capacity().min(jobs.len()));
    let blocks = jobs.chunks_exact(selection.block);
    let short_block = blocks.remainder();
    for block in blocks {
        let chosen = usize::try_from(stream.whole(0, last)).unwrap_or(0);
        requests.push(request(&block[chosen], selection));
        rest.extend_from_slice(&block[..chosen]);
        rest.extend_from_slice(&block[chosen + 1..]);
    }
    rest.extend_from_slice(short_block);
    *jobs = rest;
    Ok(requests)
}

fn check_length(what: &'static str, length: Seconds) -> Result<(), SelectionError> {
    match length.0 {
        0..=LONGEST => Ok(()),
        length => Err(SelectionError::BadLength { what, length }),
    }
}

fn request(job: &Job, selection: &Selection) -> Request {
    let earliest_start = job.submit + selection.book_ahead;
    Request {
        number: job.number,
        submit: job.submit,
        earliest_start,
        latest_end: earliest_start + job.run + selection.window,
        duration: job.run,
        processors: job.processors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::{Capacity, Time};

    fn jobs(count: i64) -> Vec<Job> {
        let job = |number: i64| Job {
            number,
            submit: Time(number * 10),
            run: Seconds(60 + number),
            request: Seconds(3600),
            processors: Capacity(4),
        };
        (0..count).map(job).collect()
    }

    #[test]
    fn each_full_block_gives_one_request_and_all_else_stays() {
        let mut rest = jobs(25);
        let requests = select(&mut rest, &Selection::default()).unwrap();
        let numbers: Vec<_> = requests.iter().map(|request| request.number).collect();
        assert_eq!((numbers.len(), rest.len()), (2, 23));
        assert!((0..10).contains(&numbers[0]) && (10..20).contains(&numbers[1]), "{numbers:?}");
        let expected: Vec<_> = jobs(25).into_iter().filter(|job| !numbers.contains(&job.number)).collect();
        assert_eq!(rest, expected);
    }

    #[test]
    fn a_request_has_the_jobs_size_and_run_time() {
        let selection = Selection { block: 1, book_ahead: Seconds(100), window: Seconds(7), seed: 1 };
        let mut rest = jobs(1);
        let request = select(&mut rest, &selection).unwrap()[0];
        assert!(rest.is_empty());
        let expected = Request {
            number: 0,
            submit: Time(0),
            earliest_start: Time(100),
            latest_end: Time(167),
            duration: Seconds(60),
            processors: Capacity(4),
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn the_seed_alone_chooses() {
        let chosen = |seed| select(&mut jobs(1000), &Selection { seed, ..Selection::default() }).unwrap();
        assert_eq!(chosen(1), chosen(1));
        assert_ne!(chosen(1), chosen(2));
    }

    #[test]
    fn every_place_in_a_block_is_chosen_about_as_often() {
        let mut counts = [0; 10];
        for request in select(&mut jobs(20_000), &Selection::default()).unwrap() {
            counts[usize::try_from(request.number % 10).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (150..250).contains(count)), "{counts:?}");
    }

    #[test]
    fn impossible_selections_are_refused() {
        let refused = |selection| select(&mut jobs(10), &selection).is_err();
        assert!(refused(Selection { block: 0, ..Selection::default() }));
        assert!(refused(Selection { window: Seconds(-1), ..Selection::default() }));
        assert!(refused(Selection { book_ahead: Seconds(i64::MAX), ..Selection::default() }));
        let huge = Selection { block: usize::MAX, ..Selection::default() };
        assert_eq!(select(&mut jobs(10), &huge), Ok(vec![]));
    }
}
