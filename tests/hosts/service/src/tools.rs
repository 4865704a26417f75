//! What the tenants' agents can do. Each tool works in the tenant's own folder.

use serde::Deserialize;
use tamtam::{
    schemars::{self, JsonSchema},
    tool::{self, Access, Effect, Toolbox},
};

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
struct Order {
    /// The number of the order.
    number: String,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
struct Refund {
    /// The number of the order.
    number: String,
    /// How much is paid back, in cents.
    cents: u64,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
struct Crawl {
    /// The pages to read.
    pages: Vec<String>,
}

/// A name that stays in its folder.
fn plain(name: &str) -> Result<&str, String> {
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if is_plain { Ok(name) } else { Err(format!("{name:?} is no number: it has letters, digits and dashes")) }
}

pub fn all() -> Toolbox {
    let order = tool::typed_blocking("order_status", "The state of an order.", |Order { number }, cx| {
        let path = cx.workspace.join("orders").join(plain(&number)?);
        std::fs::read_to_string(path).map_err(|_| format!("there is no order {number}"))
    });
    // A refund is made once: after a crash in the middle its outcome is unknown, and it is not made again. The key is the same then,
    // so whoever keeps the books can see it too.
    let refund = tool::typed_blocking("refund", "Pays money back.", |Refund { number, cents }, cx| {
        let line = format!("{} {} {cents}\n", cx.key, plain(&number)?);
        let path = cx.workspace.join("refunds");
        let books = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let booked = books.and_then(|mut books| std::io::Write::write_all(&mut books, line.as_bytes()));
        booked.map(|()| format!("paid back {cents} cents")).map_err(|error| error.to_string())
    });
    let crawl = tool::typed_streaming("crawl", "Reads pages.", |Crawl { pages }, cx, out| async move {
        for page in &pages {
            let path = plain(page).map(|page| cx.workspace.join("pages").join(page));
            let text = match path {
                Ok(path) => tokio::fs::read_to_string(path).await.map_err(|_| format!("there is no page {page}")),
                Err(bad) => Err(bad),
            };
            out.write(format!("## {page}\n{}\n", text.unwrap_or_else(|error| error)));
        }
    });
    Toolbox::default()
        .with(order.effect(Effect::Read).parallel())
        .with(refund.effect(Effect::Once).access(|refund| vec![Access::new("refund", &refund.number)]))
        .with(crawl.effect(Effect::Read).parallel())
}
