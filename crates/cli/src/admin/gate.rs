//! Who may ask: the token, and what a web page on this machine must not do.

use hyper::Method;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN};

use super::node::{Refusal, RefusalKind};

/// Judges the head of a request before anything else is read.
#[derive(Clone)]
pub(crate) struct Gate {
    token: Option<String>,
}

/// Without the token.
impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate that asks for this token, or for none.
    pub(crate) fn new(token: Option<String>) -> Self {
        Self { token }
    }

    /// Lets a request pass or says why not.
    ///
    /// Without a token the endpoint trusts everything on this machine, and so it would trust a browser that shows a
    /// hostile page. Such a request has an `Origin`, a foreign `Host` after a name was pointed at loopback, or a body
    /// that is not called JSON, which a page cannot send to a stranger unasked.
    pub(crate) fn admit(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        if let Some(token) = &self.token {
            let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
            let given = given.and_then(|value| value.strip_prefix(b"Bearer "));
            if !given.is_some_and(|given| same(given, token.as_bytes())) {
                return Err(Refusal::new(
                    RefusalKind::Unauthorized,
                    "this endpoint needs its token: set SPOTLANE_TOKEN, or the header `Authorization: Bearer TOKEN`",
                ));
            }
        } else if !headers
            .get(HOST)
            .is_some_and(|host| is_loopback(host.as_bytes()))
        {
            return Err(Refusal::new(
                RefusalKind::Unauthorized,
                "without a token only localhost, 127.0.0.1 and [::1] are hosts",
            ));
        }
        if headers.contains_key(ORIGIN) {
            return Err(Refusal::new(
                RefusalKind::Unauthorized,
                "web pages may not ask",
            ));
        }
        let json = headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| is_json(kind.as_bytes()));
        if method == Method::POST && !json {
            return Err(Refusal::new(
                RefusalKind::InvalidOperation,
                "a POST needs the header `Content-Type: application/json`",
            ));
        }
        Ok(())
    }
}

/// Compares without telling by its time how much of it was right.
fn same(given: &[u8], token: &[u8]) -> bool {
    let differences = given
        .iter()
        .zip(token)
        .fold(0, |all, (left, right)| all | (left ^ right));
    given.len() == token.len() && std::hint::black_box(differences) == 0
}

fn is_loopback(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

fn is_json(kind: &[u8]) -> bool {
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn judge(
        token: Option<&str>,
        method: Method,
        headers: &[(HeaderName, &'static str)],
    ) -> Result<(), RefusalKind> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect();
        let gate = Gate::new(token.map(ToOwned::to_owned));
        gate.admit(&method, &headers)
            .map_err(|refusal| refusal.kind)
    }

    #[test]
    fn only_the_whole_token_opens() {
        let get = |value| judge(Some(TOKEN), Method::GET, &[(AUTHORIZATION, value)]);
        assert_eq!(get("Bearer 0123456789abcdef"), Ok(()));
        for wrong in [
            "",
            "Bearer ",
            "0123456789abcdef",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Basic 0123456789abcdef",
        ] {
            assert_eq!(get(wrong), Err(RefusalKind::Unauthorized), "{wrong}");
        }
        assert_eq!(
            judge(Some(TOKEN), Method::GET, &[]),
            Err(RefusalKind::Unauthorized)
        );
    }

    #[test]
    fn without_a_token_only_loopback_names_are_hosts() {
        let get = |value| judge(None, Method::GET, &[(HOST, value)]);
        for host in [
            "localhost",
            "localhost:7700",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:80",
        ] {
            assert_eq!(get(host), Ok(()), "{host}");
        }
        for host in [
            "",
            "example.org",
            "example.org:80",
            "127.0.0.1.example.org",
            "localhost:80:evil",
        ] {
            assert_eq!(get(host), Err(RefusalKind::Unauthorized), "{host}");
        }
        assert_eq!(
            judge(None, Method::GET, &[]),
            Err(RefusalKind::Unauthorized)
        );
    }

    #[test]
    fn a_web_page_cannot_give_orders() {
        let host = (HOST, "localhost");
        let json = (CONTENT_TYPE, "application/json; charset=utf-8");
        let post = |headers: &[_]| judge(None, Method::POST, headers);
        assert_eq!(post(&[host.clone(), json.clone()]), Ok(()));
        assert_eq!(
            post(&[host.clone(), json, (ORIGIN, "null")]),
            Err(RefusalKind::Unauthorized)
        );
        assert_eq!(
            post(&[host.clone(), (CONTENT_TYPE, "text/plain")]),
            Err(RefusalKind::InvalidOperation)
        );
        assert_eq!(post(&[host]), Err(RefusalKind::InvalidOperation));
    }
}
