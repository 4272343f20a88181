//! Lists with more than a page has: on to the next page, and back to the first.

use axum::http::StatusCode;
use serde_json::json;

use super::desk::Desk;

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
