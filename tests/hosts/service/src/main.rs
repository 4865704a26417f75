//! `service CONFIG FOLDER ADDRESS`: serves until it is told to stop, finishes running turns, and goes on with the rest next time.

use std::{error::Error, path::PathBuf, sync::Arc};

use service::{Service, config::Config};
use tamtam::model::{self, Model};
use tamtam_server::{Bound, serve};

/// The model of the provider whose key there is.
fn model() -> Result<Arc<dyn Model>, Box<dyn Error + Send + Sync>> {
    let key = std::env::var("OPENAI_API_KEY")?;
    Ok(model::openai(key).model("gpt-4o")?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args_os().skip(1);
    let mut next = |what: &str| arguments.next().ok_or(format!("{what} is missing: service CONFIG FOLDER ADDRESS"));
    let (config, folder, address) = (PathBuf::from(next("CONFIG")?), PathBuf::from(next("FOLDER")?), next("ADDRESS")?);
    let address = address.to_str().ok_or("ADDRESS is no text")?.parse()?;
    let service = Service::start(Config::read(&config)?, &config, &folder, model()?).await?;
    let bound = Bound::tcp(address, &service.server).await?;
    println!("{}", bound.at());
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    let left = serve(service.server, bound, stop).await;
    if left.is_empty() { Ok(()) } else { Err(format!("could not end: {left:?}").into()) }
}
