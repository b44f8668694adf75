-- Tokens of claim requests that were repeated: their first sending, should it still come, claims nothing. The
-- numbers follow the order in which they were spent, so that the oldest are found first.
CREATE TABLE spent_tokens (
    id INTEGER PRIMARY KEY,
    token BLOB NOT NULL UNIQUE,
    at INTEGER NOT NULL
) STRICT;
