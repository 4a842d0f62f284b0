//! weirgate: a protocol-aware reverse proxy for the Model Context Protocol.
