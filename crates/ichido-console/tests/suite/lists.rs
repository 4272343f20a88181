//! Lists with more than a page has: on to the next page, and back to the first.

use axum::http::StatusCode;
use serde_json::json;

use super::{
    desk::Desk,
    rubbish::{form_token, sent},
};

/// More than a page of a queue has, and less than two.
const SENT: usize = 60;

/// What this page links to by this name.
fn link(page: &str, name: &str) -> Option<String> {
    let before = page.split(&format!(">{name}</a>")).next().filter(|before| before.len() < page.len())?;
    let (_, address) = before.rsplit_once("<a href=\"")?;
    Some(address.trim_end_matches('"').replace("&#38;", "&").replace("&amp;", "&"))
}

#[tokio::test]
async fn a_later_page_leads_back_to_the_first() {
    let desk = Desk::new(&[]).await;
    let messages: Vec<_> = (0..SENT).map(|number| json!({ "payload": { "name": number.to_string() } })).collect();
    let body = json!({ "messages": messages }).to_string();
    let (status, text) = desk.api(None, "POST", "/api/v1/queues/hello/messages", &body).await;
    assert_eq!(status, StatusCode::CREATED, "{text}");
    let first = desk.api(None, "GET", "/queue?name=hello&state=ready", "").await.1;
    assert_eq!(link(&first, "First page"), None, "this is it");
    let next = link(&first, "Next page").expect("a next page");
    let second = desk.api(None, "GET", &next, "").await.1;
    assert!(second.contains("10 on this page") && link(&second, "Next page").is_none(), "{second}");
    let back = link(&second, "First page").expect("a way back");
    assert_eq!(back, "/queue?name=hello&state=ready");
    let after = next.split_once("&after=").expect("a place").1;
    assert!(second.contains(&format!("&amp;after={after}\">")), "what is done here leads back to here");
    let beyond = desk.api(None, "GET", "/failed?after=hello%2F9", "").await.1;
    assert!(beyond.contains("Nothing is left on this page") && link(&beyond, "First page").is_some(), "{beyond}");
}

/// So that no page reads all that has ever failed.
#[tokio::test]
async fn a_search_for_an_error_goes_on_on_the_next_page() {
    let desk = Desk::new(&[]).await;
    let many = "with recursive n(n) as (select 1 union all select n + 1 from n where n < 10500) \
                insert into ichido_parked (queue, key, state, attempts, parked_at, history) \
                select 'hello', n, 'dead', 1, '2026-11-18T10:00:00.000Z', \
                '[{\"attempt\":1,\"at\":\"2026-11-18 10:00:00\",\"error\":\"' || case when n = 9999 then 'rare' else 'common' end || '\"}]' from n";
    desk.sql(many).await;
    let first = desk.api(None, "GET", "/failed?error=rare", "").await.1;
    assert!(first.contains("Nothing matches so far"), "{first}");
    let second = desk.api(None, "GET", &link(&first, "Next page").expect("a next page"), "").await.1;
    assert!(second.contains("hello/9999") && link(&second, "Next page").is_none(), "{second}");
}

/// Many more have failed than anybody counts, and than groups are made of.
#[tokio::test]
async fn what_was_not_counted_to_the_end_is_told_so() {
    let desk = Desk::new(&[]).await;
    let many = "with recursive n(n) as (select 1 union all select n + 1 from n where n < 100500) \
                insert into ichido_parked (queue, key, state, attempts, parked_at, history) \
                select 'hello', n, 'dead', 1, '2026-11-18T10:00:00.000Z', \
                '[{\"attempt\":1,\"at\":\"2026-11-18 10:00:00\",\"error\":\"no address\"}]' from n";
    desk.sql(many).await;
    let page = desk.api(None, "GET", "/failed", "").await.1;
    assert!(page.contains("≥ 100,000 messages wait for you"), "{page}");
    assert!(page.contains("data-live>≥ 100,000</span>"), "in the menu too: {page}");
    assert!(page.contains("of the first 1,000") && page.contains("≥ 1,000</span>"), "{page}");
    assert!(!page.contains("1,001"), "no group has more than were looked at: {page}");
}

