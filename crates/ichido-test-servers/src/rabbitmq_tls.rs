//! A RabbitMQ that speaks TLS too. The node itself makes the certificates, valid
//! for a week, so that no other program is needed.

use std::net::TcpStream;

use super::RabbitMq;
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

impl RabbitMq {
    /// Opens a port with TLS and returns the vhost's URL there, and the
    /// certificates to trust, in PEM.
    ///
    /// # Panics
    ///
    /// If the node refuses.
    #[must_use]
    pub fn encrypted(&self, vhost_url: &str) -> (String, String) {
        let port = free_port();
        let listen = LISTEN.replace("PORT", &port.to_string()).replace('\n', " ");
        let pem = self.eval(&format!("file:write_file(\"ca.pem\", base64:decode(begin {listen} end))"));
        assert_eq!(pem, "ok");
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            look_again();
        }
        let pem = std::fs::read_to_string(self.folder().join("ca.pem")).expect("its certificates");
        let address = self.address().to_string();
        (vhost_url.replace("amqp://", "amqps://").replace(&address, &format!("localhost:{port}")), pem)
    }
}
