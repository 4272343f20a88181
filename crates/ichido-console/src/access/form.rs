//! Forms that only a page of this console can send: [`CheckedForm`] reads one and looks at its hidden field `csrf`. That no other site sent it,
//! `headers::guard` has seen before.

use axum::{
    extract::{FromRequest, Request},
    http::{StatusCode, header},
    response::Response,
};

use super::{peer, refused};
use crate::{
    Console, Problem,
    api::{MOST_BYTES, read},
    fields::Fields,
};

/// The hidden field.
pub(crate) const FIELD: &str = "csrf";

/// The fields of a form that was sent from a page of this console by whoever got that page.
#[derive(Debug, Clone)]
pub struct CheckedForm(pub Fields);

impl FromRequest<Console> for CheckedForm {
    type Rejection = Response;

    async fn from_request(request: Request, console: &Console) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let who = console.0.access.who(&parts.headers, peer(&parts.extensions));
        let who = who.map_err(|problem| refused(console, &parts, None, problem))?;
        let refuse = |problem| refused(console, &parts, Some(&who), problem);
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("application/x-www-form-urlencoded") {
            return Err(refuse(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected a form")));
        }
        let body = read(Request::from_parts(parts.clone(), body), MOST_BYTES).await.map_err(refuse)?;
        let fields = Fields::parse(&body);
        fields.refuse_nul().map_err(refuse)?;
        if fields.get(FIELD).is_none_or(|given| !is_equal(given, &who.form_token)) {
            let text = "this form is not from a page that you have open now; go back, reload it and try again";
            return Err(refuse(Problem::new(StatusCode::FORBIDDEN, text)));
        }
        Ok(CheckedForm(fields))
    }
}

/// Takes as long for every answer.
fn is_equal(one: &str, other: &str) -> bool {
    let differs = one.bytes().zip(other.bytes()).fold(0, |differs, (one, other)| differs | (one ^ other));
    one.len() == other.len() && differs == 0
}
