//! `/api/v1`: everything that the command line can do, for programs. Errors are problems, lists have pages.

use axum::Json;
use ichido::by_hand::Standing;

use crate::{
    Problem,
    access::{As, Read},
    routes::Routes,
};

/// All of the API.
pub(crate) fn routes() -> Routes {
    Routes::new().get("/api/v1/status", status)
}

async fn status(who: As<Read>) -> Result<Json<Standing>, Problem> {
    Ok(Json(who.look().standing().await?))
}
