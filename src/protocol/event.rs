//! Server-sent events: an incremental splitter, as the WHATWG HTML standard reads them
//! ("Server-sent events", "Interpreting an event stream").
