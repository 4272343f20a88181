//! Where a request comes from, as browsers tell: one that changes something must come from a page of this console, and without tokens every
//! request must name this host by one of its own names, or a page elsewhere could reach it through a name that it controls (DNS rebinding).

use axum::http::{HeaderMap, Uri, header};

/// Is the request to this host itself?
pub(crate) fn is_local(headers: &HeaderMap, uri: &Uri) -> bool {
    let Some(host) = host(headers, uri) else { return false };
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Did no other site make a browser send it? Programs that are no browsers say nothing about it.
pub(crate) fn is_same_origin(headers: &HeaderMap, uri: &Uri) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let fetched = text(header::HeaderName::from_static("sec-fetch-site"));
    if fetched.is_some_and(|site| site != "same-origin" && site != "none") {
        return false;
    }
    let Some(origin) = text(header::ORIGIN) else { return true };
    let from = origin.split_once("://").map(|(_, host)| host);
    from.is_some() && from == host(headers, uri)
}

/// The host that is asked.
fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    headers.get(header::HOST).and_then(|value| value.to_str().ok()).or_else(|| uri.host())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_names_of_this_host_are_local() {
        let local = |host| is_local(&headers(&[("host", host)]), &Uri::from_static("/"));
        for host in ["localhost", "LOCALHOST:7070", "127.0.0.1:7070", "[::1]:7070", "[::1]", "127.8.9.1"] {
            assert!(local(host), "{host}");
        }
        for host in ["evil.example:7070", "192.0.2.1", "localhost.evil.example", "", "[2001:db8::1]:7070"] {
            assert!(!local(host), "{host}");
        }
        assert!(!is_local(&HeaderMap::new(), &Uri::from_static("/")));
    }

    #[test]
    fn what_another_site_sends_is_refused() {
        let same = |pairs: &[_]| is_same_origin(&headers(pairs), &Uri::from_static("/"));
        assert!(same(&[("host", "h:1")]), "a program");
        assert!(same(&[("host", "h:1"), ("origin", "http://h:1"), ("sec-fetch-site", "same-origin")]));
        assert!(!same(&[("host", "h:1"), ("origin", "http://h:2")]));
        assert!(!same(&[("host", "h:1"), ("origin", "null")]));
        assert!(!same(&[("host", "h:1"), ("sec-fetch-site", "cross-site")]));
        assert!(!same(&[("host", "h:1"), ("sec-fetch-site", "same-site")]));
    }
}
