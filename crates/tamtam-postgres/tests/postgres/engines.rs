//! What every engine of tapes promises, held over PostgreSQL: the claims are those of the library's own engines.

#[path = "../../../../src/tape/tests/engines/claims.rs"]
pub(crate) mod claims;
#[path = "../../../../src/tape/tests/engines/races.rs"]
mod races;

use tamtam::tape::TapeStore;

use crate::server::store;

fn each_engine(claim: impl Fn(&str, &dyn TapeStore)) {
    claim("PostgreSQL", &store());
}
