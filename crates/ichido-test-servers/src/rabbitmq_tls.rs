//! A RabbitMQ that speaks TLS too. The node itself makes the certificates, valid
//! for a week, so that no other program is needed.

use std::net::TcpStream;

use super::RabbitMq;
use super::certificates::write_for_server;
use super::port::free_port;
use super::processes::look_again;

/// Certificates for `localhost`, and a listener that shows them; answers the authority's own.
const LISTEN: &str = r#"
    K = [{key, {rsa, 2048, 65537}}, {digest, sha256}],
    San = {'Extension', {2,5,29,17}, false, [{dNSName, "localhost"}]},
    #{server_config := S, client_config := C} = public_key:pkix_test_data(#{
        server_chain => #{root => K, intermediates => [], peer => [{extensions, [San]} | K]},
        client_chain => #{root => K, intermediates => [], peer => K}}),
    {ok, _} = application:ensure_all_started(ssl),
    ok = rabbit_networking:start_ssl_listener({"127.0.0.1", PORT}, S, 10),
    base64:encode(public_key:pem_encode([{'Certificate', D, not_encrypted} || D <- proplists:get_value(cacerts, C)]))
"#;

/// A listener with the certificates of [`certificates`](crate::certificates), for those who show the client's.
const CERTIFIED: &str = r#"
    {ok, _} = application:ensure_all_started(ssl),
    ok = rabbit_networking:start_ssl_listener({"127.0.0.1", PORT}, [{cacertfile, "ca.pem"}, {certfile, "server.pem"},
        {keyfile, "server.key"}, {verify, verify_peer}, {fail_if_no_peer_cert, true}], 10)
"#;

impl RabbitMq {
    /// Opens a port with TLS for those who show the client's certificate of [`certificates`](crate::certificates), and returns the vhost's URL there.
    ///
    /// # Panics
    ///
    /// If the node refuses.
    #[must_use]
    pub fn certified(&self, vhost_url: &str) -> String {
        let files = write_for_server(self.folder());
        let [ca, server, key] = files.map(|file| file.to_str().expect("a path in UTF-8").to_owned());
        let listen = CERTIFIED.replace("ca.pem", &ca).replace("server.pem", &server).replace("server.key", &key);
        let port = self.listen(&listen);
        self.encrypted_url(vhost_url, port)
    }

    /// Opens a port, which takes the place of `PORT` in this Erlang, and returns when it is open.
    fn listen(&self, erlang: &str) -> u16 {
        let port = free_port();
        assert_eq!(self.eval(&erlang.replace("PORT", &port.to_string()).replace('\n', " ")), "ok");
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            look_again();
        }
        port
    }

    fn encrypted_url(&self, vhost_url: &str, port: u16) -> String {
        let address = self.address().to_string();
        vhost_url.replace("amqp://", "amqps://").replace(&address, &format!("localhost:{port}"))
    }

    /// Opens a port with TLS and returns the vhost's URL there, and the
    /// certificates to trust, in PEM.
    ///
    /// # Panics
    ///
    /// If the node refuses.
    #[must_use]
    pub fn encrypted(&self, vhost_url: &str) -> (String, String) {
        let port = self.listen(&format!("file:write_file(\"own-ca.pem\", base64:decode(begin {LISTEN} end))"));
        let pem = std::fs::read_to_string(self.folder().join("own-ca.pem")).expect("its certificates");
        (self.encrypted_url(vhost_url, port), pem)
    }
}
