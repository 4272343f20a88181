//! HTTP for a program that has the SDK and nothing of ichido's.

use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn},
    orchestrator::HttpRequest,
    result::ConnectorError,
};
use aws_smithy_types::body::SdkBody;
use hyper_util::{
    client::legacy::{Client, connect},
    rt::TokioExecutor,
};

pub(crate) fn client() -> SharedHttpClient {
    let http = SharedHttpConnector::new(Plain(Client::builder(TokioExecutor::new()).build_http()));
    http_client_fn(move |_, _| http.clone())
}

#[derive(Debug)]
struct Plain(Client<connect::HttpConnector, SdkBody>);

impl HttpConnector for Plain {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let answer = self.0.request(request.try_into_http1x().expect("a request"));
        HttpConnectorFuture::new(async move {
            let answer = answer.await.map_err(|error| ConnectorError::io(error.into()))?;
            Ok(answer.map(SdkBody::from_body_1_x).try_into().expect("an answer"))
        })
    }
}
