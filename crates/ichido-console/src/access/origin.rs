//! Where a request comes from. As browsers tell: one that changes something must come from a page of this console. And without tokens every request
//! must come from this host itself, through no proxy, and name it by one of its own names, or a page elsewhere could reach it through a name that it
//! controls (DNS rebinding).

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, Uri, header};

/// What a proxy adds to what it passes on.
const BY_PROXIES: [HeaderName; 2] = [header::FORWARDED, HeaderName::from_static("x-forwarded-for")];

/// Why a console without tokens does not answer this request, which comes from this address.
pub(crate) fn why_not_here(headers: &HeaderMap, uri: &Uri, peer: Option<IpAddr>) -> Option<&'static str> {
    if !peer.is_some_and(|peer| peer.is_loopback()) {
        return Some(if peer.is_some() { FROM_ELSEWHERE } else { FROM_NOBODY });
    }
    if BY_PROXIES.iter().any(|name| headers.contains_key(name)) {
        return Some(THROUGH_A_PROXY);
    }
    (!is_local(headers, uri))
        .then_some("without tokens, this console answers only requests to localhost, 127.0.0.1 and [::1]")
}

const FROM_ELSEWHERE: &str =
    "without tokens, this console answers only this host itself; give it tokens, so that others can log in";
const FROM_NOBODY: &str = "without tokens, this console answers only this host itself, and where this request comes from is not known; give it \
                           tokens, or serve it with `into_make_service_with_connect_info::<SocketAddr>()`";
const THROUGH_A_PROXY: &str = "without tokens, this console answers nothing that came through a proxy, which anybody may have asked; give it tokens \
                               (in ichido.toml: serve.tokens and serve.behind_proxy)";

/// Is the request to this host itself?
fn is_local(headers: &HeaderMap, uri: &Uri) -> bool {
    let Some(host) = host(headers, uri) else { return false };
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Did no other site make a browser send it? Programs that are no browsers say nothing about it.
pub(crate) fn is_same_origin(headers: &HeaderMap, uri: &Uri) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let fetched = text(HeaderName::from_static("sec-fetch-site"));
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
    fn without_tokens_only_this_host_itself_is_answered() {
        let why = |pairs: &[_], peer: Option<[u8; 4]>| {
            let local = headers(&[&[("host", "localhost")], pairs].concat());
            why_not_here(&local, &Uri::from_static("/"), peer.map(IpAddr::from))
        };
        let here = Some([127, 0, 0, 1]);
        assert_eq!(why(&[], here), None);
        assert_eq!(why(&[], Some([192, 0, 2, 7])), Some(FROM_ELSEWHERE));
        assert_eq!(why(&[], None), Some(FROM_NOBODY));
        for proxy in [("forwarded", "for=192.0.2.7"), ("x-forwarded-for", "192.0.2.7")] {
            assert_eq!(why(&[proxy], here), Some(THROUGH_A_PROXY), "{proxy:?}");
        }
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
