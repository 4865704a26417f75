//! tests of the driver follow
