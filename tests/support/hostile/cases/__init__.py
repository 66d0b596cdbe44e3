"""The table of hostile stats servers, grouped by what is hostile."""

from tests.support.hostile.cases import (
    connection_table,
    counter_table,
    document_table,
    http_table,
    name_table,
    place_table,
)

CASES = (
    *connection_table.CASES,
    *document_table.CASES,
    *counter_table.CASES,
    *name_table.CASES,
    *http_table.CASES,
    *place_table.CASES,
)
