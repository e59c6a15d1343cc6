CREATE SCHEMA IF NOT EXISTS bookahead;
CREATE TABLE bookahead.format (version integer NOT NULL);
INSERT INTO bookahead.format VALUES (1);
CREATE TABLE bookahead.party (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    what text NOT NULL,                -- the kind of journal
    owner text NOT NULL,               -- whose it is
    base bigint NOT NULL,              -- records up to this one were dropped, a snapshot stands for them
    base_chain bigint NOT NULL,        -- the checksum of that record
    tail bigint NOT NULL,              -- the last record
    tail_chain bigint NOT NULL,        -- its checksum
    epoch bigint NOT NULL DEFAULT 0,   -- raised by every process that takes over
    holder text,                       -- the process that is active, null after a clean stop
    address text,                      -- its URL
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    grace_ms bigint NOT NULL DEFAULT 0, -- how long to wait after that for commands of the holder
    UNIQUE (what, owner)
);
CREATE TABLE bookahead.record (
    party bigint NOT NULL REFERENCES bookahead.party,
    sequence bigint NOT NULL CHECK (sequence > 0),
    schema bigint NOT NULL,            -- version of the event's form
    written_at bigint NOT NULL,        -- milliseconds since 1970, for people only
    event text NOT NULL,               -- JSON
    checksum bigint NOT NULL,          -- over the checksum before it and all of the above
    PRIMARY KEY (party, sequence)
);
CREATE TABLE bookahead.snapshot (
    party bigint NOT NULL REFERENCES bookahead.party,
    up_to bigint NOT NULL CHECK (up_to >= 0), -- the last record it stands for
    schema bigint NOT NULL,
    written_at bigint NOT NULL,
    chain bigint NOT NULL,             -- the checksum of that record
    state text NOT NULL,               -- JSON
    checksum bigint NOT NULL,
    PRIMARY KEY (party, up_to)
);
CREATE TABLE bookahead.caller (        -- the highest epoch of each site and broker that calls a party
    what text NOT NULL,
    owner text NOT NULL,
    caller text NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (what, owner, caller)
);
CREATE TABLE bookahead.file (          -- small files that all processes of a party share
    what text NOT NULL,
    owner text NOT NULL,
    name text NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (what, owner, name)
);
