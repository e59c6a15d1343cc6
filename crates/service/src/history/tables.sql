CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;
-- One row for each part of a reservation on a resource. Spans are JSON: [[begin, end, capacity], …]
CREATE TABLE parts (
    reservation TEXT NOT NULL,
    part INTEGER NOT NULL,
    resource TEXT NOT NULL,
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    project TEXT NOT NULL,
    state TEXT NOT NULL,
    committed INTEGER NOT NULL,
    pieced INTEGER NOT NULL,
    over INTEGER NOT NULL,
    booked TEXT NOT NULL,
    kept TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    -- Since version 3. NULL if it is not known.
    accepted INTEGER,
    ended INTEGER,
    earliest INTEGER,
    latest INTEGER,
    PRIMARY KEY (reservation, part, resource)
) STRICT;
CREATE INDEX parts_by_last ON parts (last);
CREATE INDEX live_parts ON parts (reservation) WHERE over = 0;
CREATE TABLE jobs (
    job TEXT PRIMARY KEY,
    resource TEXT NOT NULL,
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    project TEXT NOT NULL,
    reservation TEXT,
    state TEXT NOT NULL,
    over INTEGER NOT NULL,
    capacity INTEGER NOT NULL,
    submitted INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    latest INTEGER
) STRICT;
CREATE INDEX jobs_by_end ON jobs (ended);
CREATE INDEX live_jobs ON jobs (job) WHERE over = 0;
-- What happened to a reservation: one JSON document of an event in each line. Complete if the first is its beginning.
CREATE TABLE happened (
    reservation TEXT PRIMARY KEY,
    last INTEGER NOT NULL,
    complete INTEGER NOT NULL,
    events TEXT NOT NULL
) STRICT;
CREATE INDEX happened_by_last ON happened (last);
