//! The stylesheet, the script and the icon: in the binary, and nothing is loaded from elsewhere. Their addresses carry the version, so that
//! browsers may keep them.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};

use crate::{access::Public, routes::Routes};

const KEPT: &str = "public, max-age=86400";

pub(super) fn routes() -> Routes {
    Routes::new().get("/assets/console.css", style).get("/assets/console.js", script).get("/assets/icon.svg", icon)
}

async fn style(_: Public) -> Response {
    asset("text/css; charset=utf-8", include_str!("../../assets/console.css"))
}

async fn script(_: Public) -> Response {
    asset("text/javascript; charset=utf-8", include_str!("../../assets/console.js"))
}

async fn icon(_: Public) -> Response {
    asset("image/svg+xml", include_str!("../../assets/icon.svg"))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, KEPT)], text).into_response()
}
