//! x
mod desk;
mod holds;
mod negotiations;
mod setup;
mod workload;

#[cfg(test)]
mod speed {
    use super::*;
    #[test]
    fn speed() {
        for share in [10, 50, 100] {
            for knowledge in [desk::Knowledge::Probes, desk::Knowledge::OwnBookings] {
                let t = std::time::Instant::now();
                let case = negotiations::Case { set: 0, knowledge, share, inter_arrival: 20 };
                let got = negotiations::run(&case, &setup::CHOICES, 2000, 1);
                println!("{share} {knowledge:?} {got:?} {:?}", t.elapsed());
            }
        }
        for timeout in [1, 300, 4000] {
            let t = std::time::Instant::now();
            let case = holds::Case {
                set: 0,
                inter_arrival: 40,
                rejecters: 1000,
                timeout: holds::Timeout::Fixed(timeout),
            };
            println!("{case:?} {:?} {:?}", holds::run(&case, &setup::CHOICES, 2000, 1), t.elapsed());
        }
    }
}
