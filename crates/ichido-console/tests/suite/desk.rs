//! A console on a SQLite database of its own, and how it is asked.

#![allow(unreachable_pub, reason = "a part of the tests' world")]

use std::net::Ipv4Addr;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode, header},
    response::Response,
};
use ichido::{
    Operate, Queue,
    lanes::{LaneSet, Level, Policy},
};
use ichido_console::access::Peer;
use ichido_console::{Builder, Console, Role, Token};
use ichido_sqlite::{
    Sqlite,
    sqlx::{self, Connection as _},
};
use tempfile::TempDir;
use tower_service::Service;

/// A console, and the folder with its database.
pub struct Desk {
    pub router: Router,
    url: String,
    _folder: TempDir,
}

/// The secret of a role's token.
pub fn secret(role: Role) -> String {
    format!("{}-0123456789abcdef0123456789abcdef", role.as_str())
}

impl Desk {
    /// With a token for each role.
    pub async fn with_tokens() -> Self {
        Desk::new(&Role::ALL).await
    }

    pub async fn new(roles: &[Role]) -> Self {
        Desk::built(roles, |console| console).await
    }

    /// With what else the console is told.
    pub async fn built(roles: &[Role], more: impl FnOnce(Builder<Sqlite>) -> Builder<Sqlite>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("x.db").display());
        let queues = ["hello", "members", "everybody"].map(Queue::managed);
        let store = Sqlite::new(&url, queues.to_vec()).unwrap();
        store.migrate().await.unwrap();
        let set = LaneSet::new("site", Policy::Weighted);
        let set = set.level(Level::new("member", "members")).level(Level::new("free", "everybody"));
        let mut builder =
            Console::builder(store).queues(["hello", "members", "everybody"]).lanes(set, vec![None, None]);
        for role in roles {
            builder = builder.token(Token::new(role.as_str(), *role, &secret(*role)).unwrap());
        }
        Desk { router: more(builder).build().router(), url, _folder: folder }
    }

    /// As somebody else who uses the database.
    pub async fn sql(&self, statement: &'static str) {
        let mut connection = sqlx::SqliteConnection::connect(&self.url).await.unwrap();
        sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// From this host.
    pub async fn ask(&self, mut request: Request<Body>) -> Response {
        request.extensions_mut().insert(Peer(Ipv4Addr::LOCALHOST.into()));
        self.ask_as_it_is(request).await
    }

    /// With nothing that tells from where, unless the request has it.
    pub async fn ask_as_it_is(&self, request: Request<Body>) -> Response {
        self.router.clone().call(request).await.unwrap()
    }

    /// As a program with this role's token.
    pub async fn api(&self, role: Option<Role>, method: &str, path: &str, body: &str) -> (StatusCode, String) {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        if let Some(role) = role {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", secret(role)));
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        read(self.ask(request.body(Body::from(body.to_owned())).unwrap()).await).await
    }
}

pub async fn read(response: Response) -> (StatusCode, String) {
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 24).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}
