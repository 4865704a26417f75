//! Tests of the core's insides; behaviour is tested in `tests/`.
