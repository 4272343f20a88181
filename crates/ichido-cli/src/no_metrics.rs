//! No `/metrics`, for a build without the feature `metrics`.

use ichido::process::Probe;

pub(crate) fn scraped(_: &Probe) -> Result<(&'static str, String), &'static str> {
    Err("this ichido was built without metrics; build it with the feature `metrics`\n")
}
