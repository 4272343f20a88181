//! Where the service is, who we are there, and how it is called: every call ends in time. Region and credentials come from the usual AWS
//! places (environment, profile files, web identity, container, instance), unless they are given. The client is made when it is first needed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use aws_config::{
    BehaviorVersion, Region, environment::EnvironmentVariableRegionProvider, meta::region::RegionProviderChain,
    profile::ProfileFileRegionProvider, retry::RetryConfig, stalled_stream_protection::StalledStreamProtectionConfig,
    timeout::TimeoutConfig,
};
use aws_sdk_sqs::{
    Client,
    config::Credentials,
    error::{ProvideErrorMetadata, SdkError},
    types::QueueAttributeName as Name,
};
use tokio::{sync::OnceCell, time::timeout};

use crate::{Error, Result, http};

/// How long a call may take, beside the time that it waits for messages.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(15);

const CONNECT: Duration = Duration::from_secs(5);

/// So often the SDK tries a call itself. What is sent twice by that is a duplicate, which runs once.
const TRIES: u32 = 3;

/// What the signature needs where the endpoint is not one of AWS.
const ANY_REGION: &str = "us-east-1";

/// SQS in one region, or another service at an endpoint. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    region: Option<String>,
    endpoint: Option<String>,
    credentials: Option<Credentials>,
    client: OnceCell<Client>,
    /// The addresses of queues, by name.
    urls: Mutex<HashMap<String, String>>,
}

impl Server {
    /// In this region, or the one of the environment; at this endpoint, or the region's.
    #[must_use]
    pub fn new(region: Option<&str>, endpoint: Option<&str>) -> Self {
        Self::with(region, endpoint, None)
    }

    /// The same as whoever has this access key and its secret.
    #[must_use]
    pub fn as_user(region: Option<&str>, endpoint: Option<&str>, (key, secret): (&str, &str)) -> Self {
        Self::with(region, endpoint, Some(Credentials::new(key, secret, None, None, "ichido")))
    }

    fn with(region: Option<&str>, endpoint: Option<&str>, credentials: Option<Credentials>) -> Self {
        let (region, endpoint) = (region.map(str::to_owned), endpoint.map(str::to_owned));
        let (client, urls) = (OnceCell::new(), Mutex::default());
        Self(Arc::new(Inner { region, endpoint, credentials, client, urls }))
    }

    /// Where the address of this queue says; what is given takes precedence.
    ///
    /// # Errors
    /// [`Error::Setup`] if it is not the address of a queue.
    pub fn of_url(url: &str, region: Option<&str>, endpoint: Option<&str>) -> Result<Self> {
        let not_one = || {
            Error::Setup(format!(
                "{url:?} is not the URL of a queue, such as https://sqs.eu-central-1.amazonaws.com/123456789012/orders"
            ))
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(not_one)?;
        let (host, path) = rest.split_once('/').ok_or_else(not_one)?;
        if host.is_empty() || path.rsplit('/').next().is_none_or(str::is_empty) {
            return Err(not_one());
        }
        let parts: Vec<&str> = host.split('.').collect();
        let in_aws = match parts[..] {
            ["sqs", region, "amazonaws", ..] | [region, "queue", "amazonaws", ..] => Some(region),
            _ => None,
        };
        let own = in_aws.is_none().then(|| format!("{scheme}://{host}"));
        Ok(Self::new(region.or(in_aws), endpoint.or(own.as_deref())))
    }

    /// Where it is, as far as that was given.
    #[must_use]
    pub fn address(&self) -> String {
        match (&self.0.endpoint, &self.0.region) {
            (Some(endpoint), _) => endpoint.clone(),
            (None, Some(region)) => format!("SQS in {region}"),
            (None, None) => "SQS in the region of the environment".to_owned(),
        }
    }

    /// The client, made when it is first asked for.
    pub(crate) async fn client(&self) -> Result<&Client> {
        self.0.client.get_or_try_init(|| self.connected()).await
    }

    async fn connected(&self) -> Result<Client> {
        let Inner { region, endpoint, credentials, .. } = &*self.0;
        let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT).build();
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .http_client(http::client())
            .timeout_config(timeouts)
            .retry_config(RetryConfig::standard().with_max_attempts(TRIES))
            // A long poll is silent for its whole time.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        if let Some(region) = region {
            loader = loader.region(Region::new(region.clone()));
        } else if endpoint.is_some() {
            let given = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new());
            loader = loader.region(given.or_else(ProfileFileRegionProvider::new()).or_else(ANY_REGION));
        }
        if let Some(credentials) = credentials {
            loader = loader.credentials_provider(credentials.clone());
        }
        let known = timeout(TIMEOUT, loader.load()).await;
        let known = known.map_err(|_| Error::Setup("the AWS configuration could not be known in time".to_owned()))?;
        if known.region().is_none() {
            return Err(Error::Setup("no AWS region is known; set `region`, or AWS_REGION".to_owned()));
        }
        let mut config = aws_sdk_sqs::config::Builder::from(&known);
        if let Some(endpoint) = endpoint {
            config = config.endpoint_url(endpoint);
        }
        Ok(Client::from_conf(config.build()))
    }

    /// The address of a queue; those that are only named are asked for once.
    pub(crate) async fn url(&self, queue: &str) -> Result<String> {
        if queue.contains("://") {
            return Ok(queue.to_owned());
        }
        if let Some(known) = self.urls().get(queue) {
            return Ok(known.clone());
        }
        let call = self.client().await?.get_queue_url().queue_name(queue).send();
        let found = self.answer(&format!("looking for queue {queue:?}"), TIMEOUT, call).await?;
        let url = found.queue_url.unwrap_or_default();
        self.urls().insert(queue.to_owned(), url.clone());
        Ok(url)
    }

    /// What is set at a queue, and counted there.
    pub(crate) async fn attributes(&self, queue: &str, names: &[Name]) -> Result<HashMap<Name, String>> {
        let url = self.url(queue).await?;
        let call = self.client().await?.get_queue_attributes().queue_url(url);
        let call = call.set_attribute_names(Some(names.to_vec())).send();
        let found = self.answer(&format!("inspecting queue {queue:?}"), TIMEOUT, call).await;
        if let Err(Error::Missing(_)) = found {
            self.urls().remove(queue);
        }
        Ok(found?.attributes.unwrap_or_default())
    }

    fn urls(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.0.urls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a call, in time.
    pub(crate) async fn answer<T, E>(
        &self,
        doing: &str,
        within: Duration,
        call: impl Future<Output = Result<T, SdkError<E>>>,
    ) -> Result<T>
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        match timeout(within, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(Error::of(doing, &self.address(), &error)),
            Err(_) => Err(Error::Unreachable {
                address: self.address(),
                why: format!("{doing}: no answer within {} s", within.as_secs()),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_queue_says_where_it_is() {
        let of = |url| Server::of_url(url, None, None).expect("a queue").address();
        assert_eq!(of("https://sqs.eu-central-1.amazonaws.com/123456789012/orders"), "SQS in eu-central-1");
        assert_eq!(of("https://sqs.cn-north-1.amazonaws.com.cn/1/orders"), "SQS in cn-north-1");
        assert_eq!(of("http://127.0.0.1:4566/000000000000/orders"), "http://127.0.0.1:4566");
        for url in ["orders", "https://h", "https://h/", "https:///x"] {
            assert!(Server::of_url(url, None, None).is_err(), "{url}");
        }
    }
}
