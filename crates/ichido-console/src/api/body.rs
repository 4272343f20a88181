//! The body of a request: of a bounded size, within a time; as JSON with no field that nobody knows. Forms are read here too (`access::form`,
//! `access::login`).

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequest, Request},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::de::DeserializeOwned;

use crate::{Console, Problem};

/// A body has at most so many bytes.
pub(crate) const MOST_BYTES: usize = 8 << 20;

/// It must be there by then.
const SLOWEST_BODY: Duration = Duration::from_secs(30);

/// The body, and the bytes that it was read from.
pub(crate) struct Body<T> {
    pub(crate) value: T,
    pub(crate) bytes: Bytes,
}

impl<T: DeserializeOwned> FromRequest<Console> for Body<T> {
    type Rejection = Response;

    async fn from_request(request: Request, _: &Console) -> Result<Self, Response> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let text = "the body must be JSON: send `Content-Type: application/json`";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response());
        }
        let bytes = read(request, MOST_BYTES).await.map_err(IntoResponse::into_response)?;
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Body { value, bytes }),
            Err(error) => Err(Problem::bad(format!("the body is not as it must be: {error}")).into_response()),
        }
    }
}

/// All of it, unless that is more than so many bytes or takes too long.
pub(crate) async fn read(mut request: Request, most: usize) -> Result<Bytes, Problem> {
    DefaultBodyLimit::max(most).apply(&mut request);
    match tokio::time::timeout(SLOWEST_BODY, Bytes::from_request(request, &())).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(Problem::new(error.status(), error.body_text())),
        Err(_) => {
            let text = format!("the body did not arrive within {SLOWEST_BODY:?}");
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, text))
        }
    }
}
