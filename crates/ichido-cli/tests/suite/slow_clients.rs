//! Clients of `ichido serve` that are slow or never end: they keep nobody else out, and no connection open.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    serving::{ANYWHERE, address, ask, with_token},
    testenv::{Env, Kind},
};

/// More connections than there may be, each with a form that never ends: the oldest makes room, long before its time is over.
#[tokio::test]
async fn slow_clients_keep_nobody_out() {
    let env = Env::new(Kind::Sqlite).await;
    with_token(&env);
    let mut console = env.start("console", &ANYWHERE);
    let at = address(&console).await;
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(&at).await.unwrap();
        stream.write_all(b"POST /login HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nt").await.unwrap();
        slow.push(stream);
    }
    let asked = tokio::time::timeout(Duration::from_mins(2), ask(&at, "GET", "/livez", "", "")).await;
    assert_eq!(asked.expect("an answer").0, 200);
    let mut told = Vec::new();
    let ended = tokio::time::timeout(Duration::from_mins(2), slow[0].read_to_end(&mut told)).await;
    assert!(ended.is_ok() && told.is_empty(), "it is ended without an answer: {}", String::from_utf8_lossy(&told));
    drop(slow);
    console.stop().await;
}

/// Neither silence nor a byte now and then keeps a connection open.
#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let env = Env::new(Kind::Sqlite).await;
    with_token(&env);
    let mut console = env.start("console", &ANYWHERE);
    let at = address(&console).await;
    let beginnings: [&[u8]; 3] = [b"", b"GET /livez HTTP/1.1\r\n", b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"];
    let ended = beginnings.map(|beginning| {
        let at = at.clone();
        tokio::spawn(async move {
            let (mut from, mut to) = TcpStream::connect(&at).await.unwrap().into_split();
            to.write_all(beginning).await.unwrap();
            let drip = async {
                while beginning.ends_with(b"1.1\r\n") && to.write_all(b"a").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                std::future::pending::<()>().await;
            };
            let mut all = Vec::new();
            tokio::select! {
                () = drip => {}
                _ = from.read_to_end(&mut all) => {}
            }
        })
    });
    for (beginning, ended) in beginnings.iter().zip(ended) {
        let ended = tokio::time::timeout(Duration::from_mins(2), ended).await;
        ended.unwrap_or_else(|_| panic!("still open after {:?}", String::from_utf8_lossy(beginning))).unwrap();
    }
    console.stop().await;
}
