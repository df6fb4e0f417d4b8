-- One row: the last event that is in the index, and how many documents are.
CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    reaches INTEGER NOT NULL,
    documents INTEGER NOT NULL
) STRICT;
INSERT INTO state VALUES (1, 0, 0);

CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE
) STRICT;

-- Those of events have ids in the order of the log, those of files are below 0: a
-- search for events up to some number is a search for a range of ids.
CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    -- Of a piece of a file: which, and its lines.
    file INTEGER REFERENCES files (id),
    first INTEGER,
    last INTEGER,
    before TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX documents_by_time ON documents (at, id);
CREATE INDEX documents_by_file ON documents (file) WHERE file IS NOT NULL;

-- The files that a document is about, in their order.
CREATE TABLE about (
    document INTEGER NOT NULL,
    place INTEGER NOT NULL,
    file INTEGER NOT NULL REFERENCES files (id),
    PRIMARY KEY (document, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX about_by_file ON about (file, document);

-- What goes in is split into words before, and what comes out is read from the
-- tables above. Only the endings of words are taken off here.
CREATE VIRTUAL TABLE terms USING fts5 (
    names, words, before, files,
    content = '', contentless_delete = 1,
    tokenize = "porter ascii tokenchars '/._-'"
);
