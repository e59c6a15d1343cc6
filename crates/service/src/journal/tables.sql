CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    what TEXT NOT NULL,           -- the kind of journal
    owner TEXT NOT NULL,          -- whose it is
    base INTEGER NOT NULL,        -- records up to this one were dropped, a snapshot stands for them
    base_chain INTEGER NOT NULL,  -- the checksum of that record
    tail INTEGER NOT NULL,        -- the last record
    tail_chain INTEGER NOT NULL   -- its checksum
) STRICT;
CREATE TABLE records (
    sequence INTEGER PRIMARY KEY,
    schema INTEGER NOT NULL,      -- version of the event's form
    written_at INTEGER NOT NULL,  -- milliseconds since the epoch, for people only
    event TEXT NOT NULL,          -- JSON
    checksum INTEGER NOT NULL     -- over the checksum before it and all of the above
) STRICT;
CREATE TABLE snapshots (
    up_to INTEGER PRIMARY KEY,    -- the last record it stands for
    schema INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    chain INTEGER NOT NULL,       -- the checksum of that record
    state TEXT NOT NULL,          -- JSON
    checksum INTEGER NOT NULL
) STRICT;
