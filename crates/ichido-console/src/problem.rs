//! Why a request was not answered as it was asked for, as `application/problem+json` (RFC 9457) for programs. Pages show the same text
//! (`pages::problem`).

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use ichido::{Error, Store};
use serde::Serialize;

/// Why a request was not answered as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The status of the response.
    pub status: StatusCode,
    /// What happened, to what, and what to do.
    pub detail: String,
    /// After so many seconds it may be tried again.
    pub retry_after: Option<u64>,
}

/// As it is written.
#[derive(Serialize)]
struct Body<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
}

impl Problem {
    /// With this status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Problem { status, detail: detail.into(), retry_after: None }
    }

    /// The request cannot be understood.
    pub fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// There is no such thing.
    pub fn nowhere(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// It is understood, and cannot be done as it is.
    pub fn refused(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// It must be tried again later.
    pub fn later(status: StatusCode, seconds: u64, detail: impl Into<String>) -> Self {
        Problem { retry_after: Some(seconds), ..Self::new(status, detail) }
    }

    /// What a store said.
    #[must_use]
    pub fn of<S: Store>(error: &Error) -> Self {
        let detail = format!("{error:#}");
        match error {
            Error::Setup(_) | Error::Refused(_) => Self::refused(detail),
            error if error.is_fault::<S>() => Self::later(StatusCode::SERVICE_UNAVAILABLE, 5, detail),
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail),
        }
    }

    /// What happened, in a word.
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.status.canonical_reason().unwrap_or("Problem")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body =
            Body { r#type: "about:blank", title: self.title(), status: self.status.as_u16(), detail: &self.detail };
        let text = serde_json::to_string(&body).unwrap_or_default();
        let mut response = (self.status, text).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"ichido\""));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
