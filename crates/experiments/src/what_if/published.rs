//! What the paper reports (T. Röblitz, K. Rzadca, Euro-Par 2006), as it is printed there.

/// A row of Table 1: waits of delayed jobs at a window of 30 hours.
pub(super) struct Delayed {
    /// Hours.
    pub(super) book_ahead: i64,
    /// How many jobs were delayed.
    pub(super) jobs: u32,
    /// Their mean wait without reservations, in seconds.
    pub(super) original: u32,
    /// With reservations.
    pub(super) affected: u32,
}

const fn row(book_ahead: i64, jobs: u32, original: u32, affected: u32) -> Delayed {
    Delayed { book_ahead, jobs, original, affected }
}

/// Table 1, by experiment.
pub(super) const TABLE_1: [(&str, [Delayed; 6]); 3] = [
    (
        "load-Maui",
        [
            row(0, 186, 3191, 9296),
            row(2, 276, 2225, 6442),
            row(4, 408, 1525, 7514),
            row(6, 356, 1939, 8436),
            row(12, 383, 1901, 8957),
            row(24, 422, 1872, 17051),
        ],
    ),
    (
        "load-Mica",
        [
            row(0, 284, 2532, 7853),
            row(2, 341, 2138, 11572),
            row(4, 372, 1782, 11167),
            row(6, 357, 1984, 11036),
            row(12, 390, 2244, 15405),
            row(24, 411, 1638, 12832),
        ],
    ),
    (
        "what-if-Mica",
        [
            row(0, 172, 4155, 8112),
            row(2, 280, 3594, 8744),
            row(4, 319, 3491, 9193),
            row(6, 429, 2426, 11081),
            row(12, 393, 1926, 16649),
            row(24, 407, 1646, 13011),
        ],
    ),
];