/// What a message was sent with is shown, and what is masked is masked there.
#[tokio::test]
async fn a_message_is_shown_with_what_it_was_sent_with() {
    let desk = Desk::built(&[], |console| console.mask(ichido::Masks::new(["x-token"]))).await;
    let one = json!({ "payload": { "x-token": "s3cret" }, "unique": "order-7 s3cret", "attempts": 9, "headers": { "x-tenant": "blue", "X-Token": "h1dden" } });
    let (status, text) =
        desk.api(None, "POST", "/api/v1/queues/hello/messages", &json!({ "messages": [one] }).to_string()).await;
    assert_eq!(status, StatusCode::CREATED, "{text}");
    let (_, text) = desk.api(None, "GET", "/api/v1/messages/hello%2F1", "").await;
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["headers"], json!({ "x-tenant": "blue", "X-Token": "***" }));
    assert_eq!(
        (&told["unique"], &told["most_attempts"], &told["attempts"]),
        (&json!("order-7 ***"), &json!(9), &json!(0))
    );
    let page = desk.api(None, "GET", "/message?id=hello%2F1", "").await.1;
    for there in
        ["x-tenant</dt><dd>blue", "X-Token</dt><dd>***", "Unique key</dt><dd>order-7 ***", "0 of 9, as its sender says"]
    {
        assert!(page.contains(there), "{there}: {page}");
    }
    assert!(!page.contains("s3cret") && !page.contains("h1dden"), "{page}");
}

/// The same times as on the command line.
#[tokio::test]
async fn a_time_may_have_an_offset() {
    let desk = Desk::new(&[]).await;
    let one = json!({ "messages": [{ "payload": 1, "at": "2099-12-24T18:00:00+01:00" }] });
    let (status, text) = desk.api(None, "POST", "/api/v1/queues/hello/messages", &one.to_string()).await;
    assert_eq!(status, StatusCode::CREATED, "{text}");
    let (_, text) = desk.api(None, "GET", "/api/v1/messages/hello%2F1", "").await;
    assert!(text.contains("2099-12-24T17:00:00"), "{text}");
    let (status, page) = desk.api(None, "GET", "/failed?older=1h30m", "").await;
    assert_eq!(status, StatusCode::OK, "{page}");
}

/// Nobody owns it and nothing says why: only the doctor can help.
#[tokio::test]
async fn a_message_that_nobody_owns_leads_to_the_doctor() {
    let desk = Desk::new(&[]).await;
    let one = json!({ "messages": [{ "payload": 1 }] }).to_string();
    desk.api(None, "POST", "/api/v1/queues/hello/messages", &one).await;
    desk.sql("update ichido_message set owner = '00000000-0000-0000-0000-000000000000'").await;
    let page = desk.api(None, "GET", "/message?id=hello%2F1", "").await.1;
    assert!(page.contains("<a href=\"/doctor\">Open the doctor</a>"), "{page}");
}

/// All or none, and once.
#[tokio::test]
async fn each_line_of_a_form_may_be_a_message() {
    let desk = Desk::new(&[]).await;
    let form = |csrf: &str, payload: &str| format!("csrf={csrf}&key=k&to=hello&many=yes&payload={payload}");
    let csrf = form_token(&desk, "").await;
    let count = async || desk.api(None, "GET", "/api/v1/messages?queue=hello", "").await.1.matches("\"id\"").count();
    let (status, page) = sent(&desk, "/send", "", form(&csrf, "1%0Ax").into()).await;
    assert!(status == StatusCode::BAD_REQUEST && page.contains("line 2 of the payload is not JSON"), "{status} {page}");
    assert_eq!(count().await, 0, "none");
    for _ in 0..2 {
        assert_eq!(sent(&desk, "/send", "", form(&csrf, "1%0A2%0A3").into()).await.0, StatusCode::SEE_OTHER);
    }
    assert_eq!(count().await, 3, "once");
}
